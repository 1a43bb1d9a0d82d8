"""Which probe puts which kind of rule to work."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pulsed.compute.health.probe import Probe
from pulsed.compute.health.probes_now import CodesProbe, ComparisonProbe, LevelProbe, MaskProbe
from pulsed.compute.health.probes_of_events import EventsProbe, WatchesProbe
from pulsed.compute.health.probes_over_time import DutyProbe, GrowthProbe
from pulsed.compute.health.rule import Codes, Comparison, Duty, Events, Growth, Level, Mask, Rule, Watches

_PROBES: Mapping[type[Rule], Callable[..., Probe[Rule]]] = {
    Level: LevelProbe,  # type: ignore[dict-item]
    Codes: CodesProbe,  # type: ignore[dict-item]
    Mask: MaskProbe,  # type: ignore[dict-item]
    Comparison: ComparisonProbe,  # type: ignore[dict-item]
    Growth: GrowthProbe,  # type: ignore[dict-item]
    Duty: DutyProbe,  # type: ignore[dict-item]
    Events: EventsProbe,  # type: ignore[dict-item]
    Watches: WatchesProbe,  # type: ignore[dict-item]
}


def probe_of(rule: Rule) -> Probe[Rule]:
    """Put a rule to work for one GPU."""
    return _PROBES[type(rule)](rule)
