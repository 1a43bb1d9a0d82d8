"""Targets of lists come and go; what stays keeps its state, and what a broken list loses is kept."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pulsed import background_tasks
from pulsed.background_tasks import FAILURES
from pulsed.collector import target_discovery
from pulsed.collector.pool import CollectorPool
from pulsed.collector.target_discovery import TargetDiscovery
from pulsed.config.configuration import Config, load
from pulsed.daemon.collection import discovery_families
from pulsed.errors import ExporterNotFound
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exporter.discovery import GONE_SECONDS
from pulsed.reader.exporter.discovery.target_lists import FileLists
from tests.support.exporters import Exporter, exporting, page
from tests.support.waiting import eventually


@dataclass
class Fleet:
    """Eight exporters, and a list of some of them."""

    url: str
    file: Path
    exporters: dict[str, Exporter]

    def list(self, *numbers: int, **labels: str) -> None:
        """Write the list as a whole."""
        address = self.url.removeprefix("http://").rstrip("/")
        groups = [{"targets": [address], "labels": {"__metrics_path__": f"/{number}", **labels}} for number in numbers]
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(groups))
        temporary.replace(self.file)

    def config(self, *more: str) -> Config:
        settings = [
            "kind=exporter",
            "interval=1s",
            "exporter.discovery=file",
            f"exporter.file.files={self.file}",
            *more,
        ]
        return load(None, [f"source.{each}" for each in settings], {})


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(FileLists, "interval", 0.05)
    exporters = {str(number): Exporter(page(number)) for number in range(8)}
    with exporting(exporters) as url:
        yield Fleet(url, tmp_path / "targets.json", exporters)


@dataclass
class Running:
    """A pool, and the names of its targets without the address."""

    store: TargetStore
    pool: CollectorPool

    def names(self, *, with_ticks: bool = True) -> set[str]:
        return {each.name.rpartition("/")[2] for each in self.store.targets if each.tick or not with_ticks}


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    store = TargetStore("here")
    made = Running(store, CollectorPool(store, lambda layer, seconds: None, lambda tick: None))
    yield made
    await made.pool.stop()


async def test_a_list_that_changes_keeps_the_state_of_those_that_stay_and_return(
    fleet: Fleet, running: Running
) -> None:
    fleet.list(0, 1, 2, rack="r1")
    running.pool.apply(fleet.config())
    await eventually(lambda: running.names() == {"0", "1", "2"})
    by_name = {each.name[-1]: each for each in running.store.targets}
    fleet.list(0, 2, 3, rack="r2")
    await eventually(lambda: running.names() == {"0", "2", "3"})
    assert {each.name[-1]: each for each in running.store.targets}["0"] is by_name["0"]
    samples = by_name["1"].samples
    fleet.list(0, 1, 2, 3, rack="r2")
    await eventually(lambda: running.names() == {"0", "1", "2", "3"})
    (returned,) = [each for each in running.store.targets if each.name.endswith("/1")]
    assert returned.samples >= samples
    tick = by_name["0"].tick
    await eventually(lambda: (tick := by_name["0"].tick) is not None and tick.raw.target_labels == (("rack", "r2"),))
    pages = Pages(running.store, Telemetry(running.store), PageSettings(passthrough=True))
    text = pages.page(by_name["0"].arrived, openmetrics=False, gzip=False).decode()
    (info,) = [line for line in text.splitlines() if line.startswith("pulsed_gpu_info") and 'gpu="0"' in line]
    assert 'rack="r2"' in info
    assert 'DCGM_FI_PROF_SM_ACTIVE{Hostname="node",' in text
    assert ',rack="r2"' in text
    assert tick is not None


async def test_a_broken_list_keeps_its_targets(
    fleet: Fleet, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fleet.list(0, 1)
    running.pool.apply(fleet.config())
    await eventually(lambda: running.names() == {"0", "1"})
    (before,) = running.pool.lists
    assert (before.kind, before.name, before.is_up) == ("file", str(fleet.file), True)
    fleet.file.write_text("[")
    await eventually(lambda: "their targets are kept" in caplog.text)
    assert running.names() == {"0", "1"}
    (broken,) = running.pool.lists
    assert not broken.is_up
    telemetry = Telemetry(running.store, lambda now: discovery_families(running.pool.lists))
    text = telemetry.render(0.0, openmetrics=False).decode()
    labels = f'{{kind="file",list="{fleet.file}"}}'
    assert f"pulsed_discovery_up{labels} 0" in text
    assert f"pulsed_discovery_last_success_timestamp_seconds{labels} {broken.last_success!r}" in text
    running.pool.apply(fleet.config("max_gpus=7"))
    assert running.names() == {"0", "1"}, "also over a reload with other settings"
    fleet.list(0, 1, 2)
    await eventually(lambda: running.names() == {"0", "1", "2"})
    assert [each.is_up for each in running.pool.lists] == [True]


async def test_an_error_of_pulsed_in_the_discovery_ends_nothing(
    fleet: Fleet, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_tasks, "FIRST_PAUSE_SECONDS", 0.01)
    fleet.list(0, 1)
    running.pool.apply(fleet.config())
    await eventually(lambda: running.names() == {"0", "1"})
    with monkeypatch.context() as broken:
        broken.setattr(target_discovery, "listed_targets", lambda groups, problems: 1 / 0)
        await eventually(lambda: FAILURES["discovery"] > 0)
        assert [(each.name, each.is_up) for each in running.pool.lists] == [(str(fleet.file), False)]
        assert running.names() == {"0", "1"}
    fleet.list(0, 1, 2)
    await eventually(lambda: running.names() == {"0", "1", "2"})
    assert [each.is_up for each in running.pool.lists] == [True]


async def test_targets_beyond_the_limit_are_left_out(
    fleet: Fleet, running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(target_discovery, "MAX_TARGETS", 2)
    fleet.list(0, 1, 2)
    running.pool.apply(fleet.config())
    await eventually(lambda: running.names() == {"0", "1"})
    (record,) = [each for each in caplog.records if "is not used" in each.message]
    assert record.__dict__["problems"] == "of 3 targets 2 are read; divide them by source.exporter.shard"


async def test_a_list_that_loses_half_is_kept_until_a_reload(
    fleet: Fleet, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.list(0, 1, 2, 3)
    running.pool.apply(fleet.config())
    await eventually(lambda: running.names() == {"0", "1", "2", "3"})
    fleet.list(0, 1)
    await eventually(lambda: "half of the targets or more are missing" in caplog.text)
    fleet.list(0)
    await eventually(lambda: caplog.text.count("half of the targets or more are missing") == 2)
    assert running.names() == {"0", "1", "2", "3"}
    running.pool.apply(fleet.config())
    assert running.names() == {"0"}


class Clock:
    """Seconds that stand still."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_missing_target_that_does_not_answer_is_forgotten(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    discovery = TargetDiscovery(fleet.config(), clock=clock)
    own: Callable[[], list[str]] = lambda: sorted(each.target[-1] for each in discovery.sources)  # noqa: E731
    fleet.list(0, 1, 2, 3)
    discovery.start()
    try:
        await eventually(lambda: own() == ["0", "1", "2", "3"])
        sources = discovery.sources
        fleet.list(0)
        await eventually(lambda: "half of the targets or more are missing" in caplog.text)
        clock.now += 1.0
        await next(each for each in discovery.sources if each.target.endswith("3")).read()
        clock.now += GONE_SECONDS - 0.5
        await eventually(lambda: own() == ["0", "3"])
        clock.now += 1.0
        await eventually(lambda: own() == ["0"])
    finally:
        await discovery.stop()
    for source in sources:
        await source.close()


async def test_a_fleet_without_targets_fails_with_the_reason(fleet: Fleet, running: Running) -> None:
    running.pool.apply(fleet.config())
    await eventually(lambda: "there is no such file" in running.store.targets[0].error)
    assert ExporterNotFound.reason in running.store.targets[0].errors
    fleet.list()
    await eventually(lambda: "have no target" in running.store.targets[0].error)


async def test_shards_share_the_targets(fleet: Fleet) -> None:
    addresses = [f"gpu-{number}:9400" for number in range(64)]
    fleet.file.write_text(json.dumps([{"targets": addresses}]))
    found = []
    for index in range(2):
        discovery = TargetDiscovery(fleet.config("exporter.shard.of=2", f"exporter.shard.index=pulsed-{index}"))
        discovery.start()
        await discovery.settle()
        await discovery.stop()
        assert len(discovery.targets) == 64
        found += [source.target for source in discovery.sources]
    assert sorted(found) == sorted(f"http://{address}/metrics" for address in addresses)
