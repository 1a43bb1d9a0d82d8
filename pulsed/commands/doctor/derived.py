"""What each result is worked out from. Read off Compute's own tables and functions: a new rule changes this by itself.

A result that is worked out later is one more row of `DERIVED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulsed.compute.bounds import bounds_of
from pulsed.compute.derive import ComputeSettings
from pulsed.compute.real_utilization import real_utilization
from pulsed.compute.workload.class_table import RULES, VARIABLES, Variable
from pulsed.translate.fields import sources
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import NOTHING, QUANTITIES, Reading

Input = tuple[str, ...]
"""Quantities of which one is enough, the best one first."""

PIPES = tuple(f"{pipe}_active_ratio" for pipe in ("fp64", "fp32", "fp16", "integer"))
"""The activity of the other compute pipes."""

MEASURED_BY: Mapping[Variable, tuple[str, ...]] = {
    "sm": ("sm_active_ratio",),
    "tensor": ("tensor_active_ratio",),
    "dram": ("dram_active_ratio",),
    "graphics_engine": ("graphics_engine_active_ratio",),
    "fp64": ("fp64_active_ratio",),
    "real_utilization": (),  # its own inputs
    "io": ("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second"),
}
"""The quantities that settle each variable of the class table, all of them."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A result.

    Attributes:
        name: of its metric or, without the state, of its counter.
        inputs: what it needs with these settings.
        without: what becomes of it if one is missing.
    """

    name: str
    inputs: Callable[[ComputeSettings], tuple[Input, ...]]
    without: Callable[[ComputeSettings], str]

    def missing(self, reading: Reading, device: Device, settings: ComputeSettings) -> tuple[str, ...]:
        """Give the inputs that the reading of a device lacks, of several that would do the best."""
        lacking = []
        for choice in self.inputs(settings):
            possible = [quantity for quantity in choice if exists(quantity, device)]
            if possible and all(getattr(reading, quantity) is None for quantity in possible):
                lacking.append(possible[0])
        return tuple(lacking)


def exists(quantity: str, device: Device) -> bool:
    """Whether there is such a thing at all: what DCGM measures of a whole board only does not exist below one."""
    return device.whole or any(field.level != "board" for field in sources(quantity))


def _weighted(settings: ComputeSettings) -> tuple[Input, ...]:
    blind = real_utilization(NOTHING, bounds_of(NOTHING), settings.weights, min_coverage=settings.min_coverage)
    return tuple((quantity,) for quantity in blind.missing)


def _classifying(settings: ComputeSettings) -> tuple[Input, ...]:
    asked = {condition.variable for rule in RULES for condition in rule.conditions}
    quantities = [quantity for variable in VARIABLES if variable in asked for quantity in MEASURED_BY[variable]]
    if settings.profile == "kempnerpulse":  # its IO rule
        quantities.append("memory_utilization_ratio")
    weighted = [quantity for (quantity,) in _weighted(settings)] if "real_utilization" in asked else []
    return tuple((quantity,) for quantity in dict.fromkeys([*weighted, *quantities]))


def _judging(settings: ComputeSettings) -> tuple[Input, ...]:
    """Of every check, the quantities of which one is enough; not of those that only some GPUs need."""
    wanted = [
        tuple(name for name in check.inputs if name in QUANTITIES)
        for check in settings.health.checks()
        if not check.optional and not check.unless
    ]
    return tuple(dict.fromkeys(names for names in wanted if names))


DERIVED: tuple[Derived, ...] = (
    Derived(
        "real_utilization",
        _weighted,
        lambda settings: (
            f"its bounds are wider, and below a coverage of {settings.min_coverage:g} there is no value but them"
        ),
    ),
    Derived(
        "workload_class",
        _classifying,
        lambda settings: (
            "missing inputs count as 0 (compute.missing: zero)"
            if settings.missing == "zero"
            else "it is unknown whenever they could decide it"
        ),
    ),
    Derived(
        "saturation",
        lambda settings: (("tensor_active_ratio", *PIPES), ("dram_active_ratio",)),
        lambda settings: "there is none but its bounds",
    ),
    Derived(
        "class_energy_joules",
        lambda settings: (("energy_joules_total", "power_watts"),),
        lambda settings: "there is none",
    ),
    Derived(
        "idle_seconds",
        lambda settings: (("memory_used_bytes",),),
        lambda settings: "idle GPUs without a known pod or job are neither free nor held, but unknown",
    ),
    Derived("health", _judging, lambda settings: "the checks that need it are unknown, never ok"),
)
"""The results, in the order of their telling."""
