from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pulsed.errors import CommandMissing, ConfigError, StreamBroke, WatchRefused
from pulsed.model.raw_tick import RawTick
from pulsed.reader.dcgmi.source import DcgmiSource
from tests.reader.dcgmi.processes import children, is_alive, script, wait_until_dead
from tests.reader.dcgmi.sources import FAST, SHORTS, fails, read, read_until, reading, row, rows, settings
from tests.support.dmon_writer import ERAS
from tests.support.standin.fixture import standin
from tests.support.standin.install import Standin
from tests.support.standin.scenario import gpus, with_mig
from tests.support.standin.signals import Constant
from tests.support.waiting import SECONDS

__all__ = ["standin"]

VERSIONS = {"A": "2.2.9", "B": "3.1.8", "C1": "4.2.3", "C2": "4.6.0"}
UUID = "GPU-8f2c1a44-9b0d-5e17-a3c8-6d21e4b7f000"


def test_there_is_a_version_of_every_layout() -> None:
    assert VERSIONS.keys() == ERAS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
async def test_ticks_of_every_layout(standin: Standin, version: str) -> None:
    standin.change(version=version, gpus=gpus("ampere", 3), values={"GPU 1": {155: Constant(71.25)}})
    async with reading(standin.path) as source:
        before, clock = time.time(), time.monotonic()
        ticks = [await read(source) for _ in range(20)]  # past the first repeated header
        after = time.time()
    for tick in ticks:
        assert tick.layout is ticks[0].layout
        assert tick.layout.dialect == "dmon"
        assert rows(tick) == {"GPU 0", "GPU 1", "GPU 2"}
        assert row(tick, "1")["POWER"] == 71.25
        assert list(row(tick, "0")) == [SHORTS[field] for field in FAST]
        assert None not in tick.values
        assert tick.rejected == {}
        assert (tick.target, tick.interval) == ("localhost", 0.1)
    stamps = [tick.time for tick in ticks]
    assert before <= stamps[0]
    assert stamps[-1] <= after
    assert stamps == sorted(stamps)
    assert clock < ticks[0].clock < ticks[-1].clock
    assert source.lost == {}
    assert source.starts == 1


async def test_labels_say_who_the_gpu_is(standin: Standin) -> None:
    async with reading(standin.path) as source:
        tick = await read(source)
    assert tick.layout.series[0].labels == (
        ("entity", "GPU"),
        ("id", "0"),
        ("uuid", UUID),
        ("model", "NVIDIA H100 80GB HBM3"),
        ("pci_bus_id", "00000000:1B:00.0"),
    )


async def test_what_is_not_there_in_the_first_ticks_is_missing(standin: Standin) -> None:
    standin.change(gpus=gpus("hopper", 1), gpm_ticks=2)
    async with reading(standin.path) as source:
        first = await read(source)
        assert row(first, "0")["GRACT"] is None
        assert row(first, "0")["POWER"] is not None
        await read_until(source, lambda tick: row(tick, "0")["GRACT"] is not None)


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
async def test_mig_instances_are_watched_where_there_are_any(standin: Standin, version: str) -> None:
    split = with_mig(gpus("ampere", 1)[0], "3g.40gb", "1g.10gb")
    standin.change(version=version, gpus=(*gpus("ampere", 1), split))
    async with reading(standin.path, fast=(1001, 1002, 155)) as source:
        tick = await read_until(source, lambda tick: len(rows(tick)) == 4)
    assert rows(tick) == {"GPU 0", "GPU 1", "GPU-I 7", "GPU-I 8"}
    labels = next(dict(series.labels) for series in tick.layout.series if series.labels[1] == ("id", "8"))
    assert labels["gpu"] == "1"
    assert labels["instance_id"] == "7"
    assert labels["uuid"].startswith("GPU-")
    assert [start.arguments[1:3] for start in standin.starts("dmon")] == [("-i", "*,*/*")]


async def test_where_instances_cannot_be_asked_for_the_gpus_are(standin: Standin) -> None:
    standin.change(gpus=(with_mig(gpus("ampere", 1)[0], "1g.10gb"),))
    refuse = f'[ "$2" = -i ] && {{ echo "Error: Got error -1 Bad parameter" >&2; exit 255; }}; exec {standin.path} "$@"'
    path = script(standin.path.parent, refuse, "old")
    async with reading(path) as source:
        assert rows(await read(source)) == {"GPU 0"}


async def test_new_instances_are_noticed(standin: Standin) -> None:
    standin.change(gpus=gpus("ampere", 1))
    async with reading(standin.path, fast=(1001, 155), upkeep_interval=0.1) as source:
        assert rows(await read(source)) == {"GPU 0"}
        standin.change(gpus=(with_mig(gpus("ampere", 1)[0], "1g.10gb"),))
        tick = await read_until(source, lambda tick: "GPU-I 0" in rows(tick))
    assert any(("instance_id", "7") in series.labels for series in tick.layout.series)


async def test_a_changed_set_of_entities_is_looked_up_at_once(standin: Standin, tmp_path: Path) -> None:
    table = "#Entity    POWER             \\nID          W                \\n"
    one = "GPU 0      71.250            \\n"
    both = f"{one}GPU 1      72.250            \\n"
    listing = f'if [ "$1" = discovery ]; then echo "$2" >> {tmp_path}/asked; exec {standin.path} "$@"; fi'
    grow = f"printf '{table}{one}'; sleep 0.2; while :; do printf '{both}'; sleep 0.1; done"
    path = script(tmp_path, f"{listing}; {grow}", "growing")
    standin.change(gpus=gpus("ampere", 2))
    async with reading(path, lambda: 60 * time.monotonic(), fast=(155,), upkeep_interval=1e6) as source:
        assert rows(await read(source)) == {"GPU 0"}
        await read_until(source, lambda tick: "GPU 1" in rows(tick))
        await read_until(source, lambda tick: (tmp_path / "asked").read_text().count("-l") == 2)
        for _ in range(3):
            await read(source)
    assert (tmp_path / "asked").read_text().count("-l") == 2


async def test_discovery_that_fails_costs_only_the_labels(standin: Standin, caplog: pytest.LogCaptureFixture) -> None:
    path = script(standin.path.parent, f'[ "$1" = discovery ] && exit 3; exec {standin.path} "$@"', "mute")
    async with reading(path) as source:
        tick = await read(source)
    assert tick.layout.series[0].labels == (("entity", "GPU"), ("id", "0"))
    assert [record.getMessage() for record in caplog.records] == ["the GPUs have no names and UUIDs"]


async def test_names_that_were_missed_come_later(standin: Standin, tmp_path: Path) -> None:
    fails_twice = f'if [ "$1" = discovery ]; then echo >> {tmp_path}/n; [ $(wc -l < {tmp_path}/n) -le 2 ] && exit 3; fi'
    path = script(standin.path.parent, f'{fails_twice}; exec {standin.path} "$@"', "late")
    async with reading(path, upkeep_interval=0.2) as source:
        assert len((await read(source)).layout.series[0].labels) == 2
        tick = await read_until(source, lambda tick: len(tick.layout.series[0].labels) == 5)
        assert dict(tick.layout.series[0].labels)["uuid"] == UUID
        assert source.starts == 1


async def test_what_is_known_stays_known_when_a_later_look_fails(standin: Standin, tmp_path: Path) -> None:
    works_twice = f'if [ "$1" = discovery ]; then echo >> {tmp_path}/n; [ $(wc -l < {tmp_path}/n) -gt 2 ] && exit 3; fi'
    path = script(standin.path.parent, f'{works_twice}; exec {standin.path} "$@"', "soon")
    async with reading(path, upkeep_interval=0.1) as source:
        first = await read(source)
        await read_until(source, lambda tick: (tmp_path / "n").read_text().count("\n") >= 6)
        assert (await read(source)).layout is first.layout
        assert source.starts == 1


async def test_what_dcgmi_is_asked(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    async with reading(standin.path, interval=0.25, host="node7", entities="0", slow=(310, 150)) as source:
        await read_until(source, lambda tick: "ESVTL" in row(tick, "0"))
        assert source.target == "node7"
    dmon = [start.arguments for start in standin.starts("dmon")]
    assert dmon == [
        ("dmon", "--host", "node7", "-i", "0", "-e", "1001,1002,155,150,203", "-d", "250"),
        ("dmon", "--host", "node7", "-i", "0", "-e", "310", "-d", "30000"),
    ]
    asked = {start.arguments for start in standin.starts("discovery")}
    assert asked == {("discovery", "--host", "node7", "-l"), ("discovery", "--host", "node7", "-c")}
    for start in standin.starts():
        assert "CUDA_VISIBLE_DEVICES" not in start.environment
        assert "LC_ALL" in start.environment
        assert start.group == start.pid


async def test_too_short_an_interval_is_raised(standin: Standin, caplog: pytest.LogCaptureFixture) -> None:
    async with reading(standin.path, interval=0.01) as source:
        assert source.interval == 0.1
        await read(source)
    assert "-d 100" in " ".join(standin.starts("dmon")[0].arguments)
    assert "too short" in caplog.text


def test_no_field_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="no field"):
        DcgmiSource(settings("dcgmi", fast=()))


async def test_dcgmi_that_is_not_there(tmp_path: Path) -> None:
    async with reading(tmp_path / "dcgmi") as source:
        with pytest.raises(CommandMissing, match="not there"):
            await read(source)


async def test_a_wrong_selection_is_told(standin: Standin) -> None:
    async with reading(standin.path, entities="9") as source:
        error = await fails(source)
        assert type(error) is WatchRefused
        assert "GPU 9" in str(error)


async def test_a_closed_source_stays_closed(standin: Standin) -> None:
    async with reading(standin.path) as source:
        await read(source)
        await source.close()
        await source.close()
        with pytest.raises(StreamBroke, match="is closed"):
            await source.read()


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [("INT",), ("INT", "TERM")])
async def test_who_ignores_signals_is_ended(standin: Standin, ignored: tuple[str, ...]) -> None:
    async with reading(standin.path) as source:
        await read(source)
        standin.change(ignored_signals=ignored)
        await read(source)
        await read(source)
        pid = source.pid
        assert pid is not None
        await source.close()
        assert not is_alive(pid)
        assert children() == []


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 0.3])
async def test_a_read_that_is_given_up_leaves_nothing_behind(standin: Standin, seconds: float) -> None:
    standin.change(slow_start=0.2)
    async with reading(standin.path, slow=(310,)) as source:
        task = asyncio.create_task(source.read())
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        await asyncio.wait({task})


async def test_a_given_up_read_loses_no_stream(standin: Standin) -> None:
    async with reading(standin.path) as source:
        await read(source)
        for _ in range(3):
            task = asyncio.create_task(source.read())
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait({task})
        await read(source)
        assert source.starts == 1


_PARENT = """
import asyncio, sys
from tests.reader.dcgmi.sources import reading

async def main():
    async with reading(sys.argv[1], slow=(310,)) as source:
        while "ESVTL" not in {series.name for series in (await source.read()).layout.series}:
            pass
        print("up", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_no_child_outlives_a_pulsed_that_is_killed(standin: Standin) -> None:
    standin.change(ignored_signals=("INT", "TERM", "PIPE"))
    command = [sys.executable, "-c", _PARENT, str(standin.path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    pids = [start.pid for start in standin.starts("dmon")]
    assert len(pids) == 2
    assert all(map(is_alive, pids))
    parent.kill()
    parent.wait(SECONDS)
    parent.stdout.close()
    for pid in pids:
        wait_until_dead(pid)


class Sleeper:
    """A clock that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_pauses_between_starts_grow_and_begin_anew(standin: Standin) -> None:
    standin.change(engine=False)
    sleeper = Sleeper()
    source = DcgmiSource(
        settings(standin.path, first_pause=1.0), clock=sleeper.clock, sleep=sleeper.sleep, random=lambda: 0.0
    )
    for _ in range(9):
        assert (await fails(source)).reason == "engine_unavailable"
    assert sleeper.pauses == [1, 2, 4, 8, 16, 32, 60, 60]

    standin.change(engine=True)
    await read(source)
    sleeper.now += 5  # good, but not for long
    await read(source)
    standin.change(engine=False)
    await fails(source)
    standin.change(engine=True)
    await read(source)
    assert sleeper.pauses[8:] == [60, 60]

    sleeper.now += 100
    await read(source)
    standin.change(engine=False)
    await fails(source)
    standin.change(engine=True)
    await read(source)
    assert sleeper.pauses[10:] == [1]
    await source.close()


async def test_a_slow_start_is_waited_for(standin: Standin) -> None:
    standin.change(slow_start=0.3)
    async with reading(standin.path) as source:
        await read(source)


_TWO_GPUS = """#!/bin/sh
case "$*" in
*discovery* | *-v*) exit 1 ;;
*" 310 "*) name=ESVTL pause=60 ;;
*) name=POWER pause=0.1 ;;
esac
echo "#Entity    $name          "
echo "ID                        "
while :; do
  echo "GPU 0      300            "
  [ -e "$0.gone" ] || echo "GPU 1      300            "
  sleep $pause
done
"""


async def test_a_gpu_without_rows_is_not_listed_by_its_slow_values(tmp_path: Path) -> None:
    def gpus(tick: RawTick, name: str) -> list[str]:
        return [dict(series.labels)["id"] for series in tick.layout.series if series.name == name]

    path = tmp_path / "dcgmi"
    path.write_text(_TWO_GPUS)
    path.chmod(0o755)
    async with reading(path, fast=(155,), slow=(310,)) as source:
        await read_until(source, lambda tick: gpus(tick, "ESVTL") == ["0", "1"])
        gone = tmp_path / "dcgmi.gone"
        gone.touch()
        tick = await read_until(source, lambda tick: gpus(tick, "POWER") == ["0"])
        assert gpus(tick, "ESVTL") == ["0"]
        assert len(tick.values) == len(tick.layout.series)
        gone.unlink()
        tick = await read_until(source, lambda tick: gpus(tick, "POWER") == ["0", "1"])
        assert gpus(tick, "ESVTL") == ["0", "1"]
