"""All features of the daemon: one that fails costs neither the others nor the sources anything."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric

from pulsed.background_tasks import BackgroundTasks
from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature
from pulsed.model.computed_tick import ComputedTick, Removal
from pulsed.present.exposition.telemetry import failure_family
from pulsed.reader.source import REMIND_SECONDS

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger(__name__)

_TICKS, _METRICS, _STATE = "a consumer of ticks", "the metrics of a feature", "the state of a feature"


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

    def apply(self, config: Config) -> None:
        """Put a checked configuration in force."""
        for feature in self:
            feature.apply(config)

    def take_tick(self, tick: ComputedTick) -> None:
        """Pass a tick on. A new error of a feature is logged at once, the same one again once a minute."""
        for feature in self:
            with _LoggedErrors(self, _TICKS, {"consumer": feature.name, "target": tick.target}):
                feature.take_tick(tick)

    def forget(self, removal: Removal) -> None:
        """Forget an absent GPU on request."""
        for feature in self:
            feature.forget(removal)

    def metrics(self, now: float) -> Iterator[Metric]:
        """Yield the families of all features at monotonic seconds; errors are logged as by `take_tick`."""
        for feature in self:
            families: Iterable[Metric] = ()
            with _LoggedErrors(self, _METRICS, {"consumer": feature.name}):
                families = list(feature.metrics(now))
            yield from families
        if self.failures:
            yield failure_family(
                "pulsed_feature_failures",
                "Ticks and pages on which a feature failed because of an internal error; absent before the first",
                "feature",
                self.failures,
            )

    def routes(self) -> Iterator[APIRouter]:
        """Yield the routes of all features."""
        for feature in self:
            yield from feature.routes()

    def start(self, tasks: BackgroundTasks) -> None:
        """Start the background work of all features."""
        for feature in self:
            tasks.start(feature.name, feature.run)

    def restore(self) -> None:
        """Load what an earlier run has kept."""
        for feature in self:
            feature.restore()

    def save(self) -> None:
        """Write what outlives a restart; errors are logged as by `take_tick`."""
        for feature in self:
            with _LoggedErrors(self, _STATE, {"consumer": feature.name}):
                feature.save()

    def stop(self) -> None:
        """End what would keep the server from ending."""
        for feature in self:
            feature.stop()

    def is_due(self, part: str, feature: str, reason: str) -> bool:
        """Count a failure; return whether it has to be logged."""
        self.failures[feature] += 1
        now, (last, logged_at) = time.monotonic(), self._logged.get((part, feature), ("", 0.0))
        if reason == last and now - logged_at < REMIND_SECONDS:
            return False
        self._logged[part, feature] = (reason, now)
        return True


class _LoggedErrors:
    """A context that counts, logs and ends the errors of one feature. A generator would cost several times as much.

    Args:
        part: what the feature does, for the log.
        fields: of the log line; `consumer` is the name of the feature.
    """

    __slots__ = ("_features", "_fields", "_part")

    def __init__(self, features: FeatureSet, part: str, fields: Mapping[str, str]) -> None:
        self._features, self._part, self._fields = features, part, fields

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Return whether there was an error of the feature, and not a cancellation."""
        if not isinstance(error, Exception):
            return False
        if self._features.is_due(self._part, self._fields["consumer"], repr(error)):
            log.error(
                f"internal error in {self._part}; please report it",
                exc_info=error,
                extra=dict(self._fields),
            )
        return True
