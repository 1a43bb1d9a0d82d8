"""Measures of single checks, the error codes of DCGM's health watches among them. `rule` has those for any inputs.

`dcgm_codes.tsv` has what the codes mean, how severe they are, and what to do. None is critical: DCGM keeps verdicts
long after their cause, and an own check is critical where the cause is seen. Sources: `dcgm_errors.h` and the health
module of DCGM 4.6, the list of failure conditions of DCGM 4.7; for false alarms NVSentinel issues 1471 and 1701, and
DCGM issue 308.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, cast

from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs, link_counts, links_text
from pulsed.compute.health.rule import Measure, Rule, RuleState, first_input, ratio
from pulsed.compute.health.xids import RECOVERY_XID
from pulsed.compute.products import is_data_centre

MILD_RESULT, FAILURE = 5.0, 20.0
"""Results of DCGM's watches: of a warning whose code is only info, and of a failure."""

IMEX_RECOVERY = 5.0
"""Recovery action of the driver."""

MIN_LINKS = 4
"""With fewer links, one that has recovered is not an outlier."""

LINK_RECOVERIES = (
    "nvlink_link_recoveries_total",
    "nvlink_recovery_errors_total",
    "nvlink_link_recoveries_successful_total",
)

PCIE_LIMIT_INPUTS = ("pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max")
_GENERATION, _WIDTH, _WIDTH_MAX = (INPUT_POSITION[name] for name in PCIE_LIMIT_INPUTS)
_UNKNOWN_GENERATION, _UNKNOWN_WIDTH = 5, 16

# Replays per minute and lane that a bit error rate of 1e-12 explains, by generation (DCGM's PCIe watch). 4 and newer
# would do with less, as links correct more; DCGM scales them all alike.
_REPLAYS_PER_LANE: Mapping[int, float] = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}

_TRAFFIC = (
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "nvlink_bandwidth_bytes_per_second",
    "nvlink_transmit_bytes_total",
    "nvlink_receive_bytes_total",
)


def requested_action(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the recovery action of the first input; while it is missing, the action of the last XID 154."""
    action = first_input(rule, state, inputs)
    record = inputs.xids.records.get(RECOVERY_XID)
    if action is not None or record is None or record.action is None:
        return action
    return 0.0 if record.cleared else float(record.action)


RESEAT = "reseat the board and check the slot and BIOS"
MOVE = "stop and start this virtual machine to get another host, or report it to the provider"
FEWER_LANES = (
    "all GPUs of this model here have had this number of lanes since their first sample, so that the instance size or "
    "the riser may have fewer lanes. Set health.pcie_width_max to it, or compare with another machine of this kind"
)
FEWER_LANES_OF_SIZE = (
    "this is a virtual machine, and the instance size may have fewer lanes. Set health.pcie_width_max to this number, "
    "or compare with another machine of this size"
)
"""What to do about a PCIe link, as the end of a sentence."""


def pcie_generation_ratio(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second."""
    state.advice = MOVE if inputs.is_virtual else RESEAT
    return ratio(rule, state, inputs)


def pcie_width_ratio(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the ratio of the first input to the second; `HealthSettings.pcie_width_max` replaces the second."""
    width, width_max = [inputs.values[position] for position in rule.positions]
    width_max = inputs.pcie_width_max or width_max
    if inputs.has_lanes_by_design:
        state.advice = FEWER_LANES_OF_SIZE if inputs.is_virtual else FEWER_LANES
    else:
        state.advice = MOVE if inputs.is_virtual else RESEAT
    return None if width is None or not width_max else width / width_max


def of_data_centre(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the one input, for data-centre GPUs only."""
    return inputs.values[rule.positions[0]] if is_data_centre(inputs.model) else None


def faults(fields: tuple[tuple[int, int, int, int], ...]) -> Measure:
    """Return a measure: how many fields of a bit mask report a fault.

    Args:
        fields: shift, number of bits, smallest and largest value that is a fault.
    """

    def measure(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
        value = inputs.values[rule.positions[0]]
        if value is None:
            return None
        return float(sum(low <= int(value) >> shift & (1 << bits) - 1 <= high for shift, bits, low, high in fields))

    return measure


def pcie_replay_limit(inputs: GpuInputs) -> float:
    """Return the replays per minute that are not a fault at the link's best generation: an idle link runs slower."""
    generation = int(inputs.values[_GENERATION] or _UNKNOWN_GENERATION)
    width = inputs.values[_WIDTH] or inputs.values[_WIDTH_MAX] or _UNKNOWN_WIDTH
    return float(max(1, math.ceil(_REPLAYS_PER_LANE.get(generation, _REPLAYS_PER_LANE[6]) * width)))


def links_down(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the number of NVLinks that are not up and should be; None where no link has been up."""
    states = inputs.extras.nvlink_states if inputs.extras is not None else None
    if states is None or inputs.value("mig_mode") or not inputs.nvlinks.up:
        return None
    down = inputs.nvlinks.down
    state.detail = f"{len(down)} of {len(states)}: {', '.join(map(str, down))}"
    return float(len(down))


def outlier_recoveries(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the recoveries of the only NVLink that has any: 0 if none or several have; None without counters."""
    counts = link_counts(inputs.extras, LINK_RECOVERIES)
    if counts is None or len(counts) < MIN_LINKS:
        return None
    is_outlier = counts[0][1] > 0 and not counts[1][1]
    state.detail = f"{links_text(counts)} recoveries, none on {len(counts) - 1} others" if is_outlier else ""
    return counts[0][1] if is_outlier else 0.0


IMEX_READY = 5.0
"""State of the IMEX daemon in which its domain works (nvidia-imex-ctl)."""


def imex_was_ready(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return 1 while the IMEX daemon is not ready and was before, 0 otherwise: an idle node never has a domain."""
    status = inputs.value("imex_daemon_status")
    if status is None:
        return None
    if status == IMEX_READY:
        state.results = (status,)
    return float(status != IMEX_READY and bool(state.results))


def dcgm_result(rule: Rule, state: RuleState, inputs: GpuInputs) -> float | None:
    """Return the worst result of DCGM's health watches that counts.

    A result counts where the own checks of the same cause have no inputs: DCGM keeps a result for as long as the host
    engine runs, and the own checks see when the cause is over. Known false alarms do not count.
    """
    if inputs.extras is None or inputs.extras.health_watches is None:
        return None
    worst, state.detail, state.advice = 0.0, "", ""
    ignored: list[str] = []
    for (watch, name), result in inputs.extras.health_watches:
        code = dcgm_code_of(watch.upper(), name)
        if not result or any(inputs.severities.get(check, -1) >= 0 for check in code.checks):
            continue
        if code.false_alarm and not _is_confirmed(code, inputs):
            ignored.append(f"{name}, {FALSE_ALARMS[code.false_alarm]}")
            continue
        if code.severity == "info" and result < FAILURE:
            result = MILD_RESULT
        if result > worst:
            worst, state.advice = result, code.remedy
            state.detail = f"{name}, {code.meaning}" if name else code.meaning
    state.ignored = f"Ignored: {'; '.join(ignored)}" if ignored else ""
    return worst


def _is_confirmed(code: DcgmCode, inputs: GpuInputs) -> bool:
    """Return whether own inputs show that a code is not a false alarm."""
    if code.false_alarm == "imex_unused":
        return inputs.value("recovery_action") == IMEX_RECOVERY
    inputs.nvlinks.is_used = inputs.nvlinks.is_used or any(inputs.value(name) for name in _TRAFFIC)
    return inputs.nvlinks.is_used


DcgmSeverity = Literal["info", "warn"]

FalseAlarm = Literal["", "nvlink_unused", "imex_unused"]
"""When a code is a false alarm, empty for never: see `FALSE_ALARMS`."""

FALSE_ALARMS: Mapping[FalseAlarm, str] = {
    "nvlink_unused": "a known false alarm while no data has been sent over NVLink: links without a bridge, or that are "
    "not trained yet",
    "imex_unused": "a known false alarm while the driver does not request a recovery of IMEX (action 5)",
}
"""Ignored problems, each with the reason as the end of a sentence."""

OWN_CHECKS: Mapping[str, tuple[str, ...]] = {
    "PCIE": ("pcie_replay",),
    "NVLINK": ("nvlink_errors", "nvlink_down", "fabric_link"),
    "MEM": (
        "ecc_uncorrectable",
        "memory_unrepairable",
        "row_remap_failed",
        "row_remap_pending",
        "row_remap_growth",
        "retired_pages",
    ),
    "THERMAL": ("thermal_hw", "thermal_sw", "temp_margin", "temp_gpu"),
    "POWER": ("power_brake",),
    "INFOROM": ("config_drift",),
}
"""By watch, the checks of the same part: for results without a code, and for codes that are not in the table."""

NOISY_WATCH = "POWER"
"""Warnings of this watch are info: a busy GPU reaches its power limit."""


class DcgmCode(NamedTuple):
    """An error code of a DCGM health watch.

    Attributes:
        severity: the state that a warning raises while no check of `checks` has inputs; a failure raises `warn`.
        checks: own checks about the same cause.
        false_alarm: when it does not indicate a problem.
        meaning: what DCGM found.
        remedy: what to do, as the end of a sentence.
    """

    code: str
    severity: DcgmSeverity
    checks: tuple[str, ...]
    false_alarm: FalseAlarm
    meaning: str
    remedy: str


def _parse(row: str) -> DcgmCode:
    code, severity, checks, false_alarm, meaning, remedy = row.split("\t")
    return DcgmCode(
        code, cast("DcgmSeverity", severity), tuple(checks.split()), cast("FalseAlarm", false_alarm), meaning, remedy
    )


_, *_ROWS = Path(__file__).with_name("dcgm_codes.tsv").read_text(encoding="utf-8").splitlines()

DCGM_CODES: Mapping[str, DcgmCode] = {code.code: code for code in map(_parse, _ROWS)}
"""By code."""


def dcgm_code_of(watch: str, code: str) -> DcgmCode:
    """Return what is known of a code of a watch; without a code, or with an unknown one, what its watch is about."""
    if code in DCGM_CODES:
        return DCGM_CODES[code]
    severity: DcgmSeverity = "info" if watch == NOISY_WATCH else "warn"
    remedy = "run a level-2 diagnostic of DCGM"
    return DcgmCode(code, severity, OWN_CHECKS.get(watch, ()), "", f"a problem of {watch}", remedy)
