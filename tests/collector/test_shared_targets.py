"""Targets that share GPUs, and addresses that lead to several exporters: one warning each, and no GPU suffers."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from pulsed.collector.collector import BALANCED, Collector, Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import SourceEnded
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exposition.parser import PageParser
from pulsed.reader.source import Source


class Pages(Source):
    """A source of pages, one after another."""

    def __init__(self, name: str, pages: Sequence[str]) -> None:
        self.kind, self.target, self.interval = "exporter", name, 0.001
        self._pages, self._parser, self._number = pages, PageParser(), 0

    async def read(self) -> RawTick:
        if self._number == len(self._pages):
            raise SourceEnded("no more pages")
        parsed, clock = self._parser.parse(self._pages[self._number].encode()), 15.0 * self._number
        self._number += 1
        return RawTick(self.target, Unix(1e9 + clock), Monotonic(clock), 15.0, parsed.layout, parsed.values)


def page(host: str, number: int, owner: str = "") -> str:
    labels = f'gpu="0",UUID="GPU-{host}",Hostname="{host}"{owner}'
    return f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 40\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} {100 + number}\n"


class Daemon:
    """Collectors of one process, whose ticks are kept."""

    def __init__(self) -> None:
        self.store, self.table = TargetStore("n"), GpuTable()
        self.ticks: dict[str, list[Tick]] = {}

    async def collect(self, name: str, pages: Sequence[str]) -> None:
        target = Target("exporter", name, 15.0, 45.0)
        self.store.targets.append(target)
        ticks = self.ticks[name] = []
        await Collector(Pages(name, pages), Pipeline(self.table, "n"), target, ticks.append).run()

    def metrics(self) -> list[str]:
        now = max(target.arrived for target in self.store.targets)
        return Telemetry(self.store).render(now, openmetrics=False).decode().splitlines()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "pulsed.collector.collector"]


async def test_two_exporters_of_one_gpu_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon()
    pages = [page("a", number) for number in range(6)]
    await daemon.collect("first", pages)
    await daemon.collect("second", pages)
    (warning,) = warnings_of(caplog)
    assert {warning.__dict__[name] for name in ("target", "other_target")} == {"first", "second"}
    assert [len(tick.gpus) for tick in daemon.ticks["second"]] == [0] * 6
    assert 'pulsed_source_duplicate_gpus{source="second"} 1' in daemon.metrics()
    assert not any("alternating" in line for line in daemon.metrics())


async def test_the_second_exporter_names_the_owners_that_the_first_does_not_know() -> None:
    table, owner = GpuTable(), ',pod="train",namespace="ml",container="c"'
    first, second = (
        Pages(name, [page("a", at, labels) for at in range(4)]) for name, labels in (("1", ""), ("2", owner))
    )
    pipelines = {source: Pipeline(table, "n") for source in (first, second)}
    for _ in range(4):
        ticks = [pipelines[source].process(await source.read()) for source in (first, second)]
    (row,) = ticks[0].gpus
    assert ([each.name for each in row.owners or ()], ticks[1].gpus) == (["train"], [])


async def test_a_balanced_address_is_one_warning_and_no_telemetry(caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon()
    turns = "abaabbabbbabaababbab"
    await daemon.collect("balanced", [page(host, number) for number, host in enumerate(turns)])
    (warning,) = warnings_of(caplog)
    assert (warning.getMessage(), warning.__dict__["hosts"]) == (BALANCED, "a, b")
    for tick in daemon.ticks["balanced"][2:]:
        assert {row.device.entity.node for row in tick.gpus} == {"a", "b"}
        assert {row.result.health.check("telemetry").state for row in tick.gpus} == {"ok"}
    assert 'pulsed_source_alternating_hosts{source="balanced"} 2' in daemon.metrics()


async def test_another_name_of_the_host_is_no_other_gpu(caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon()
    renamed = [page("a", number).replace('Hostname="a"', 'Hostname="a.example.com"') for number in range(3, 6)]
    await daemon.collect("one", [*[page("a", number) for number in range(3)], *renamed])
    assert warnings_of(caplog) == []
    (row,) = daemon.ticks["one"][-1].gpus
    assert row.result.counters.value("observed_seconds") == 75.0
