"""The class table: what the twelve workload classes mean, as data.

Whatever needs the rules (their evaluation, names and order, bottlenecks, documentation) is derived from `RULES`. This
module must not depend on how they are evaluated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from pulsed.errors import ConfigError
from pulsed.model.vocabulary import CLASSES

Variable = Literal["sm", "tensor", "dram", "graphics_engine", "fp64", "real_utilization", "io"]
"""Variables of the rules: ratios 0..1, and `io` in bytes/s: the largest direction of PCIe and, in the profile `pulsed`,
of the chip-to-chip link of a superchip. `Inputs` come first."""

Profile = Literal["pulsed", "kempnerpulse"]
"""Whose rules: those of KempnerPulse 0.5 are without pulsed's own, and take a high `memory_utilization_ratio`
for IO."""


@dataclass(frozen=True, slots=True)
class ClassThresholds:
    """Every number of the class table: ratios 0..1, and bytes/s. The defaults are KempnerPulse 0.5's, except
    `memory_bound_saturated_dram_ratio`, which it does not have.

    A name is the class, then the input. A ratio above 1 is never reached.

    Raises:
        ConfigError: a threshold is negative, infinite or not a number.
    """

    idle_real_utilization_ratio: float = 0.05
    idle_graphics_engine_ratio: float = 0.05
    idle_dram_ratio: float = 0.05
    tensor_heavy_compute_tensor_ratio: float = 0.50
    tensor_heavy_compute_sm_ratio: float = 0.60
    # 80 to 90 % is the practical peak of device memory, and 65 % is three quarters of it or more.
    memory_bound_saturated_dram_ratio: float = 0.65  # profile pulsed only
    tensor_compute_tensor_ratio: float = 0.15
    tensor_compute_sm_ratio: float = 0.40
    fp64_hpc_compute_fp64_ratio: float = 0.20
    fp64_hpc_compute_sm_ratio: float = 0.50
    io_bytes_per_second: float = 1e9
    io_memory_utilization_ratio: float = 0.40  # profile kempnerpulse only
    io_or_data_loading_sm_ratio: float = 0.30
    memory_bound_dram_ratio: float = 0.50
    memory_bound_sm_ratio: float = 0.50
    compute_heavy_sm_ratio: float = 0.80
    compute_active_sm_ratio: float = 0.50
    memory_active_dram_ratio: float = 0.40
    busy_low_sm_use_graphics_engine_ratio: float = 0.40
    busy_low_sm_use_sm_ratio: float = 0.25
    low_utilization_graphics_engine_ratio: float = 0.15
    low_utilization_sm_ratio: float = 0.15
    low_utilization_dram_ratio: float = 0.15

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"workload threshold {field.name} is {value}", "Give a number of 0 or more.")


DEFAULT_THRESHOLDS = ClassThresholds()


class Condition(NamedTuple):
    """One comparison of a rule: of a variable with a field of `ClassThresholds`."""

    variable: Variable
    comparison: Literal["<", ">="]
    threshold: str


class ClassRule(NamedTuple):
    """One row of the class table: the class, what limits it, and the conditions that must all hold.

    Attributes:
        reason: why the rule is in this place, if that is not obvious.
        only: the only profile that has this rule; None for a rule of every profile.
    """

    name: str
    bottleneck: str
    conditions: tuple[Condition, ...]
    reason: str = ""
    only: Profile | None = None


RULES: tuple[ClassRule, ...] = (
    ClassRule(
        "idle",
        "idle",
        (
            Condition("real_utilization", "<", "idle_real_utilization_ratio"),
            Condition("graphics_engine", "<", "idle_graphics_engine_ratio"),
            Condition("dram", "<", "idle_dram_ratio"),
            Condition("io", "<", "io_bytes_per_second"),
        ),
    ),
    ClassRule(
        "tensor_heavy_compute",
        "compute",
        (
            Condition("tensor", ">=", "tensor_heavy_compute_tensor_ratio"),
            Condition("sm", ">=", "tensor_heavy_compute_sm_ratio"),
        ),
    ),
    ClassRule(
        "memory_bound",
        "memory",
        (Condition("dram", ">=", "memory_bound_saturated_dram_ratio"),),
        "SM activity counts resident warps, including those that wait for memory. A copy kernel on all SMs, and most"
        " decoding of language models, keep the SMs or tensor pipes active while device memory is the limit.",
        only="pulsed",
    ),
    ClassRule(
        "tensor_compute",
        "compute",
        (
            Condition("tensor", ">=", "tensor_compute_tensor_ratio"),
            Condition("sm", ">=", "tensor_compute_sm_ratio"),
        ),
    ),
    ClassRule(
        "fp64_hpc_compute",
        "compute",
        (
            Condition("fp64", ">=", "fp64_hpc_compute_fp64_ratio"),
            Condition("sm", ">=", "fp64_hpc_compute_sm_ratio"),
        ),
    ),
    ClassRule(
        "io_or_data_loading",
        "io",
        (
            Condition("io", ">=", "io_bytes_per_second"),
            Condition("sm", "<", "io_or_data_loading_sm_ratio"),
        ),
    ),
    ClassRule(
        "memory_bound",
        "memory",
        (
            Condition("dram", ">=", "memory_bound_dram_ratio"),
            Condition("sm", "<", "memory_bound_sm_ratio"),
        ),
    ),
    ClassRule("compute_heavy", "compute", (Condition("sm", ">=", "compute_heavy_sm_ratio"),)),
    ClassRule("compute_active", "compute", (Condition("sm", ">=", "compute_active_sm_ratio"),)),
    ClassRule("memory_active", "memory", (Condition("dram", ">=", "memory_active_dram_ratio"),)),
    ClassRule(
        "busy_low_sm_use",
        "mixed",
        (
            Condition("graphics_engine", ">=", "busy_low_sm_use_graphics_engine_ratio"),
            Condition("sm", "<", "busy_low_sm_use_sm_ratio"),
        ),
    ),
    ClassRule(
        "low_utilization",
        "mixed",
        (
            Condition("graphics_engine", "<", "low_utilization_graphics_engine_ratio"),
            Condition("sm", "<", "low_utilization_sm_ratio"),
            Condition("dram", "<", "low_utilization_dram_ratio"),
        ),
    ),
    ClassRule("mixed_or_moderate", "mixed", ()),
)
"""The class table, first match wins; the last rule always matches."""

_BOTTLENECK_OF = {rule.name: rule.bottleneck for rule in RULES}

BOTTLENECKS: tuple[str, ...] = tuple(dict.fromkeys(_BOTTLENECK_OF[name] for name in CLASSES))
"""The bottlenecks that a class can have; `UNKNOWN` is one more answer."""

VARIABLES: tuple[Variable, ...] = get_args(Variable)
"""The variables in the order of `Variable`."""


@lru_cache(maxsize=2)
def rules_of(profile: Profile) -> tuple[ClassRule, ...]:
    """Return the rules of a profile, in their order."""
    return tuple(rule for rule in RULES if rule.only in (None, profile))
