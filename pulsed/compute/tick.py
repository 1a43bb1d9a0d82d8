"""What Compute delivers: a canonical tick with what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.translate.tick import CanonicalTick

UNKNOWN = "unknown"
"""The class of a GPU whose inputs do not settle it."""


@dataclass(frozen=True, slots=True)
class RealUtilization:
    """How much of a GPU does real work.

    Attributes:
        ratio: 0..1; None when too few inputs are present to name a number.
        lower: no lower than this, whatever the missing inputs are, 0..1.
        upper: no higher than this, 0..1.
        coverage: share of the weights whose input is present, 0..1.
        missing: canonical names of the weighted inputs that are missing.
    """

    ratio: float | None
    lower: float
    upper: float
    coverage: float
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What kind of work a GPU does.

    Attributes:
        raw_class: one of the twelve classes, or `unknown`: the class of this tick alone.
        bottleneck: what limits it: `idle`, `compute`, `io`, `memory`, `mixed`, or `unknown`.
        candidates: the classes that it could be, in the order of the rules, when it is unknown; else empty.
    """

    raw_class: str
    bottleneck: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What follows from one reading."""

    real_utilization: RealUtilization
    workload: Workload


@dataclass(frozen=True, slots=True)
class ComputedTick:
    """One sample of all GPUs of a target, with what follows from it.

    Attributes:
        canonical: the sample.
        results: one per device of the sample.
    """

    canonical: CanonicalTick
    results: tuple[Result, ...]
