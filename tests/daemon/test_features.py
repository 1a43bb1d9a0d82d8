"""Features: the error of one is logged, and costs the others nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature
from pulsed.daemon.features import FeatureSet
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import Tick
from tests.compute.streams import BUSY, sample
from tests.daemon.parts import feature_parts

TICK = ComputeLayer(GpuTable()).compute(sample(0.0, BUSY))
NAMES = ("first", "second", "third")


class Consumer(Feature):
    """Counts ticks, pages and writes, and fails while `error` is set."""

    error, ticks, writes = "", 0, 0

    def take_tick(self, tick: Tick) -> None:
        self.ticks += 1
        self._fail()

    def metrics(self, now: float) -> Iterator[Metric]:
        yield GaugeMetricFamily(f"pulsed_{self.name}", "", value=1)
        self._fail()

    def save(self) -> None:
        self.writes += 1
        self._fail()

    def _fail(self) -> None:
        if self.error:
            raise ValueError(self.error)


def consumers(*names: str) -> tuple[FeatureSet, Sequence[Consumer]]:
    """Features that do not fail, and the set of them."""
    features, parts = FeatureSet(), feature_parts(TargetStore("n"), Config())
    kinds: Iterable[type[Consumer]] = [type(name, (Consumer,), {"name": name}) for name in names]
    made = [kind(parts) for kind in kinds]
    for feature in made:
        features.add(feature)
    return features, made


@pytest.mark.parametrize("broken", range(3))
def test_every_consumer_has_the_tick_whichever_fails(caplog: pytest.LogCaptureFixture, broken: int) -> None:
    features, made = consumers(*NAMES)
    made[broken].error = "broken"
    features.take_tick(TICK)
    assert [consumer.ticks for consumer in made] == [1, 1, 1]
    (record,) = caplog.records
    assert (record.__dict__["consumer"], record.__dict__["target"]) == (NAMES[broken], TICK.target)
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "broken", "the log has the reason"


def test_a_consumer_that_goes_on_failing_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, (consumer, other) = consumers("one", "other")
    consumer.error, other.error = "once", "also"
    for _ in range(3):
        features.take_tick(TICK)
    assert (len(caplog.records), consumer.ticks) == (2, 3)
    consumer.error = "another reason"
    features.take_tick(TICK)
    assert len(caplog.records) == 3
    monkeypatch.setattr("pulsed.daemon.features.REMIND_SECONDS", 0.0)
    features.take_tick(TICK)
    assert len(caplog.records) == 5


def test_a_feature_that_fails_costs_its_own_families_only(caplog: pytest.LogCaptureFixture) -> None:
    features, made = consumers(*NAMES)
    assert [family.name for family in features.metrics(Monotonic(0.0))] == [f"pulsed_{name}" for name in NAMES]
    made[1].error = "broken"
    for number in (1, 2):
        *families, failures = features.metrics(Monotonic(0.0))
        assert [family.name for family in families] == ["pulsed_first", "pulsed_third"]
        assert [(each.name, each.labels, each.value) for each in failures.samples] == [
            ("pulsed_feature_failures_total", {"feature": "second"}, number)
        ]
    assert len(caplog.records) == 1


def test_what_the_others_keep_is_written_whichever_fails(caplog: pytest.LogCaptureFixture) -> None:
    features, made = consumers(*NAMES)
    made[0].error = "broken"
    features.save()
    assert [consumer.writes for consumer in made] == [1, 1, 1]
    assert len(caplog.records) == 1
