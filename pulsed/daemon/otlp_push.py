"""Sends what is on the page, and the metrics of hardware, by OTLP, with OpenTelemetry's exporter.

It sends in a thread of its own, which the end of the daemon does not wait for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from pulsed.background_tasks import aligned_sleep
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon_thread import DaemonThread
from pulsed.http.client import HttpClient
from pulsed.http.credentials import BadCredentials, authorization
from pulsed.model.clocks import Monotonic
from pulsed.present.otlp.hardware_metrics import hardware_points

if TYPE_CHECKING:
    from pulsed.present.otlp.exporter import Exporter

PUSHED = """\
# HELP pulsed_push_up 1 while pulsed sends its series itself: `up`, which a scrape has, is not there
# TYPE pulsed_push_up gauge
pulsed_push_up 1
"""
"""A page with the series by which an alert detects a daemon that no longer sends."""


class OtlpPush(Feature):
    """Sends series at an interval while the configuration has a receiver.

    Attributes:
        samples: sent and dropped ones; None before a receiver is configured.
    """

    name = "otlp"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._pages = parts.store, parts.pages
        self._active = parts.active
        self._files, self._thread = HttpClient(0.0), DaemonThread("otlp")
        self._refused = 0
        self.samples: Counter[str] | None = None

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families of sent samples."""
        if self.samples is not None:
            yield from push_families(self.samples)

    async def run(self) -> None:
        """Send until cancelled, or until the configuration has no receiver."""
        while (settings := self._active.config.publish.otlp).enabled:
            from pulsed.present.otlp.exporter import Exporter

            exporter = Exporter(settings, self._count_refused)
            self.samples = self.samples or Counter(sent=0, dropped=0)
            try:
                while self._active.config.publish.otlp == settings:
                    page = await self._pages.serve(Monotonic(time.monotonic()), openmetrics=False, gzip=False)
                    authorization = await self._authorization(settings.bearer_token_file)
                    send = partial(self._send, exporter, page.decode() + PUSHED, settings.attributes, authorization)
                    await self._thread.submit(send).result
                    await aligned_sleep(settings.export_interval)
            finally:
                exporter.shutdown()  # it may retry
                self._thread.close()

    async def _authorization(self, file: str | None) -> Mapping[str, str] | BadCredentials:
        """Return the header of the token in a file, empty without one, or why the file cannot be used."""
        if file is None:
            return {}
        try:
            return await self._files.read_secrets(file, partial(authorization, "", file))
        except BadCredentials as error:
            return error

    def _send(
        self,
        exporter: Exporter,
        page: str,
        attributes: Mapping[str, str],
        authorization: Mapping[str, str] | BadCredentials,
    ) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        from pulsed.present.otlp.exporter import metrics_data

        hardware = hardware_points(self._store, Monotonic(time.monotonic()))
        data = metrics_data(page, hardware, self._store.node, attributes, time.time_ns())
        samples = sum(
            len(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )
        self._refused, exporter.authorization = 0, authorization
        is_taken = exporter.export(data) is MetricExportResult.SUCCESS
        dropped = self._refused if is_taken else samples
        if self.samples is not None:
            self.samples.update(sent=samples - dropped, dropped=dropped)

    def _count_refused(self, samples: int) -> None:
        """Count samples that an answer of success refuses."""
        self._refused += samples


def push_families(samples: Counter[str]) -> Iterator[Metric]:
    """Yield the families of sent samples."""
    for name, help, count in (
        ("pulsed_push_samples", "Samples accepted by the receiver", samples["sent"]),
        ("pulsed_push_dropped_samples", "Samples that were not delivered after retries", samples["dropped"]),
    ):
        family = CounterMetricFamily(name, help, labels=["protocol"])
        family.add_metric(["otlp"], count)
        yield family
