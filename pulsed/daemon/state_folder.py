"""Whether the files of `state_dir` are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.collector.state_file import WriteStatus
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.collection import Collection
from pulsed.daemon.feature import Feature, FeatureParts


class StateFolder(Feature):
    """The state of all files."""

    name = "state"

    def __init__(self, parts: FeatureParts) -> None:
        self._collection, self._accounts = parts.feature(Collection), parts.feature(AccountsFeature)

    def metrics(self, now: float) -> Iterator[Metric]:
        """Yield the families of the files; none without `state_dir`."""
        yield from state_families(
            [*self._collection.statuses, *self._accounts.files.statuses], self._accounts.files.dropped
        )


def state_families(statuses: Sequence[WriteStatus], lost_accounts: int) -> Iterator[Metric]:
    """Yield the families of files; none without files.

    Args:
        lost_accounts: accounts of ended owners that were never written.
    """
    if not statuses:
        return
    up = GaugeMetricFamily("pulsed_state_up", "1 while the file in state_dir can be written", labels=["file"])
    for status in statuses:
        up.add_metric([status.name], int(not status.is_failing))
    yield up
    yield CounterMetricFamily(
        "pulsed_state_lost_accounts",
        "Accounts of ended owners that were not written, because too many waited",
        value=lost_accounts,
    )
