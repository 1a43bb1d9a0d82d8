"""The error codes of DCGM's health watches: what they mean, how severe they are, and what to do. `dcgm_codes.tsv` has
a row for each.

None is critical: DCGM keeps verdicts long after their cause, and an own check is critical where the cause is seen.
Sources: `dcgm_errors.h` and the health module of DCGM 4.6, the list of failure conditions of DCGM 4.7; for false
alarms NVSentinel issues 1471 and 1701, and DCGM issue 308.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, cast

DcgmSeverity = Literal["info", "warn"]

FalseAlarm = Literal["", "nvlink_unused", "imex_unused"]
"""When a code is a false alarm, empty for never: see `FALSE_ALARMS`."""

FALSE_ALARMS: Mapping[FalseAlarm, str] = {
    "nvlink_unused": "a known false alarm while no data has been sent over NVLink: links without a bridge, or that are "
    "not trained yet",
    "imex_unused": "a known false alarm while the driver does not request a recovery of IMEX (action 5)",
}
"""What is ignored and why, as the end of a sentence."""

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


_, *_ROWS = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()

DCGM_CODES: Mapping[str, DcgmCode] = {code.code: code for code in map(_parse, _ROWS)}
"""By code."""


def dcgm_code_of(watch: str, code: str) -> DcgmCode:
    """Return what is known of a code of a watch; without a code, or with an unknown one, what its watch is about."""
    if code in DCGM_CODES:
        return DCGM_CODES[code]
    severity: DcgmSeverity = "info" if watch == NOISY_WATCH else "warn"
    remedy = "run a level-2 diagnostic of DCGM"
    return DcgmCode(code, severity, OWN_CHECKS.get(watch, ()), "", f"a problem of {watch}", remedy)
