"""The inputs of each result, from the declarations of derived results and counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pulsed.compute.declaration import Alternatives
from pulsed.compute.derive import ComputeSettings
from pulsed.compute.derived_results import DERIVED_RESULTS
from pulsed.translate.fields import sources
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

    def missing(self, reading: Reading, device: Device, settings: ComputeSettings) -> tuple[str, ...]:
        """Return the inputs that the reading of a device lacks; of alternatives the first."""
        lacking = []
        for alternatives in self.inputs(settings):
            possible = [quantity for quantity in alternatives if exists(quantity, device)]
            if possible and all(getattr(reading, quantity) is None for quantity in possible):
                lacking.append(possible[0])
        return tuple(lacking)


def exists(quantity: str, device: Device) -> bool:
    """Return whether a device can have a quantity: DCGM measures some for whole boards only."""
    return device.whole or any(field.level != "board" for field in sources(quantity))


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
