"""A counter that appears is at 0 until it was scraped, and a gauge that became 0 ends ten minutes later."""

from __future__ import annotations

import pytest

from pulsed.model.clocks import Monotonic
from pulsed.model.counters import Distribution
from pulsed.model.health import Health
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.catalog import SeriesChoice, catalog
from pulsed.present.exposition.gpu_series import Published
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from tests.present.boards import SETTLED, TIME, Gpu, gpu, target, tick
from tests.system.end_to_end.series import rows

XIDS = "pulsed_gpu_xid_events_total"


class Scraped:
    """The page of some GPUs with XIDs, scraped at given times."""

    def __init__(self, series: SeriesChoice = "lean") -> None:
        self.store = TargetStore("here", [target("a")])
        self.pages = Pages(self.store, Telemetry(self.store), PageSettings(catalog(series)))

    def xids(self, now: float, *events: tuple[int, int]) -> dict[str, float]:
        """Deliver a tick and return the events by XID, and in all."""
        self.accept(now, gpu(0, result=SETTLED._replace(health=Health("ok", 1.0, (), xid_events=events))))
        total = self.values("pulsed_gpu_any_xid_events_total", now)
        assert list(total.values()) == [sum(count for _, count in events)]
        return self.values(XIDS, now)

    def accept(self, now: float, *gpus: Gpu) -> None:
        self.store.targets[0].accept(tick(gpus, time=TIME + now), Monotonic(now))

    def values(self, name: str, now: float) -> dict[str, float]:
        page = self.pages.page(Monotonic(now), openmetrics=False, gzip=False).decode()
        return {row.label("xid"): float(row.value) for row in rows(page) if row.name == name}


@pytest.mark.parametrize(("interval", "held"), [(1, 30), (15, 30), (30, 60), (60, 120), (300, 300)])
def test_a_new_counter_is_at_zero_for_two_scrapes_or_thirty_seconds(interval: int, held: int) -> None:
    daemon = Scraped()
    assert [daemon.xids(now, (79, 0)) for now in (0, interval)] == [{}, {}]
    first = 2 * interval
    seen = {now: daemon.xids(now, (79, 0), (13, 2)) for now in range(first, first + held + interval + 1, interval)}
    assert seen == {now: {"13": 0.0 if now - first < held else 2.0} for now in seen}
    assert daemon.xids(first + held + 2 * interval, (79, 1), (13, 3)) == {"79": 0.0, "13": 3.0}


def test_the_full_page_has_codes_from_zero_and_others_as_the_lean_one() -> None:
    daemon = Scraped("full")
    assert daemon.xids(0, (79, 0)) == {"79": 0.0}
    assert daemon.xids(15, (79, 0)) == {"79": 0.0}
    assert daemon.xids(30, (79, 1), (13, 2)) == {"79": 1.0, "13": 0.0}
    assert daemon.xids(45, (79, 1), (13, 2)) == {"79": 1.0, "13": 0.0}
    assert daemon.xids(60, (79, 1), (13, 2)) == {"79": 1.0, "13": 2.0}


def test_it_appears_without_a_new_tick() -> None:
    daemon = Scraped()
    assert daemon.xids(0, (13, 2)) == {"13": 0.0}
    daemon.store.targets[0].stale_after = 1000.0
    assert daemon.values(XIDS, 15) == {"13": 0.0}
    assert daemon.values(XIDS, 30) == {"13": 2.0}


def test_it_does_not_begin_again_when_the_devices_or_the_configuration_change() -> None:
    daemon = Scraped()
    assert [daemon.xids(now, (13, 2)) for now in (0, 15, 30)] == [{"13": 0.0}, {"13": 0.0}, {"13": 2.0}]
    daemon.store.replace([target("a")])
    assert daemon.xids(31, (13, 3)) == {"13": 3.0}
    daemon.pages.configure(PageSettings(catalog("full")))
    assert daemon.xids(32, (13, 4)) == {"13": 4.0}
    daemon.accept(33, gpu(1))
    assert daemon.xids(34, (13, 5)) == {"13": 5.0}


def test_another_form_does_not_reset_counters() -> None:
    daemon, name = Scraped("full"), "pulsed_gpu_health_events_total"

    def events(now: float, count: int) -> list[float]:
        health = Health("ok", 1.0, (), events=(("ecc_uncorrectable", count),))
        daemon.accept(now, gpu(0, result=SETTLED._replace(health=health)))
        return list(daemon.values(name, now).values())

    assert [events(now, 7) for now in (0, 15)] == [[7.0], [7.0]]
    daemon.pages.configure(PageSettings(catalog("lean")))
    assert [events(now, 7) for now in (30, 45, 60)] == [[7.0], [7.0], [7.0]]
    assert events(75, 8) == [8.0]


def test_a_gauge_of_form_recent_ends_ten_minutes_after_it_became_zero() -> None:
    daemon, name = Scraped(), "pulsed_gpu_encoder_utilization_ratio"

    def at(now: float, value: float | None) -> list[float]:
        daemon.accept(now, gpu(0, encoder_utilization_ratio=value))
        return list(daemon.values(name, now).values())

    assert at(0, 0.0) == []
    assert at(10, 0.25) == [0.25]
    assert at(600, 0.0) == [0.0]
    assert at(1200, 0.0) == [0.0]
    assert at(1201, 0.0) == []
    assert at(1210, 0.5) == [0.5]
    assert at(1211, None) == []
    assert daemon.values("pulsed_quantity_gpus", 1211) == {}
    assert at(1212, 0.0) == [0.0]
    assert daemon.values("pulsed_quantity_gpus", 1212) == {"": 1.0}


@pytest.mark.slow
def test_gpus_that_are_gone_are_forgotten_once_they_are_many() -> None:
    daemon = Scraped()
    daemon.xids(0, (13, 2))
    for number in range(200):
        daemon.accept(60 + number, gpu(0, f"node{number}"))
        daemon.values(XIDS, 60 + number)
    assert daemon.xids(300, (13, 2)) == {"13": 0.0}


def test_a_gpu_that_another_target_shows_is_counted_once_without_a_new_tick() -> None:
    daemon, name = Scraped(), "pulsed_quantity_gpus"
    daemon.store.replace([target("a"), target("b")])
    for each in daemon.store.targets:
        each.accept(tick([gpu(0, encoder_utilization_ratio=0.5)], time=TIME), Monotonic(0.0))
    daemon.store.targets[1].stale_after = 1000.0
    assert daemon.values(name, 1) == {"": 1.0}
    assert daemon.values(name, 500) == {"": 1.0}, "the first target is stale"


def test_the_sum_of_distributions_never_decreases_by_rounding() -> None:
    published = Published()
    published.begin_page(Monotonic(0.0))
    sums = []
    for number in range(200):
        for gpu_number, share in enumerate((0.1, 0.7)):
            distribution = Distribution((0.5,), (number, number), share * number)
            gpu = published.gpu(("node", f"GPU-{gpu_number}", ""))
            published.add_distribution(gpu, ("node", "H100"), distribution)
            sums.append(published.distributions["node", "H100"].sum)
    assert sums == sorted(sums)
