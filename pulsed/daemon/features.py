"""All features of the daemon: one that fails costs neither the others nor the sources anything.

A new one is a module or folder and a line of `FEATURES`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric

from pulsed.config.configuration import Config
from pulsed.daemon.accounts import AccountsFeature, FindingsFeature
from pulsed.daemon.changes import EventsFeature, HealthChanges
from pulsed.daemon.feature import Feature
from pulsed.daemon.history import HistoryFeature
from pulsed.daemon.host_watch import HostWatch, JobHostReader
from pulsed.daemon.node_conditions import NodeConditions
from pulsed.daemon.notify import Notify
from pulsed.daemon.otlp_push import OtlpPush
from pulsed.daemon.state_folder import StateFolder
from pulsed.model.clocks import Monotonic
from pulsed.model.tick import Tick
from pulsed.present.exposition.telemetry import failure_family
from pulsed.reader.source import REMIND_SECONDS

log = logging.getLogger(__name__)

FEATURES: tuple[type[Feature], ...] = (
    HealthChanges,
    HostWatch,
    HistoryFeature,
    EventsFeature,
    AccountsFeature,
    FindingsFeature,
    Notify,
    JobHostReader,
    StateFolder,
    OtlpPush,
    NodeConditions,
)
"""In the order in which they take ticks and stand on the metrics page. A feature may use those above it."""


class FeatureSet:
    """The features in their order.

    Attributes:
        by_class: the features.
        failures: failed calls of features, by the name of the feature.
    """

    def __init__(self) -> None:
        self.by_class: dict[type[Feature], Feature] = {}
        self.failures: Counter[str] = Counter()
        self._logged: dict[tuple[str, str], tuple[str, float]] = {}

    def add(self, feature: Feature) -> None:
        """Add a feature after the others."""
        self.by_class[type(feature)] = feature

    def __iter__(self) -> Iterator[Feature]:
        """Iterate over the features."""
        return iter(self.by_class.values())

    def check(self, config: Config) -> None:
        """Raise `ConfigError` if a configuration cannot be put in force."""
        for feature in self:
            feature.check(config)

    def take_tick(self, tick: Tick) -> None:
        """Pass a tick on. A new error of a feature is logged at once, the same one again once a minute."""
        for feature in self:
            try:
                feature.take_tick(tick)
            except Exception as error:  # noqa: BLE001 (of a feature's code; logged with its traceback)
                self._note(error, "a consumer of ticks", feature, target=tick.target)

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of all features at monotonic seconds; errors are logged as by `take_tick`."""
        for feature in self:
            families: Iterable[Metric] = ()
            try:
                families = list(feature.metrics(now))
            except Exception as error:  # noqa: BLE001 (as in `take_tick`)
                self._note(error, "the metrics of a feature", feature)
            yield from families
        if self.failures:
            yield failure_family(
                "pulsed_feature_failures",
                "Ticks and pages on which a feature failed because of an internal error; absent before the first",
                "feature",
                self.failures,
            )

    def restore(self) -> None:
        """Load what an earlier run has kept."""
        for feature in self:
            feature.restore()

    def save(self) -> None:
        """Write what outlives a restart; errors are logged as by `take_tick`."""
        for feature in self:
            try:
                feature.save()
            except Exception as error:  # noqa: BLE001 (as in `take_tick`)
                self._note(error, "the state of a feature", feature)

    def _note(self, error: Exception, part: str, feature: Feature, **fields: str) -> None:
        """Count and log an error of a feature.

        Args:
            part: what the feature does, for the log.
            fields: of the log line, in addition to the feature.
        """
        self.failures[feature.name] += 1
        now, reason = time.monotonic(), repr(error)
        last, logged_at = self._logged.get((part, feature.name), ("", 0.0))
        if reason != last or now - logged_at >= REMIND_SECONDS:
            self._logged[part, feature.name] = (reason, now)
            extra = {"consumer": feature.name, **fields}
            log.error(f"internal error in {part}; please report it", exc_info=error, extra=extra)
