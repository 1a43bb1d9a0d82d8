"""The inputs of each result, from the declarations of derived results and counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pulsed.compute.declaration import Alternatives
from pulsed.compute.derived_results import DERIVED_RESULTS
from pulsed.compute.products import has_quantity, is_of_boards
from pulsed.compute.settings import ComputeSettings
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import Reading
from pulsed.reader.dcgmi.watch import is_profiling
from pulsed.translate.fields import sources


def is_profiled(quantity: str) -> bool:
    """Return whether profiling counters alone have a quantity."""
    origins = sources(quantity)
    return bool(origins) and all(is_profiling(field.id) for field in origins)


@dataclass(frozen=True, slots=True)
class Requirement:
    """The inputs of a result.

    Attributes:
        inputs: returns what it needs with the given settings.
        without: returns the effect of a missing input.
    """

    name: str
    inputs: Callable[[ComputeSettings], tuple[Alternatives, ...]]
    without: Callable[[ComputeSettings], str]

    def missing(
        self,
        reading: Reading,
        device: Device,
        settings: ComputeSettings,
        is_available: Callable[[str], bool] = lambda quantity: True,
        *,
        is_split: bool = False,
    ) -> tuple[str, ...]:
        """Return the inputs that the reading of a device lacks, each once.

        Args:
            is_available: whether the source can deliver a quantity; of alternatives the first such one is returned.
            is_split: whether it is a board with MIG instances. These have all readings that are not of boards only, and
                a split board has no profiling counters of its own.
        """
        lacking = []
        for alternatives in self.inputs(settings):
            possible = [quantity for quantity in alternatives if has_quantity(device, quantity)]
            if is_split and not all(is_of_boards(each) and not is_profiled(each) for each in possible):
                continue
            if possible and all(getattr(reading, quantity) is None for quantity in possible):
                lacking.append(next(filter(is_available, possible), possible[0]))
        return tuple(dict.fromkeys(lacking))


_COUNTERS = (
    Requirement(
        "class_energy_joules",
        lambda settings: (("energy_joules_total", "power_watts"),),
        lambda settings: "it is absent",
    ),
    Requirement(
        "idle_seconds",
        lambda settings: (("memory_used_bytes",),),
        lambda settings: "idle GPUs without a known pod or job count as unknown, neither free nor held",
    ),
)

_RESULTS = [Requirement(result.name, result.inputs, result.without) for result in DERIVED_RESULTS]

REQUIREMENTS: tuple[Requirement, ...] = tuple(sorted((*_RESULTS, *_COUNTERS), key=lambda each: each.name == "health"))
"""In the order of the report; health is last, because hardly any node has all of its inputs."""
