"""What the configuration can change of health: thresholds, XIDs, which checks there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pulsed.compute.health.check import Check
from pulsed.compute.health.checks import BY_ID, CHECKS
from pulsed.compute.health.rule import Rule
from pulsed.compute.health.xids import XidSeverity, severity_of
from pulsed.errors import ConfigError
from pulsed.model.health import RAISED_STATES, State
from pulsed.suggestions import did_you_mean

_R = TypeVar("_R", bound=Rule)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Thresholds, disabled checks, and severities of XIDs.

    Attributes:
        thresholds: by check, other thresholds: by state (`warn: 10`), or by measure and state
            (`nvlink_crc_errors_per_minute.warn: 5`) where several measures of a check have the same state.
        disabled: ids of checks that are not evaluated and not published.
        xids: by code, another severity; `ok` counts the code but lets it change no state.
        pcie_width_max: lanes that the riser provides; 0: as the device reports.

    Raises:
        ConfigError: there is no such check, measure or state; the message names the nearest.
    """

    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()
    xids: Mapping[int, XidSeverity] = field(default_factory=dict)
    pcie_width_max: int = 0

    def __post_init__(self) -> None:
        for id_ in (*self.thresholds, *sorted(self.disabled)):
            _look_up(id_, BY_ID, f"there is no check {id_}")
        for id_, levels in self.thresholds.items():
            known = threshold_keys(BY_ID[id_])
            for key in levels:
                _look_up(key, known, f"{id_} has no threshold {key}")

    def checks(self) -> tuple[Check, ...]:
        """Return the checks that are not disabled, with these thresholds."""
        return tuple(
            replace(check, rules=tuple(_with(rule, self.thresholds.get(check.id, {})) for rule in check.rules))
            for check in CHECKS
            if check.id not in self.disabled
        )

    def severity_of(self, xid: int) -> XidSeverity:
        """Return the severity of a code: the configured one, else the one of the table."""
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


def _look_up(name: str, known: Mapping[str, object], problem: str) -> None:
    if name not in known:
        raise ConfigError(f"health: {problem}", did_you_mean(name, known, f"known are {', '.join(known)}"))


def _with(rule: _R, thresholds: Mapping[str, float]) -> _R:
    levels: dict[State, float] = {
        state: float(thresholds.get(f"{rule.name}.{state}", thresholds.get(state, value)))
        for state, value in rule.levels.items()
    }
    return replace(rule, levels=levels)
