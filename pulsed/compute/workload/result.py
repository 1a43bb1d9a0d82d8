"""Declaration of the workload class and the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pulsed.compute.declaration import Alternatives, DerivedDetail, DerivedNumber, DerivedResult, DerivedState
from pulsed.compute.real_utilization import weighted_inputs
from pulsed.compute.workload.class_table import (
    BOTTLENECKS,
    UNKNOWN,
    VARIABLES,
    WORKLOAD_CLASSES,
    Profile,
    Variable,
    rules_of,
)

if TYPE_CHECKING:
    from pulsed.compute.derive import ComputeSettings

BOTTLENECK_STATES = (*BOTTLENECKS, UNKNOWN)

PCIE = ("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second")
C2C = ("c2c_transmit_bytes_per_second", "c2c_receive_bytes_per_second")

MEASURED_BY: Mapping[Variable, tuple[str, ...]] = {
    "sm": ("sm_active_ratio",),
    "tensor": ("tensor_active_ratio",),
    "dram": ("dram_active_ratio",),
    "graphics_engine": ("graphics_engine_active_ratio",),
    "fp64": ("fp64_active_ratio",),
    "real_utilization": (),  # has inputs of its own
    "io": (*PCIE, *C2C),
}
"""The quantities that determine each variable of the class table, all of them; superchips alone have those of C2C."""


def inputs_of_variables(profile: Profile) -> Mapping[Variable, tuple[str, ...]]:
    """Return `MEASURED_BY` with the inputs that a profile uses."""
    return MEASURED_BY if profile == "pulsed" else {**MEASURED_BY, "io": PCIE}


def _inputs(settings: ComputeSettings) -> tuple[Alternatives, ...]:
    used = {condition.variable for rule in rules_of(settings.profile) for condition in rule.conditions}
    measured_by = inputs_of_variables(settings.profile)
    quantities = [quantity for variable in VARIABLES if variable in used for quantity in measured_by[variable]]
    if settings.profile == "kempnerpulse":  # its IO rule
        quantities.append("memory_utilization_ratio")
    weighted = [quantity for (quantity,) in weighted_inputs(settings)] if "real_utilization" in used else []
    return tuple((quantity,) for quantity in dict.fromkeys([*weighted, *quantities]))


WORKLOAD = DerivedResult(
    name="workload_class",
    inputs=_inputs,
    without=lambda settings: (
        "missing inputs count as 0 (compute.missing: zero)"
        if settings.missing == "zero"
        else "it is unknown whenever they could decide it"
    ),
    values=(
        DerivedState(
            name="workload_class",
            help="Workload class, debounced: 1 for the current class, 0 for all others",
            states=WORKLOAD_CLASSES,
            get=lambda reading, result: result.held.workload_class,
            label="class",
            json="workload.class",
            part="held",
        ),
        DerivedNumber(
            name="workload_class_changes_total",
            help="Changes of the debounced workload class",
            get=lambda reading, result: result.held.changes,
            csv=False,
            part="held",
            always=True,
        ),
        DerivedState(
            name="bottleneck",
            help="Bottleneck of the debounced workload class: 1 for the current one, 0 for all others",
            states=BOTTLENECK_STATES,
            get=lambda reading, result: result.held.bottleneck,
            label="bottleneck",
            json="workload.bottleneck",
            part="held",
        ),
        DerivedDetail(
            json="workload.since",
            help="Time of the first sample of the current class",
            kind="time",
            get=lambda reading, result: result.held.since,
        ),
        DerivedState(
            name="raw_class",
            help="Workload class of the newest sample alone",
            states=WORKLOAD_CLASSES,
            get=lambda reading, result: result.workload.raw_class,
            json="workload.raw_class",
        ),
        DerivedDetail(
            json="workload.candidates",
            help="Classes that raw_class may be while it is unknown",
            kind="names",
            get=lambda reading, result: result.workload.candidates,
        ),
    ),
)
