"""`pulsed record`: what is replayed from it exports as the original did, whatever the source and however it ended."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from pulsed.apps.record import Recorder, record
from pulsed.apps.ticks import export
from pulsed.collector.collector import Pipeline
from pulsed.collector.source_factory import open_sources
from pulsed.collector.this_host import node_name
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import Config, load
from pulsed.errors import NothingRead, UsageError
from pulsed.model.raw_tick import RawTick
from pulsed.present.csv import pulsed_csv
from pulsed.reader.demo.source import DemoSource
from pulsed.reader.exporter import ExporterSettings
from pulsed.reader.exporter.source import ExporterSource
from pulsed.reader.record_file import RecordFailed, open_record
from pulsed.reader.record_lines import Session
from pulsed.reader.source import Source
from tests.support.daemon import environment, pulsed
from tests.support.dmon_writer import ERAS, DmonWriter
from tests.support.sources import replayed
from tests.support.standin.fixture import standin
from tests.support.standin.install import Standin
from tests.support.standin.scenario import gpus
from tests.support.waiting import SECONDS

__all__ = ["standin"]

NAMES = ["record", "record.gz"]


class Taped(Source):
    """A source whose ticks are remembered."""

    def __init__(self, source: Source, tape: list[RawTick], then: Callable[[], object] = lambda: None) -> None:
        self._source, self._tape, self._then = source, tape, then
        self.kind, self.target, self.interval = source.kind, source.target, source.interval

    async def read(self) -> RawTick:
        tick = await self._source.read()
        self._tape.append(tick)
        self._then()
        return tick

    async def close(self) -> None:
        await self._source.close()


def config(*overrides: str) -> Config:
    return load(None, overrides, {})


def replaying(path: Path) -> Config:
    return config("source.kind=replay", f"source.replay.path={path}", "source.replay.speed=0")


def exported(path: Path) -> str:
    """What `pulsed export --columns all` prints of a recording; nothing of one that holds nothing."""
    out = io.StringIO()
    try:
        export(replaying(path), "all", out)
    except NothingRead:
        assert out.getvalue().count("\n") == 1
    return out.getvalue()


def export_of(ticks: Sequence[RawTick]) -> str:
    """What it prints of a live source that delivers these ticks."""
    out, names = io.StringIO(), pulsed_csv.columns("all")
    settings, node = Config().compute_settings(), node_name(Config())
    pipelines = {tick.target: Pipeline(GpuTable(settings), node) for tick in ticks}
    pulsed_csv.write_header(out, names)
    for tick in ticks:
        pulsed_csv.write_tick(out, names, pipelines[tick.target].process(tick))
    return out.getvalue()


def page(*numbers: int, value: object = 50, node: str = "n") -> str:
    labels = [f'gpu="{gpu}",UUID="GPU-{node}{gpu}",modelName="NVIDIA H100",Hostname="{node}"' for gpu in numbers]
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE")
    return "".join(
        f"# HELP {name} Of \\\\ all.\n# TYPE {name} gauge\n"
        + "".join(f"{name}{{{label}}} {value if name.endswith('UTIL') else 0.123456789}\n" for label in labels)
        for name in names
    )


def capture(ticks: int) -> str:
    writer = DmonWriter(ERAS["C1"], [203, 155, 1002, 50])
    text = writer.header()
    for n in range(ticks):
        rows = [(f"GPU {gpu}", [n, 71.25 + n, None if n == 3 else n / ticks, "NVIDIA H100"]) for gpu in (0, 1)]
        text += writer.tick(rows[: 1 if n % 5 == 4 else 2])
    return text


def demo(folder: Path, tape: list[RawTick]) -> list[Source]:
    return [Taped(DemoSource(3, 0.01), tape)]


def exporters(folder: Path, tape: list[RawTick]) -> list[Source]:
    """Two exporters whose GPUs come and go, with numbers that JSON has not."""
    settings = ExporterSettings(interval=0.01)
    pages = {
        folder / "a.prom": [page(0, 1, node="a"), page(1, value="NaN", node="a"), page(0, 1, 2, value=1e22, node="a")],
        folder / "b.prom": [page(0, value=n, node="b") for n in range(7)],
    }

    def turn() -> None:
        for path, texts in pages.items():
            path.with_suffix(".new").write_text(texts[len(tape) % len(texts)])
            path.with_suffix(".new").rename(path)

    turn()
    return [Taped(ExporterSource(str(path), settings), tape, turn) for path in pages]


def dmon(folder: Path, tape: list[RawTick]) -> list[Source]:
    path = folder / "capture.txt"
    path.write_text(capture(40))
    return [Taped(replayed(path, speed=0), tape)]


Make = Callable[[Path, "list[RawTick]"], "list[Source]"]


def found(make: Callable[[Config], list[Source]]) -> Callable[..., Awaitable[list[Source]]]:
    """Return a replacement of `found_sources`."""

    async def replacement(config: Config, *, hurried: bool) -> list[Source]:
        return make(config)

    return replacement


def recorded(make: Make, path: Path, monkeypatch: pytest.MonkeyPatch, ticks: int) -> list[RawTick]:
    """Record so many ticks of these sources; returns them."""
    tape: list[RawTick] = []
    with monkeypatch.context() as patch:
        patch.setattr("pulsed.apps.record.found_sources", found(lambda config: make(path.parent, tape)))
        assert record(config("source.kind=demo"), str(path), ticks=ticks) == 0
    return tape[:ticks]


# --- the same export, byte for byte


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [demo, exporters, dmon])
def test_a_record_exports_as_the_original(
    make: Make, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = recorded(make, tmp_path / name, monkeypatch, 20)
    assert len(ticks) == 20
    text = exported(tmp_path / name)
    assert text == export_of(ticks)
    assert text.count("\n") > 20
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_a_record_of_a_live_dcgmi(standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standin.change(gpus=gpus("ampere", 2))
    tape: list[RawTick] = []
    taped = found(lambda config: [Taped(source, tape) for source in open_sources(config)])
    monkeypatch.setattr("pulsed.apps.record.found_sources", taped)
    live = config("source.kind=dcgmi", f"source.dcgmi.path={standin.path}", "source.interval=0.1")
    assert record(live, str(tmp_path / "record.gz"), ticks=15) == 0
    assert exported(tmp_path / "record.gz") == export_of(tape[:15])
    assert (
        gzip.decompress((tmp_path / "record.gz").read_bytes()).count(b'{"layout"') <= 2
    )  # without and with slow fields


@pytest.mark.parametrize("name", NAMES)
def test_a_record_of_two_runs_exports_as_both(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    ticks = [tick for _ in range(2) for tick in recorded(exporters, path, monkeypatch, 7)]
    assert exported(path) == export_of(ticks)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [exporters, dmon])
def test_a_record_that_was_cut_exports_the_first_rows(
    make: Make, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = export_of(recorded(make, tmp_path / name, monkeypatch, 6))
    data, cut = (tmp_path / name).read_bytes(), tmp_path / "cut"
    seen = set()
    for end in range(0, len(data), max(1, len(data) // 60)):
        cut.write_bytes(data[:end])
        text = exported(cut)
        assert rows.startswith(text)
        seen.add(text)
    assert len(seen) >= (2 if name.endswith(".gz") else 6)


@pytest.mark.slow
def test_the_commands_agree(tmp_path: Path) -> None:
    (tmp_path / "capture.txt").write_text(capture(30))
    outputs = []
    for name in ("capture.txt", *NAMES):
        source = ["--source", "replay", "--set", "source.replay.speed=0", "--set"]
        if name != "capture.txt":
            told = pulsed("record", str(tmp_path / name), *source, f"source.replay.path={tmp_path / 'capture.txt'}")
            assert (told.returncode, told.stdout) == (0, "")
        outputs.append(pulsed("export", "--columns", "all", *source, f"source.replay.path={tmp_path / name}").stdout)
    assert outputs[0].count("\n") > 50
    assert outputs == [outputs[0]] * 3


def test_a_record_of_a_record_is_the_same_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second.gz"
    recorded(exporters, first, monkeypatch, 12)
    assert record(replaying(first), str(second)) == 0
    assert gzip.decompress(second.read_bytes()).splitlines()[1:] == first.read_bytes().splitlines()[1:]


# --- when it ends


async def run(sources: Sequence[Source], path: Path, seconds: float | None = None, most: int | None = None) -> Recorder:
    file = open_record(str(path))
    try:
        session = Session("0", "exporter", "n", "", {source.target: source.interval for source in sources})
        made = Recorder(sources, session, file, most)
        await made.run(seconds)
    finally:
        file.close()
    return made


async def test_a_source_that_fails_is_recorded_again_when_it_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    works, fails = tmp_path / "works.prom", tmp_path / "fails.prom"
    tape: list[RawTick] = []
    works.write_text(page(0))

    def turn() -> None:
        if len(tape) == 5:
            written = tmp_path / "written"
            written.write_text(page(1))
            written.rename(fails)  # at once: an empty page would be another failure

    settings = ExporterSettings(interval=0.01)
    sources = [Taped(ExporterSource(str(path), settings), tape, turn) for path in (works, fails)]
    assert (await run(sources, tmp_path / "record", most=40)).recorded == 40
    lines = [json.loads(line) for line in (tmp_path / "record").read_bytes().splitlines()]
    assert {line["target"] for line in lines if "tick" in line} == {str(works), str(fails)}
    told = [(message.message, vars(message)["target"]) for message in caplog.records]
    assert told == [("source failed", str(fails)), ("source works again", str(fails))]


async def test_when_no_source_works_it_gives_up_and_leaves_no_trace(tmp_path: Path) -> None:
    sources = [ExporterSource(str(tmp_path / name), ExporterSettings(interval=0.01)) for name in "ab"]
    with pytest.raises(RecordFailed, match=r"nothing was recorded: .*; .*") as raised:
        await run(sources, tmp_path / "record")
    for name in "ab":  # in the order in which they failed
        assert f"cannot read {tmp_path / name}: No such file" in str(raised.value)
    assert (tmp_path / "record").read_bytes() == b""


async def test_a_time_limit(tmp_path: Path) -> None:
    made = await run([DemoSource(0, 0.01)], tmp_path / "record.gz", seconds=0.2)
    text = gzip.decompress((tmp_path / "record.gz").read_bytes())
    assert made.recorded == text.count(b'{"tick"') > 0
    (tmp_path / "late.prom").write_text(page(0))
    late = ExporterSource(str(tmp_path / "late.prom"), ExporterSettings(interval=1e6), phase=0.5)
    with pytest.raises(RecordFailed, match="no tick came in time"):
        await run([late], tmp_path / "none", seconds=0.01)


async def test_a_fault_in_a_source_costs_its_tick(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tape: list[RawTick] = []

    def stumble() -> None:
        if len(tape) == 2:
            raise RuntimeError("a bug")

    assert (await run([Taped(DemoSource(0, 0.01), tape, stumble)], tmp_path / "record", most=3)).recorded == 3
    assert [message.message for message in caplog.records] == ["internal error in a tick; please report it"]


async def test_stopped_before_the_first_tick(tmp_path: Path) -> None:
    path = tmp_path / "record"
    file = open_record(str(path))
    made = Recorder([DemoSource(0, 1.0)], Session("0", "demo", "n", "", {"demo": 1.0}), file)
    made.stop()
    await made.run()
    file.close()
    assert (made.recorded, path.read_bytes()) == (0, b"")


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("name", NAMES)
def test_signals_leave_a_good_record_that_can_be_gone_on_with(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    path = tmp_path / name
    command = [sys.executable, "-m", "pulsed", "record", str(path), "--source", "demo", "--set", "source.interval=0.1"]
    rows = 1
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
        try:
            deadline = time.monotonic() + 30
            while not path.exists() or exported(path).count("\n") == rows:
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(number)
            log = process.communicate(timeout=SECONDS)[1]
        finally:
            process.kill()
            process.wait()
        assert process.returncode == (-number if number == signal.SIGKILL else 0), log
        assert ("msg=recorded" in log) == (number != signal.SIGKILL)
        rows = exported(path).count("\n")
    times = [line.partition(",")[0] for line in exported(path).splitlines()[1:]]
    assert times == sorted(times)
    assert len(set(times)) * 8 == len(times)
    if number != signal.SIGKILL and name.endswith(".gz"):
        gzip.decompress(path.read_bytes())


# --- the command


@pytest.mark.slow
def test_limits_and_stdout() -> None:
    told = pulsed("record", "-", "--source", "demo", "--set", "source.interval=0.1", "--ticks", "3")
    assert told.returncode == 0, told.stderr
    kinds = [next(iter(json.loads(line))) for line in told.stdout.splitlines()]
    assert kinds == ["pulsed_record", "layout", "tick", "tick", "tick"]
    told = pulsed("record", "-", "--source", "demo", "--set", "source.interval=0.1", "--duration", "300ms")
    assert told.returncode == 0, told.stderr
    assert told.stdout.count('{"tick"') >= 1


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("file", ["/dev/full", "-"])
def test_a_full_disk_fails(file: str) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "pulsed", "record", file, "--source", "demo", "--ticks", "2"]
        told = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False, env=environment()
        )
    assert told.returncode == 1
    assert told.stderr.splitlines()[-1].startswith("pulsed: cannot write")
    assert "No space left on device. Make room" in told.stderr


def test_whoever_has_read_enough_ends_it() -> None:
    command = [sys.executable, "-m", "pulsed", "record", "-", "--source", "demo", "--set", "source.interval=0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"pulsed_record":1,')
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("data", [b"time,node\n", b"\0", capture(1).encode(), gzip.compress(b"{}\n", mtime=0)])
def test_a_file_that_is_no_record_is_left_alone(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="exists and is not a record"):
        record(config("source.kind=demo"), str(path))
    assert path.read_bytes() == data


def test_what_is_replayed_is_not_recorded_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(demo, tmp_path / "record", monkeypatch, 2)
    with pytest.raises(UsageError, match="the recording to be replayed"):
        record(replaying(tmp_path / "record"), str(tmp_path / "record"))


def test_the_loop_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    recorded(demo, tmp_path / "record", monkeypatch, 1)
    assert signal.getsignal(signal.SIGTERM) is before
    assert asyncio.run(asyncio.sleep(0, "works")) == "works"
