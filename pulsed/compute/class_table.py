"""The class table: what the twelve workload classes mean, as data.

Whatever needs the rules (their evaluation, names and order, bottlenecks, documentation) is derived from `RULES`. This
module must not depend on how they are evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from pulsed.config.settings import Settings, setting
from pulsed.config.values import Factor, Ratio
from pulsed.model.vocabulary import CLASSES

Variable = Literal["sm", "tensor", "dram", "graphics_engine", "fp64", "real_utilization", "io", "media"]
"""Variables of the rules: ratios 0..1, and `io` in bytes/s: the largest direction of PCIe and, in the profile `pulsed`,
of the chip-to-chip link of a superchip. `media` is the busiest video, image or optical flow engine of those that are
measured. `Inputs` come first."""

Profile = Literal["pulsed", "kempnerpulse"]
"""The rule set. `kempnerpulse` (0.5) lacks pulsed's own rules, and classifies a high `memory_utilization_ratio` as
IO."""


def _use(name: str) -> str:
    """Return which conditions of the class table use a threshold."""
    uses = [
        f"`{rule.name}`: `{condition.variable}` {condition.comparison} this"
        + (f" (only with the profile `{only}`)" if (only := rule.only or condition.only) else "")
        for rule in RULES
        for condition in rule.conditions
        if condition.threshold == name
    ]
    return ("; ".join(uses) or "`io` with the profile `kempnerpulse`: `memory_utilization_ratio` >= this") + "."


@dataclass(frozen=True, slots=True)
class ClassThresholds(Settings):
    """Every number of the class table: ratios 0..1, and bytes/s. The defaults are KempnerPulse 0.5's, except
    `idle_media_ratio` and `memory_bound_saturated_dram_ratio`, which it does not have.

    A name is the class, then the input. A ratio above 1 is never reached.
    """

    idle_real_utilization_ratio: Ratio = setting(0.05, _use)
    idle_graphics_engine_ratio: Ratio = setting(0.05, _use)
    idle_dram_ratio: Ratio = setting(0.05, _use)
    idle_media_ratio: Ratio = setting(0.05, _use)  # profile pulsed only
    tensor_heavy_compute_tensor_ratio: Ratio = setting(0.50, _use)
    tensor_heavy_compute_sm_ratio: Ratio = setting(0.60, _use)
    # 80 to 90 % is the practical peak of device memory, and 65 % is three quarters of it or more.
    memory_bound_saturated_dram_ratio: Ratio = setting(0.65, _use)  # profile pulsed only
    tensor_compute_tensor_ratio: Ratio = setting(0.15, _use)
    tensor_compute_sm_ratio: Ratio = setting(0.40, _use)
    fp64_hpc_compute_fp64_ratio: Ratio = setting(0.20, _use)
    fp64_hpc_compute_sm_ratio: Ratio = setting(0.50, _use)
    io_bytes_per_second: Factor = setting(1e9, _use)
    io_memory_utilization_ratio: Ratio = setting(0.40, _use)  # profile kempnerpulse only
    io_or_data_loading_sm_ratio: Ratio = setting(0.30, _use)
    memory_bound_dram_ratio: Ratio = setting(0.50, _use)
    memory_bound_sm_ratio: Ratio = setting(0.50, _use)
    compute_heavy_sm_ratio: Ratio = setting(0.80, _use)
    compute_active_sm_ratio: Ratio = setting(0.50, _use)
    memory_active_dram_ratio: Ratio = setting(0.40, _use)
    busy_low_sm_use_graphics_engine_ratio: Ratio = setting(0.40, _use)
    busy_low_sm_use_sm_ratio: Ratio = setting(0.25, _use)
    low_utilization_graphics_engine_ratio: Ratio = setting(0.15, _use)
    low_utilization_sm_ratio: Ratio = setting(0.15, _use)
    low_utilization_dram_ratio: Ratio = setting(0.15, _use)


DEFAULT_THRESHOLDS = ClassThresholds()

Comparison = Literal["<", ">="]


class Condition(NamedTuple):
    """One comparison of a rule: of a variable with a field of `ClassThresholds`; `only` as in `ClassRule`."""

    variable: Variable
    comparison: Comparison
    threshold: str
    only: Profile | None = None


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


_ONLY: Mapping[Variable, Profile] = {"media": "pulsed"}
"""Variables of one profile alone. SMs and the graphics engine do nothing while a GPU transcodes."""


def _rule(
    name: str,
    bottleneck: str,
    *conditions: tuple[Variable, Comparison],
    of: str = "",
    reason: str = "",
    only: Profile | None = None,
) -> ClassRule:
    """Return a row of the class table; a threshold is named by the class, or `of`, and by its variable."""

    def threshold(variable: Variable) -> str:
        return "io_bytes_per_second" if variable == "io" else f"{of or name}_{variable}_ratio"

    compared = tuple(Condition(name, how, threshold(name), _ONLY.get(name)) for name, how in conditions)
    return ClassRule(name, bottleneck, compared, reason, only)


RULES: tuple[ClassRule, ...] = (
    _rule(
        "idle",
        "idle",
        ("real_utilization", "<"),
        ("graphics_engine", "<"),
        ("dram", "<"),
        ("io", "<"),
        ("media", "<"),
    ),
    _rule("tensor_heavy_compute", "compute", ("tensor", ">="), ("sm", ">=")),
    _rule(
        "memory_bound",
        "memory",
        ("dram", ">="),
        of="memory_bound_saturated",
        reason="SM activity counts resident warps, including those that wait for memory. A copy kernel on all SMs, and"
        " most decoding of language models, keep the SMs or tensor pipes active while device memory is the limit.",
        only="pulsed",
    ),
    _rule("tensor_compute", "compute", ("tensor", ">="), ("sm", ">=")),
    _rule("fp64_hpc_compute", "compute", ("fp64", ">="), ("sm", ">=")),
    _rule("io_or_data_loading", "io", ("io", ">="), ("sm", "<")),
    _rule("memory_bound", "memory", ("dram", ">="), ("sm", "<")),
    _rule("compute_heavy", "compute", ("sm", ">=")),
    _rule("compute_active", "compute", ("sm", ">=")),
    _rule("memory_active", "memory", ("dram", ">=")),
    _rule("busy_low_sm_use", "mixed", ("graphics_engine", ">="), ("sm", "<")),
    _rule("low_utilization", "mixed", ("graphics_engine", "<"), ("sm", "<"), ("dram", "<")),
    _rule("mixed_or_moderate", "mixed"),
)
"""The class table, first match wins; the last rule always matches."""

BOTTLENECK_OF = {rule.name: rule.bottleneck for rule in RULES}
"""The bottleneck of each class."""

BOTTLENECKS: tuple[str, ...] = tuple(dict.fromkeys(BOTTLENECK_OF[name] for name in CLASSES))
"""The bottlenecks that a class can have; `UNKNOWN` is one more answer."""

VARIABLES: tuple[Variable, ...] = get_args(Variable)
"""The variables in the order of `Variable`."""


@lru_cache(maxsize=2)
def rules_of(profile: Profile) -> tuple[ClassRule, ...]:
    """Return the rules of a profile, in their order."""
    return tuple(
        rule._replace(conditions=tuple(each for each in rule.conditions if each.only in (None, profile)))
        for rule in RULES
        if rule.only in (None, profile)
    )
