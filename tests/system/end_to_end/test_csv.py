"""An export played again is the same export, byte for byte; and the export for those who come from KempnerPulse."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import random
from pathlib import Path

import pytest

from pulsed.apps.ticks import export
from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import load
from pulsed.present.csv import pulsed_csv as rows
from pulsed.reader.demo.source import DemoSource
from pulsed.reader.source import Source
from tests.support.daemon import pulsed
from tests.support.dmon_writer import ABSENT, ERAS, DmonWriter, Value
from tools.bench.pages import exporter_page

START = 1767225600.25


def exported(path: Path, *settings: str, columns: str = "all", schema: str = "pulsed") -> str:
    """What `pulsed export` prints of a recording."""
    out = io.StringIO(newline="")
    overrides = [f"source.replay.path={path}", "node=n1", *settings]
    export(load(None, ["source.kind=replay", *overrides], {}), columns, out, schema)
    return out.getvalue()


def kept(folder: Path, text: str, name: str = "export.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


async def of_source(source: Source, ticks: int) -> str:
    out = io.StringIO(newline="")
    names = rows.columns("all")
    rows.write_header(out, names)
    pipeline = Pipeline(GpuTable(load(None, [], {}, {}).compute_settings()), "n1")
    for _ in range(ticks):
        rows.write_tick(out, names, pipeline.process(await source.read()))
    await source.close()
    return out.getvalue()


def capture(folder: Path, ticks: int = 60) -> Path:
    """Two GPUs and a MIG instance, whose classes change and flicker; values and whole rows are missing now and then."""
    rng = random.Random(7)
    fields = [1001, 1002, 1004, 1005, 1006, 203, 204, 252, 251, 253, 155, 156, 1009, 1010, 202]
    writer = DmonWriter(ERAS["C2"], fields)
    text = writer.header()

    def values(tick: int, scale: float) -> list[Value]:
        busy = scale * ((tick // 7) % 3) / 2 + rng.random() * 0.04
        blank = rng.random() < 0.1
        activity: list[Value] = [None if blank else round(busy * part, 3) for part in (1, 0.95, 0.7, 0.3, 0.0)]
        memory: list[Value] = [round(1000 * busy), 80_000 - round(1000 * busy), 576]
        return [*activity, round(100 * busy), 7, *memory, 70.125 + busy, 10**9 + 70_123 * tick, 5000, 10**6, tick // 9]

    for tick in range(ticks):
        text += writer.tick(
            [
                ("GPU 0", values(tick, 0.96)),
                *([("GPU 1", values(tick, 0.5))] if tick % 11 else []),
                ("GPU-I 7", [*values(tick, 0.3)[:5], *([ABSENT] * 10)]),
            ]
        )
    return kept(folder, text, "capture.txt")


def test_a_capture(tmp_path: Path) -> None:
    first = exported(capture(tmp_path))
    table = list(csv.DictReader(io.StringIO(first)))
    assert len({row["workload_class"] for row in table}) > 3
    assert any(row["workload_class"] != row["raw_class"] for row in table)
    assert {row["gpu"] for row in table} >= {"0", "1"}
    assert any(row["mig_id"] for row in table)
    assert exported(kept(tmp_path, first)) == first


def test_a_folder_of_pages_with_gaps(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(12):
        page = exporter_page(8, seed=number // 3) if number not in (3, 6, 7, 8, 9) else b"<html>502</html>"
        (folder / f"page-{number}.prom").write_bytes(page)
    first = exported(folder, "source.interval=15s")
    table = list(csv.DictReader(io.StringIO(first)))
    assert len(table) == 7 * 8
    assert exported(kept(tmp_path, first)) == first


def test_the_demo(tmp_path: Path) -> None:
    first = asyncio.run(of_source(DemoSource(start=START, pace=False), 150))
    assert "2026-01-01T00:02:29.250Z" in first
    assert exported(kept(tmp_path, first)) == first


def test_a_gpu_that_vanishes(tmp_path: Path) -> None:
    """Its rows have the time of its last sample."""
    rows = [
        f"2026-01-01T00:0{second // 60}:{second % 60:02}.000Z,n1,{gpu},GPU-{gpu},{70 + second % 7}.5\n"
        for second in range(100)
        for gpu in (0, 1)
        if gpu or not 10 <= second < 80
    ]
    first = exported(kept(tmp_path, "".join(["time,node,gpu,uuid,power_watts\n", *rows]), "rows.csv"))
    table = list(csv.DictReader(io.StringIO(first)))
    lost = [row for row in table if row["gpu"] == "0" and not row["power_watts"]]
    assert len(lost) > 50
    assert {(row["time"], row["health_state"]) for row in lost} == {("2026-01-01T00:00:09.000Z", "unknown")}
    assert exported(kept(tmp_path, first)) == first


def test_zipped_and_looped_and_at_a_tenth_of_a_second(tmp_path: Path) -> None:
    first = exported(capture(tmp_path), "source.interval=100ms")
    path = tmp_path / "export.csv.gz"
    path.write_bytes(gzip.compress(first.encode()))
    assert exported(path) == first


def test_a_subset_of_columns(tmp_path: Path) -> None:
    names = "gpu,mig_id,sm_active_ratio,time,real_utilization_upper_ratio,power_watts"
    first = exported(capture(tmp_path), columns=names)
    again = exported(kept(tmp_path, first), columns="gpu,mig_id,sm_active_ratio,time,power_watts")
    wanted = [[cell for place, cell in enumerate(row) if place != 4] for row in csv.reader(io.StringIO(first))]
    assert list(csv.reader(io.StringIO(again))) == wanted


def test_the_default_columns(tmp_path: Path) -> None:
    writer = DmonWriter(ERAS["C1"], [203, 252, 1002, 1004, 1005])
    text = writer.header() + "".join(writer.tick([("GPU 0", [n, n, 0.5, 0.25, 0.125])]) for n in range(5))
    names = "time,node,gpu,gpu_utilization_ratio,memory_used_bytes,sm_active_ratio,workload_class"
    path = kept(tmp_path, text, "capture.txt")
    again = kept(tmp_path, exported(path, columns="default"))
    assert exported(again, columns=names) == exported(path, columns=names)


def test_the_command_line(tmp_path: Path) -> None:
    """Torn as a full disk leaves it; played by the command that wrote it."""
    source = [f"--set=source.replay.path={capture(tmp_path, 5)}", "--set=node=n1"]
    first = pulsed("export", "--source=replay", "--columns=all", *source)
    assert first.returncode == 0
    path = kept(tmp_path, first.stdout[:-20])
    again = pulsed("export", "--source=replay", "--columns=all", f"--set=source.replay.path={path}")
    assert again.returncode == 0
    assert again.stdout == first.stdout[: first.stdout.rindex("\n", 0, -1) + 1]
    assert "half_row" in again.stderr


def test_a_bad_row_is_told_and_what_came_before_it_kept(tmp_path: Path) -> None:
    header, *lines = exported(capture(tmp_path, 5), columns="time,gpu,power_watts").splitlines(keepends=True)
    lines = [line for line in lines if ",0,70." in line]
    path = kept(tmp_path, "".join([header, *lines[:3], lines[3].replace("70.", "7O."), lines[4]]))
    finished = pulsed("export", "--source=replay", f"--set=source.replay.path={path}", "--columns=time,gpu,power_watts")
    assert finished.stdout == "".join([header, *lines[:3]])
    assert f"{path}, line 5: '7O." in finished.stderr
    assert "Traceback" not in finished.stderr


# --- for those who come from KempnerPulse


@pytest.mark.parametrize("columns", ["default", "all", "status,gpu_id"])
def test_the_schema_of_kempnerpulse(tmp_path: Path, columns: str) -> None:
    path = capture(tmp_path, 3)
    finished = pulsed(
        "export", "--schema=kempnerpulse", f"--columns={columns}", "--source=replay", f"--set=source.replay.path={path}"
    )
    assert finished.returncode == 0
    table = list(csv.DictReader(io.StringIO(finished.stdout)))
    assert len(table) == 3 * 3 - 1
    if columns != "status,gpu_id":
        assert [row["timestamp"] for row in table][:3] == ["1767225600.00", "1767225600.00", "1767225601.00"]
        played = pulsed("export", "--source=replay", f"--set=source.replay.path={kept(tmp_path, finished.stdout)}")
        assert played.returncode == 1
        assert "KempnerPulse" in played.stderr


def test_the_schema_implies_the_profile(tmp_path: Path) -> None:
    """A copy engine at 50 % is KempnerPulse's sign of IO, and none of pulsed's."""
    writer = DmonWriter(ERAS["C1"], [1001, 1002, 1004, 1005, 1006, 204, 1009, 1010])
    path = kept(tmp_path, writer.header() + writer.tick([("GPU 0", [0.5, 0.1, 0, 0.1, 0, 50, 0, 0])]), "capture.txt")
    assert "busy_low_sm_use" in exported(path, columns="raw_class")
    for setting in ("pulsed", "kempnerpulse"):
        text = exported(path, f"compute.workload.profile={setting}", columns="status", schema="kempnerpulse")
        assert text == "status\nI/O or data-loading\n"


def test_a_column_of_the_other_schema_is_refused() -> None:
    finished = pulsed("export", "--schema=kempnerpulse", "--columns=gpu_id,sm_active_ratio", "--source=demo")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "sm_active_pct" in finished.stderr
    finished = pulsed("export", "--schema=other", "--source=demo")
    assert finished.returncode == 2
