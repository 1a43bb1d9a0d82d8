"""Findings about the GPUs of owners, logged and announced, and the families of owners."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from pulsed.config.configuration import Config
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.events import EventsFeature
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.health_log import log_finding
from pulsed.model.computed_tick import ComputedTick
from pulsed.owners.findings.findings import FindingDetector
from pulsed.present.api.event_documents import finding_change
from pulsed.present.exposition.owner_families import OwnerFamilies


class FindingsFeature(Feature):
    """Detects findings in ticks that are accounted for.

    Its families are those of all owners: per GPU and owner they include the findings.
    """

    name = "findings"

    def __init__(self, parts: FeatureParts) -> None:
        accounts = parts.feature(AccountsFeature)
        self._store, self._events = parts.store, parts.feature(EventsFeature)
        self._findings = FindingDetector(accounts.accounting)
        self._families = OwnerFamilies(parts.store, accounts.accounting, workloads=accounts.workloads)

    def apply(self, config: Config) -> None:
        """Publish the families of owners by a configuration."""
        publish = config.publish
        self._families.configure(publish.max_owners, config.page_settings().catalog.owners, publish.scale_target)

    def take_tick(self, tick: ComputedTick) -> None:
        """Log and announce the findings that begin or end with a tick."""
        for finding in self._findings.add(tick):
            log_finding(finding, self._store.node)
            self._events.announce(finding_change(finding))

    def metrics(self, now: float) -> Iterator[Metric]:
        """Yield the families of owners."""
        return self._families.collect(now)
