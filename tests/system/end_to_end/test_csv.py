"""What `pulsed export` prints, also in the schema of KempnerPulse."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from pulsed.apps.ticks import export
from pulsed.config.configuration import load
from tests.support.daemon import pulsed
from tests.support.dmon_writer import ABSENT, ERAS, DmonWriter, Value


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
    table = list(csv.DictReader(io.StringIO(exported(capture(tmp_path)))))
    assert len({row["workload_class"] for row in table}) > 3
    assert any(row["workload_class"] != row["raw_class"] for row in table)
    assert {row["gpu"] for row in table} >= {"0", "1"}
    assert any(row["mig_id"] for row in table)


def test_an_export_is_not_replayed(tmp_path: Path) -> None:
    path = kept(tmp_path, exported(capture(tmp_path, 3)))
    played = pulsed("export", "--source=replay", f"--set=source.replay.path={path}")
    assert played.returncode == 1
    assert "pulsed record" in played.stderr


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
        assert "CSV" in played.stderr


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
