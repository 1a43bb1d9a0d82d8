"""Sums by node and model equal the sums of the GPUs' series, and do not decrease when GPUs go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.demo.source import DemoSource
from tests.system.end_to_end.series import Row, rows

COUNTERS = (
    "observed_seconds",
    "workload_class_seconds",
    "class_energy_joules",
    "idle_seconds",
    "idle_energy_joules",
    "real_utilization_seconds",
    "real_utilization_unknown_seconds",
)


async def ticks(number: int) -> list[ComputedTick]:
    source, pipeline = DemoSource(0, 1.0, pace=False, start=1767225600.0), Pipeline(ComputeSettings(), "n")
    return [pipeline.process(await source.read()) for _ in range(number)]


class Daemon:
    """Pages of targets of one node."""

    def __init__(self, targets: int = 1) -> None:
        self.store = TargetStore("n", [Target("demo", f"demo{number}", 1.0, 1e6) for number in range(targets)])
        self.pages = Pages(self.store, Telemetry(self.store), PageSettings(catalog("full")))

    def rows(self, tick: ComputedTick, now: float) -> list[Row]:
        """Return the page of a tick, whose GPUs the targets have in turn."""
        targets = self.store.targets
        for number, target in enumerate(targets):
            others = [place for place in range(len(tick.devices)) if place % len(targets) != number]
            target.accept(without(tick, *others) if others else tick, now)
        return list(rows(self.pages.page(now, openmetrics=False, gzip=False).decode()))


def without(tick: ComputedTick, *positions: int) -> ComputedTick:
    """Return the tick without some GPUs."""

    kept = [index for index in range(len(tick.devices)) if index not in positions]
    return replace(
        tick,
        devices=tuple([tick.devices[index] for index in kept]),
        readings=tuple([tick.readings[index] for index in kept]),
        results=tuple([tick.results[index] for index in kept]),
        anomalies={},
        lost={},
    )


def summed(found: list[Row], name: str, *more: str) -> dict[tuple[str, ...], float]:
    """Return the sums of a family by its own label."""
    sums: dict[tuple[str, ...], float] = {}
    for row in found:
        if row.name == name:
            key = tuple(row.label(label) for label in ("class", "kind", *more))
            sums[key] = sums.get(key, 0.0) + float(row.value)
    return sums


@pytest.mark.slow
async def test_sums_are_those_of_the_gpus() -> None:
    daemon = Daemon()
    for number, tick in enumerate(await ticks(300)):
        if number % 15 == 0:
            found = daemon.rows(tick, float(number))
    for seconds in (400.0, 500.0):  # new classes are at 0 first
        found = daemon.rows(tick, seconds)
    for name in COUNTERS:
        gpus = {key: value for key, value in summed(found, f"pulsed_gpu_{name}_total").items() if value}
        nodes = {key: value for key, value in summed(found, f"pulsed_node_{name}_total").items() if value}
        assert nodes == pytest.approx(gpus), name
    for name in ("power_watts", "memory_used_bytes", "memory_bytes"):
        assert summed(found, f"pulsed_node_{name}") == pytest.approx(summed(found, f"pulsed_gpu_{name}"))
    states = summed([row for row in found if row.value == "1"], "pulsed_gpu_health_state", "state")
    assert summed(found, "pulsed_node_health_gpus", "state") == states
    assert summed(found, "pulsed_node_gpus") == {("", ""): 8.0}
    of_classes = sum(summed(found, "pulsed_node_class_energy_joules_total").values())
    assert summed(found, "pulsed_node_energy_joules_total")["", ""] == pytest.approx(of_classes)


async def test_the_worst_gpu_of_a_node() -> None:
    daemon, (tick,) = Daemon(), await ticks(1)
    readings = [
        reading._replace(temperature_celsius=40.0 + place, temperature_margin_celsius=30.0)
        for place, reading in enumerate(tick.readings)
    ]
    for place, margin, slowdown in ((0, 20.0, None), (1, None, 90.0), (2, None, 87.0), (3, None, None)):
        readings[place] = readings[place]._replace(
            temperature_margin_celsius=margin, slowdown_temperature_celsius=slowdown
        )
    readings[4] = readings[4]._replace(power_watts=690.0, power_limit_watts=700.0)
    readings[5] = readings[5]._replace(power_watts=350.0, power_limit_watts=350.0)
    readings[6] = readings[6]._replace(power_watts=700.0, power_limit_watts=0.0)
    found = daemon.rows(replace(tick, readings=tuple(readings), lost={7: tick.time - 60.0}), 0.0)
    assert summed(found, "pulsed_node_temperature_max_celsius") == {("", ""): 47.0}
    assert summed(found, "pulsed_node_temperature_margin_min_celsius") == {("", ""): 20.0}
    assert summed(found, "pulsed_node_power_limit_max_ratio") == {("", ""): 1.0}
    assert summed(found, "pulsed_node_last_sample_timestamp_seconds") == {("", ""): tick.time - 60.0}
    readings[2] = readings[2]._replace(slowdown_temperature_celsius=60.0)
    found = daemon.rows(replace(tick, readings=tuple(readings)), 15.0)
    assert summed(found, "pulsed_node_temperature_margin_min_celsius") == {("", ""): 60.0 - 42.0}


async def test_a_sum_with_a_missing_number_is_missing_and_not_less() -> None:
    daemon, (tick,) = Daemon(), await ticks(1)
    readings = (tick.readings[0]._replace(power_watts=None, gpu_utilization_ratio=None), *tick.readings[1:])
    found = daemon.rows(replace(tick, readings=readings), 0.0)
    whole = daemon.rows(tick, 15.0)
    (place,) = {row.label("model") for row in whole if row.name == "pulsed_node_power_watts"} - {
        row.label("model") for row in found if row.name == "pulsed_node_power_watts"
    }
    assert place == tick.devices[0].model
    assert summed(found, "pulsed_node_memory_bytes") == summed(whole, "pulsed_node_memory_bytes")
    models = {row.label("model") for row in found if row.name == "pulsed_node_gpu_utilization_ratio"}
    assert place in models, "a mean needs not all"


async def test_counters_never_decrease_and_a_gpu_that_returns_adds_only_what_is_new() -> None:
    daemon, taken = Daemon(), await ticks(5)
    name = "pulsed_node_observed_seconds_total"
    seen = [
        summed(daemon.rows(tick, 15.0 * number), name)["", ""]
        for number, tick in enumerate([taken[1], without(taken[2], 3), without(taken[3], 3), taken[4]])
    ]
    assert seen == pytest.approx([8.0, 15.0, 22.0, 32.0]), "the seconds in which the GPU was hidden are in its counter"


@pytest.mark.slow
async def test_a_gpu_that_joins_with_counters_of_before_does_not_add_them() -> None:
    daemon, taken = Daemon(), await ticks(1000)
    name = "pulsed_node_observed_seconds_total"
    assert summed(daemon.rows(without(taken[900], 3), 0.0), name)["", ""] == pytest.approx(7 * 900.0)
    assert summed(daemon.rows(taken[901], 15.0), name)["", ""] == pytest.approx(7 * 901.0)
    assert summed(daemon.rows(taken[902], 30.0), name)["", ""] == pytest.approx(7 * 902.0 + 1)


async def test_sums_of_a_node_that_two_targets_show_are_those_of_one() -> None:
    one, two = Daemon(), Daemon(targets=2)
    taken = await ticks(4)
    for number, tick in enumerate(taken):
        found = [
            summed(daemon.rows(tick, 15.0 * number), "pulsed_node_observed_seconds_total") for daemon in (one, two)
        ]
        assert found[0] == found[1] == {("", ""): pytest.approx(8.0 * number)}


async def test_counters_that_begin_anew_are_added_as_a_whole() -> None:
    daemon, taken = Daemon(), await ticks(4)
    sums = [
        summed(daemon.rows(tick, 15.0 * number), "pulsed_node_observed_seconds_total")["", ""]
        for number, tick in enumerate([taken[3], taken[1], taken[2]])
    ]
    assert sums == pytest.approx([24.0, 32.0, 40.0])
