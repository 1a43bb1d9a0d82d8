"""The XID codes, with meaning, severity and remedy. `xids.tsv` has a row for each.

Sources: NVIDIA's XID catalogue (2025-10) decides the action, and with it the severity: `crit` for a reset, a restart of
the node or a hardware check; `warn` where a restart of the program is enough but hardware may be involved, and for
unused codes; `info` for codes that can be ignored according to NVIDIA, and for program bugs. 44, 63, 92, 121, 156 and
157 are `warn` although they need no immediate action: they announce failures. Fleets disagree about 109, 94, 160 and
165; the configuration can change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

XidSeverity = Literal["ok", "info", "warn", "crit"]
"""`ok` is for the configuration: the code is counted and changes no state."""

Scope = Literal["app", "driver", "firmware", "hardware", "memory", "nvlink", "pcie"]
Action = Literal["none", "ignore", "restart_app", "reset_gpu", "reboot_node", "check_hardware", "reset_for_smoothing"]

ADVICE: Mapping[Action, str] = {
    "none": "read the kernel log at that time, and report the code if it returns",
    "ignore": "no action is needed now",
    "restart_app": "restart the program that ran on this GPU",
    "reset_gpu": "stop the jobs on this GPU and reset it",
    "reboot_node": "drain the node and restart it",
    "reset_for_smoothing": "reset the GPU when the current jobs finish, if the power smoothing is needed",
    "check_hardware": "take the GPU out of service and check the hardware",
}
"""The remedy for an action, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Xid:
    """An error code of NVIDIA's driver: its meaning, severity, affected part, and the action that NVIDIA recommends.

    Attributes:
        ends: the code that it takes back; None for none.
    """

    code: int
    severity: XidSeverity
    scope: Scope
    action: Action
    description: str
    ends: int | None = None


RESET_LATER = "reset the GPU when the current jobs finish"
"""The remedy where a reset can wait."""

RECOVERY_XID = 154
"""Announces a change of the recovery action that the driver requests; its message names the new one."""

RECOVERY_ADVICE: Mapping[int, str] = {
    1: ADVICE["reset_gpu"],
    2: ADVICE["reboot_node"],
    3: "stop peer-to-peer traffic, then look again",
    4: "drain the GPU and reset it",
    5: "check the IMEX service and its nodes",
    6: "stop the jobs on this GPU and reset its PCIe bus",
    7: ADVICE["reboot_node"],
}
"""The remedy for a recovery action of NVML other than 0, as the end of a sentence."""

FALLEN_OFF_BUS, FOLLOWER = 79, 45
"""Follows other codes and the end of processes: it has no meaning alone and replaces no other code."""

CORROBORABLE = frozenset({144, 145, 146, 149})
"""Codes that are critical once another input confirms them: their severity depends on sub-codes in the kernel log."""


def _parse(row: str) -> Xid:
    code, severity, scope, action, description, ends = row.split("\t")
    return Xid(
        int(code),
        cast("XidSeverity", severity),
        cast("Scope", scope),
        cast("Action", action),
        description,
        int(ends) if ends else None,
    )


_, *_ROWS = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()

XIDS: Mapping[int, Xid] = {xid.code: xid for xid in map(_parse, _ROWS)}
"""By code."""


ENDED_BY: Mapping[int, int] = {xid.ends: xid.code for xid in XIDS.values() if xid.ends is not None}
"""By code, the one that takes it back."""


def xid_of(code: int) -> Xid:
    """Return what is known of a code; an unknown one is a warning (as in NVSentinel)."""
    return XIDS.get(code) or Xid(code, "warn", "driver", "none", "unknown XID, contact NVIDIA support")


def severity_of(code: int) -> XidSeverity:
    """Return the severity of a code."""
    return xid_of(code).severity


def advice(severity: str, action: Action) -> str:
    """Return the remedy for an action, as the end of a sentence: below `crit` a reset can wait for the jobs."""
    return RESET_LATER if action == "reset_gpu" and severity != "crit" else ADVICE[action]


def advice_on(code: int, state: str) -> str:
    """Return the remedy for a code while the state of a check is due to it, as the end of a sentence."""
    xid = xid_of(code)
    return advice("crit" if "crit" in (state, xid.severity) else state, xid.action)
