"""The inputs of each result, from the declarations of derived results and counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pulsed.compute.declaration import Alternatives
from pulsed.compute.derive import ComputeSettings
from pulsed.compute.derived_results import DERIVED_RESULTS
from pulsed.compute.hardware import has_quantity
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import Reading


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
    ) -> tuple[str, ...]:
        """Return the inputs that the reading of a device lacks, each once.

        Args:
            is_available: whether the source can deliver a quantity; of alternatives the first such one is returned.
        """
        lacking = []
        for alternatives in self.inputs(settings):
            possible = [quantity for quantity in alternatives if has_quantity(device, quantity)]
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
