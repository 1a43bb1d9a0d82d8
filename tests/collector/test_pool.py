"""Feeds follow the configuration: what is counted stays, and what has not changed is left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.collector.pool import CollectorPool, SavedHealth
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import Config, load
from pulsed.errors import ConfigError
from pulsed.model.clocks import Unix
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import Tick
from tests.support.exporters import Exporter, exporting, page
from tests.support.tampering import tampered
from tests.support.ticks import results_of
from tests.support.waiting import eventually
from tools.bench.ticks import raw_ticks


class Watched:
    """A pool with its store, and every tick that came."""

    def __init__(self) -> None:
        self.store, self.ticks = TargetStore("node"), list[Tick]()
        self.pool = CollectorPool(self.store, lambda layer, seconds: None, self.ticks.append)

    @property
    def observed(self) -> float:
        """Seconds that are counted of the first GPU."""
        tick = self.store.targets[0].tick
        return (tick and tick.gpus[0].result.counters.value("observed_seconds")) or 0.0


def configured(*overrides: str) -> Config:
    return load(None, ("source.kind=demo", "source.interval=0.1", *overrides), {})


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    yield made
    await made.pool.stop()


async def test_other_settings_leave_the_source_and_the_counters_alone(watched: Watched) -> None:
    watched.pool.apply(configured())
    await eventually(lambda: watched.observed > 0)
    (target,), before = watched.store.targets, watched.observed
    watched.pool.apply(configured("compute.real_utilization.preset=mem", "compute.workload.hold=1s", "gpus=0"))
    await eventually(lambda: len(results_of(watched.ticks[-1])) == 1)
    assert watched.store.targets == [target]
    assert watched.observed >= before


async def test_a_source_that_changed_is_read_anew_and_its_counters_go_on(watched: Watched) -> None:
    watched.pool.apply(configured())
    await eventually(lambda: watched.observed > 0)
    samples, before, version = watched.store.targets[0].samples, watched.observed, watched.store.version
    watched.pool.apply(configured("source.interval=0.2"))
    assert watched.store.version > version
    assert watched.store.targets[0].tick is not None, "what is known is shown until there is something new"
    assert watched.store.targets[0].samples == samples
    await eventually(lambda: watched.store.targets[0].samples > samples + 1)
    assert watched.ticks[-1].interval == 0.2
    assert watched.observed > before


async def test_targets_come_and_go(watched: Watched, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.prom").write_text(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-{name}"}} 5\n')

    def exporters(*names: str) -> Config:
        targets = ", ".join(f"{tmp_path / name}.prom" for name in names)
        return load(None, ("source.kind=exporter", "source.interval=1s", f"source.exporter.targets=[{targets}]"), {})

    watched.pool.apply(exporters("a"))
    await eventually(lambda: watched.store.targets[0].samples > 0)
    watched.pool.apply(exporters("b", "a"))
    assert [target.samples > 0 for target in watched.store.targets] == [False, True]
    await eventually(lambda: all(target.samples for target in watched.store.targets))
    watched.pool.apply(exporters("b"))
    assert [target.name for target in watched.store.targets] == [f"{tmp_path / 'b'}.prom"]


async def test_only_changed_targets_restart(watched: Watched) -> None:
    """A restarted target scrapes at once; the others wait for their next moment."""
    exporters = {name: Exporter(page(number)) for number, name in enumerate("abcd")}

    def configured(**labels: str | None) -> Config:
        targets = [{"url": f"{url}{name}", "labels": {"rack": rack}} for name, rack in labels.items()]
        settings = ("kind=exporter", "interval=1h", "stale_after=2h", f"exporter.targets={json.dumps(targets)}")
        return load(None, [f"source.{each}" for each in settings], {})

    def asked() -> list[int]:
        return [exporters[name].asked for name in "abcd"]

    with exporting(exporters) as url:
        watched.pool.apply(configured(a="r1", b="r1", c="r1"))
        await eventually(lambda: len(watched.ticks) == 3)
        watched.pool.apply(configured(a="r1", b="r2", d=""))
        await eventually(lambda: len(watched.ticks) == 5)
        assert asked() == [1, 2, 1, 1]
        assert {target.name.rpartition("/")[2] for target in watched.store.targets} == {"a", "b", "d"}
        racks = {tick.raw.target[-1]: dict(tick.raw.target_labels) for tick in watched.ticks[3:]}
        assert racks == {"b": {"rack": "r2"}, "d": {}}
        (series,) = [tick.devices[0].target_labels for tick in watched.ticks[3:] if tick.raw.target.endswith("b")]
        assert series == (("rack", "r2"),)
        watched.pool.apply(configured(a="r1", b="r2", c="r1", d=""))
        await eventually(lambda: len(watched.ticks) == 6)
        assert asked() == [1, 2, 2, 1]


async def test_a_configuration_that_cannot_be_followed_changes_nothing(watched: Watched, tmp_path: Path) -> None:
    watched.pool.apply(configured())
    await eventually(lambda: watched.observed > 0)
    targets = list(watched.store.targets)
    bad = load(
        None,
        (
            "source.kind=exporter",
            "source.exporter.discovery=kubernetes",
        ),
        {},
    )
    with pytest.raises(ConfigError, match="needs the node"):
        watched.pool.apply(bad)
    assert watched.store.targets == targets
    seen = len(watched.ticks)
    await eventually(lambda: len(watched.ticks) > seen)


async def test_a_feed_that_never_ran_is_closed(watched: Watched) -> None:
    for interval in (0.1, 0.2, 0.3, 0.1):
        watched.pool.apply(configured(f"source.interval={interval}"))  # no turn of the loop between them
    await eventually(lambda: watched.observed > 0)
    assert watched.ticks[-1].interval == 0.1
    await watched.pool.stop()
    seen = len(watched.ticks)
    await asyncio.sleep(0.3)
    assert len(watched.ticks) == seen
    assert len(asyncio.all_tasks()) == 1


def test_what_no_target_has_restored_is_kept() -> None:
    saved = SavedHealth()
    saved.load({"away": {"version": 2}, "not a target": 1})
    assert saved.dump({}) == {"away": {"version": 2}}


@pytest.mark.slow
def test_no_change_of_saved_health_stops_pulsed() -> None:
    ticks, first = raw_ticks(2, 4), Pipeline(GpuTable(), "node")
    for raw in ticks[:2]:
        first.process(raw)
    document = json.loads(json.dumps(SavedHealth().dump({"bench": first.health_evaluator})))
    for text, change in tampered(document, 300, seed=1):
        try:
            saved, pipeline = SavedHealth(), Pipeline(GpuTable(), "node")
            try:
                saved.load(json.loads(text))
            except ValueError:
                continue
            saved.restore("bench", pipeline.health_evaluator, Unix(ticks[1].time + 5.0))
            for raw in ticks[2:]:
                pipeline.process(raw)
            json.dumps(saved.dump({"bench": pipeline.health_evaluator}), allow_nan=False)
        except Exception as error:
            raise AssertionError(change) from error
