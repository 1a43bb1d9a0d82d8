"""The workload class of a GPU over time, debounced, and the declaration of class and bottleneck.

A change counts once the samples of the new class cover some seconds. A sample that is an average over 15 s thus counts
at once, and a flicker of 100 ms does not. `unknown` is a class like any other here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pulsed.compute.activity import INPUT_QUANTITIES, MEDIA
from pulsed.compute.class_table import BOTTLENECKS, VARIABLES, Profile, Variable, rules_of
from pulsed.compute.declaration import Alternatives, DerivedDetail, DerivedNumber, DerivedResult, DerivedState
from pulsed.compute.real_utilization import weighted_inputs
from pulsed.compute.settings import ComputeSettings
from pulsed.model.clocks import EPOCH, Unix
from pulsed.model.result import NO_SHOWN_CLASS, USES, ShownClass, Workload
from pulsed.model.vocabulary import UNKNOWN, WORKLOAD_CLASSES

BOTTLENECK_STATES = (*BOTTLENECKS, UNKNOWN)

PCIE = ("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second")
C2C = ("c2c_transmit_bytes_per_second", "c2c_receive_bytes_per_second")

MEASURED_BY: Mapping[Variable, tuple[str, ...]] = {
    **{variable: (INPUT_QUANTITIES[variable],) for variable in VARIABLES if variable in INPUT_QUANTITIES},
    "real_utilization": (),  # has inputs of its own
    "io": (*PCIE, *C2C),
    "media": MEDIA,
}
"""The quantities that determine each variable of the class table; only superchips have C2C. All are needed, except
for `media`, where missing quantities do not count."""


def inputs_of_variables(profile: Profile) -> Mapping[Variable, tuple[str, ...]]:
    """Return `MEASURED_BY` with the inputs that a profile uses."""
    return MEASURED_BY if profile == "pulsed" else {**MEASURED_BY, "io": PCIE}


def _inputs(settings: ComputeSettings) -> tuple[Alternatives, ...]:
    used = {condition.variable for rule in rules_of(settings.workload.profile) for condition in rule.conditions}
    measured_by = inputs_of_variables(settings.workload.profile)
    used.discard("media")  # nothing is open without them
    quantities = [quantity for variable in VARIABLES if variable in used for quantity in measured_by[variable]]
    if settings.workload.profile == "kempnerpulse":  # its IO rule
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
            get=lambda reading, result: result.shown_class.workload_class,
            label="class",
            json="workload.class",
        ),
        DerivedNumber(
            name="workload_class_changes_total",
            help="Changes of the debounced workload class",
            get=lambda reading, result: result.shown_class.changes,
            csv=False,
            always=True,
        ),
        DerivedState(
            name="bottleneck",
            help="Bottleneck of the debounced workload class: 1 for the current one, 0 for all others",
            states=BOTTLENECK_STATES,
            get=lambda reading, result: result.shown_class.bottleneck,
            label="bottleneck",
            json="workload.bottleneck",
        ),
        DerivedDetail(
            json="workload.since",
            help="Time of the first sample of the current class",
            kind="time",
            get=lambda reading, result: result.shown_class.since,
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
        DerivedDetail(
            json="workload.used",
            help="Whether any engine works: SMs, memory, copies, media or links; null if the inputs allow both",
            kind="flag",
            get=lambda reading, result: result.shown_class.used,
        ),
        DerivedState(
            name="use",
            help="Busy while any engine works; otherwise held by an owner or memory in use, free, or idle if unknown",
            states=USES,
            get=lambda reading, result: result.use,
            json="workload.use",
            csv=False,
        ),
    ),
)


ROUNDING = 1e-9
"""Relative tolerance of the hold: twenty samples of 0.1 s may add up to 1.9999999999999998."""


class ClassDebouncer:
    """The shown class of one GPU: flickers are left out.

    Attributes:
        shown_class: the class now; the same object as long as nothing of it changes.
    """

    __slots__ = ("_candidate", "_covered", "_since", "shown_class")

    def __init__(self) -> None:
        self.shown_class = NO_SHOWN_CLASS
        self._candidate = ""
        self._since, self._covered = EPOCH, 0.0

    def reset(self, workload: Workload, time: Unix) -> None:
        """Set the class at once: of the first sample, or of the first after a long gap."""
        self._hold(workload, time)

    def update(self, workload: Workload, seconds: float, time: Unix, hold: float) -> None:
        """Take the next sample, which covers some seconds, and was taken at a time in Unix seconds.

        Args:
            hold: how many seconds a new class must last; 0 takes every change at once.
        """
        held, raw_class = self.shown_class, workload.raw_class
        if raw_class == held.workload_class:
            self._candidate = ""
            if workload.bottleneck != held.bottleneck or workload.used is not held.used:
                self.shown_class = replace(held, bottleneck=workload.bottleneck, used=workload.used)
            return
        if raw_class != self._candidate:
            self._candidate, self._since, self._covered = raw_class, time, 0.0
        self._covered += seconds
        if self._covered >= hold * (1 - ROUNDING):
            self._hold(workload, self._since)

    def _hold(self, workload: Workload, since: Unix) -> None:
        held = self.shown_class
        is_change = held.since is not None and workload.raw_class != held.workload_class
        self.shown_class = ShownClass(
            workload.raw_class, workload.bottleneck, since, held.changes + is_change, workload.used
        )
        self._candidate = ""
