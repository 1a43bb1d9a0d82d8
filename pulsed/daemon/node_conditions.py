"""Health of this node's GPUs as conditions of the node on Kubernetes, next to the other work of the daemon.

Disabled parts are not imported. An API server that fails has no effect on the daemon.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from pulsed.collector.this_host import api_client, node_of_pods
from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.errors import ConfigError
from pulsed.model.clocks import Monotonic
from pulsed.present.health_report import Row, node_conditions

if TYPE_CHECKING:
    from pulsed.kubernetes.node_conditions import ConditionTarget, ConditionWriter

START_SECONDS = 60.0
"""How long after the start nothing is reported while a source has neither delivered nor failed."""


class NodeConditions(Feature):
    """The writer of conditions, while the configuration requires one."""

    name = "node_conditions"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._active, self._begin = parts.store, parts.active, time.monotonic()
        self._used: tuple[object, ConditionTarget | None] = (None, None)
        self._writer: ConditionWriter | None = None

    def check(self, config: Config) -> None:
        """Raise `ConfigError` if the conditions cannot be written."""
        condition_target(config)

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield whether the last report succeeded; nothing before the first."""
        if self._writer is not None and self._writer.is_failing is not None:
            yield report_family(is_up=not self._writer.is_failing)

    async def run(self) -> None:
        """Report until cancelled, or until the conditions are switched off."""
        if self._target() is not None:
            from pulsed.kubernetes.node_conditions import ConditionWriter

            self._writer = ConditionWriter(
                lambda: node_conditions(rows) if (rows := self._rows()) else (), self._target
            )
            await self._writer.run()

    def _target(self) -> ConditionTarget | None:
        """Return where conditions are written by the configuration in force: the same object until that changes."""
        config = self._active.config
        keys = config.kubernetes, config.node, config.source
        if keys != self._used[0]:
            self._used = keys, condition_target(config)
        return self._used[1]

    def _rows(self) -> Sequence[Row]:
        """Return what `/health/gpus` has now; nothing while a source has not begun."""
        from pulsed.present.api.documents import health_document

        now, targets = Monotonic(time.monotonic()), self._store.targets
        if now < self._begin + START_SECONDS and any(each.tick is None and not each.error for each in targets):
            return ()
        return health_document(self._store, now)


def condition_target(config: Config) -> ConditionTarget | None:
    """Return where conditions of the node are written; None if they are not to be.

    Raises:
        ConfigError: the node or the API server is unknown, or the GPUs may belong to other nodes.
    """
    settings = config.kubernetes.conditions
    if not settings.enabled:
        return None
    from pulsed.kubernetes.node_conditions import ConditionTarget

    if config.node is None or not node_of_pods(config) or config.source.is_synthetic:
        raise ConfigError(
            "kubernetes.conditions needs the name of the node, and readings of its own, real GPUs only",
            "Set `node`, in a pod PULSED_NODE from the field spec.nodeName; for targets that may be of other hosts set "
            "source.exporter.own_node, too",
        )
    return ConditionTarget(config.node, api_client(config), settings.interval, settings.heartbeat, settings.events)


def report_family(*, is_up: bool) -> Metric:
    """Return the family of reports."""
    up = GaugeMetricFamily(
        "pulsed_health_report_up",
        "1 while health reports reach the receiver: kubernetes (node conditions)",
        labels=["receiver"],
    )
    up.add_metric(["kubernetes"], int(is_up))
    return up
