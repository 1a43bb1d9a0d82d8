"""Sends what is on the page, and the metrics of hardware, by OTLP."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.otlp_pusher import PROTOCOL, PUSHED, Pusher
from pulsed.present.otlp.encoder import OtlpEncoder, OtlpPlan
from pulsed.present.otlp.hardware_metrics import hardware_points


class OtlpPush(Feature):
    """Sends series while the configuration has a receiver."""

    name = "otlp"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._read_page = parts.store, parts.read_page
        self._pusher = Pusher(self._encoder)

    def apply(self, config: Config) -> None:
        """Send by a configuration from the next samples on."""
        self._pusher.configure(config.publish.otlp.plan(os.environ))

    def metrics(self, now: float) -> Iterator[Metric]:
        """Yield the families of what was sent."""
        return push_families(self._pusher)

    async def run(self) -> None:
        """Send until cancelled."""
        await self._pusher.run()

    def _encoder(self, plan: OtlpPlan) -> OtlpEncoder:
        return OtlpEncoder(
            plan,
            self._read_pages,
            lambda: hardware_points(self._store, time.monotonic()),
            lambda: self._store.node,
        )

    async def _read_pages(self) -> AsyncIterator[bytes]:
        """Render the page, and the series of daemons that push."""
        yield await self._read_page()
        yield PUSHED


def push_families(pusher: Pusher) -> Iterator[Metric]:
    """Yield the families of a pusher; none before a receiver is configured."""
    if pusher.sent is None:
        return
    names = ["protocol"]
    taken = CounterMetricFamily("pulsed_push_samples", "Samples that the server has taken", labels=names)
    taken.add_metric([PROTOCOL], pusher.sent)
    yield taken
    dropped = CounterMetricFamily(
        "pulsed_push_dropped_samples",
        "Samples not delivered: tried for two minutes (expired), refused, or too much waiting (full)",
        labels=[*names, "reason"],
    )
    for reason, count in pusher.dropped.items():
        dropped.add_metric([PROTOCOL, reason], count)
    yield dropped
    waiting = GaugeMetricFamily("pulsed_push_waiting_samples", "Samples waiting to be sent", labels=names)
    waiting.add_metric([PROTOCOL], pusher.waiting)
    yield waiting
    failed = CounterMetricFamily(
        "pulsed_push_failed_reads", "Intervals without samples because of an error in pulsed", labels=names
    )
    failed.add_metric([PROTOCOL], pusher.failed_reads)
    yield failed
