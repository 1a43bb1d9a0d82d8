"""Settings of health: thresholds, severities of XIDs, and disabled checks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Annotated

from pulsed.compute.health.check import Check
from pulsed.compute.health.checks import BY_ID, CHECKS
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.xids import XIDS, XidSeverity, severity_of
from pulsed.config.settings import NOT_ALLOWED, Kind, ListKind, Problem, Settings, TableKind, setting
from pulsed.config.values import Count, DurationOrNone, not_empty, number, one_of
from pulsed.errors import did_you_mean
from pulsed.host.node_checks import NODE_CHECK_IDS
from pulsed.host.settings import ExpectedGpusKey
from pulsed.model.health import RAISED_STATES, State

NEVER_FORGOTTEN = 0.0
"""The default of `forget_after`: a dead GPU must not turn silent by itself."""


def _xid(value: str) -> int:
    """Return the code of an XID; `79.0` is 79."""
    try:
        return int(re.sub(r"\.0*$", "", value.strip()))
    except ValueError:
        raise ValueError(NOT_ALLOWED) from None


KernelLogPath = Annotated[
    str, Kind("kernel_log", "auto, off, or the path of a file with kernel messages", not_empty, "text")
]
CheckIds = Annotated[
    Collection[str],
    ListKind("check", f"some of {', '.join((*BY_ID, *NODE_CHECK_IDS))}", str, "text", single=False, words=True),
]
CheckThresholds = Annotated[
    Mapping[str, Mapping[str, float]],
    TableKind("thresholds", "numbers by check and state, such as {temp_memory: {warn: 90}}", number(), depth=2),
]
XidSeverities = Annotated[
    Mapping[int, XidSeverity],
    TableKind(
        "xids",
        "ok, info, warn or crit by XID, such as {109: warn}",
        one_of(("ok", "info", "warn", "crit")),
        parse_name=_xid,
    ),
]


@dataclass(frozen=True, slots=True)
class HealthSettings(Settings):
    """Whether the GPUs are in order. docs/health.md lists every check, with its thresholds."""

    disabled: CheckIds = setting((), "Checks that are not evaluated and not published.")
    thresholds: CheckThresholds = setting(
        {},
        "Thresholds by check, then by state, or by measure and state (docs/health.md).",
        example={"temp_memory": {"warn": 90, "hot": 95}},
    )
    xids: XidSeverities = setting(
        {}, "Severity by XID. `ok`: count it, but do not change the state.", example={109: "warn"}
    )
    kernel_log: KernelLogPath = setting(
        "auto",
        "Read XIDs and lost GPUs from the kernel log, with exact times: `auto` (/dev/kmsg, if pulsed may read"
        " it and reads GPUs of this machine), `off`, or a file of kernel messages, such as /var/log/kern.log."
        " A file that programs also log to is refused. Times without a zone are local (TZ).",
    )
    forget_after: DurationOrNone = setting(
        NEVER_FORGOTTEN,
        "Forget a GPU after this absence. 0: never; a dead or replaced GPU stays until it is forgotten: "
        "`pulsed health --forget GPU`.",
    )
    expected_gpus: ExpectedGpusKey = setting(
        None,
        "GPUs of this node: a number, or one per model; `auto`: all that were ever there (with `state_dir`), "
        "except those forgotten. Fewer raise `gpu_count`. Unset: any number.",
        example="8 NVIDIA H100 80GB HBM3",
    )
    pcie_width_max: Count = setting(
        0, "PCIe lanes that the riser provides; fewer are a fault. 0: as the GPU reports.", example=8
    )

    def problems(self) -> Iterator[Problem]:
        """Yield checks and thresholds that do not exist, with the nearest that does."""
        for id_ in sorted(self.disabled):
            yield from _unknown("disabled", id_, (*BY_ID, *NODE_CHECK_IDS), f"there is no check {id_}")
        for id_, levels in self.thresholds.items():
            yield from _unknown("thresholds", id_, BY_ID, f"there is no check {id_}")
            for key in levels if id_ in BY_ID else ():
                yield from _unknown("thresholds", key, threshold_keys(BY_ID[id_]), f"{id_} has no threshold {key}")

    def without_effect(self) -> Iterator[Problem]:
        """Yield thresholds, if their checks are all disabled."""
        if self.thresholds and self.thresholds.keys() <= set(self.disabled):
            yield "thresholds", "the checks are disabled"

    def checks(self) -> tuple[Check, ...]:
        """Return the checks that are not disabled, with these thresholds."""
        return tuple(
            replace(check, rules=tuple(_with(rule, self.thresholds[check.id]) for rule in check.rules))
            if check.id in self.thresholds
            else check
            for check in CHECKS
            if check.id not in self.disabled
        )

    def critical_xids(self) -> Set[int]:
        """Return the known codes of severity crit."""
        return {code for code in {*XIDS, *self.xids} if self.severity_of(code) == "crit"}

    def severity_of(self, xid: int) -> XidSeverity:
        """Return the configured severity of a code, otherwise its severity in the table."""
        return self.xids.get(xid) or severity_of(xid)


DEFAULT_HEALTH = HealthSettings()


def threshold_keys(check: Check) -> Mapping[str, float]:
    """Return the thresholds of a check that can be changed, by key, with their values: the configuration's words."""
    keys: dict[str, float] = {}
    for state in RAISED_STATES:
        values = [(rule, value) for rule in check.rules for level, value in rule.levels.items() if level == state]
        if len(values) == 1:
            keys[state] = values[0][1]
        keys |= {f"{rule.name}.{state}": value for rule, value in values}
    return keys


def _unknown(setting: str, name: str, names: Collection[str], problem: str) -> Iterator[Problem]:
    """Yield the problem of a setting if a name is not one of those that are known."""
    if name not in names:
        hint = did_you_mean(name, names, f"known are {', '.join(names)}")
        yield setting, f"cannot be used: health: {problem}. {hint}"


def _with(rule: Rule, thresholds: Mapping[str, float]) -> Rule:
    levels: dict[State, float] = {
        state: float(thresholds.get(f"{rule.name}.{state}", thresholds.get(state, value)))
        for state, value in rule.levels.items()
    }
    return replace(rule, levels=levels)
