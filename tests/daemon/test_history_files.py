"""The files of the minutes: what a restart finds in them, and how large they may be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pulsed.config.configuration import Config
from pulsed.daemon import history
from pulsed.daemon.history import HistoryFeature, HistoryFiles
from pulsed.json_text import json_bytes
from pulsed.model.gpu import Device, Entity
from pulsed.model.target_store import TargetStore
from pulsed.present.api.day_history import DayMinute
from tests.daemon.parts import feature_parts
from tests.present.api.test_history_points import at
from tests.present.boards import gpu

NOW = int(time.time() // 60)


def minute(ago: int, gpus: int = 1, target: str = "made") -> DayMinute:
    return DayMinute(
        NOW - ago,
        target,
        ["power_watts"],
        [(Device(Entity("gpu", str(number)), "H100"), [1.0, 2.0, 3.0]) for number in range(gpus)],
    )


def test_the_minutes_of_the_last_day_are_read_in_order(tmp_path: Path) -> None:
    first = HistoryFiles(tmp_path / "state")
    kept = [minute(1430), minute(3), minute(2)]
    for each in (minute(1450), *kept):
        first.add(json_bytes(each.dump()))
        first.write()
    (file,) = (tmp_path / "state").iterdir()
    with file.open("a") as torn:
        torn.write('{"minute": 12')
    assert list(HistoryFiles(tmp_path / "state").read()) == kept
    assert not first.status.is_failing
    assert file.stat().st_mode & 0o777 == 0o640


def test_old_days_are_removed(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        (tmp_path / f"history-2026-01-0{day}.ndjson").write_text("")
    (tmp_path / "history-2026-01-02.ndjson").unlink()
    (tmp_path / "history-2026-01-02.ndjson").mkdir()  # cannot be removed, and keeps nothing else
    files = HistoryFiles(tmp_path)
    for ago in (2, 1):
        files.add(json_bytes(minute(ago).dump()))
        files.write()
    assert not files.status.is_failing
    assert [each.minute for each in files.read()] == [NOW - 2, NOW - 1]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_disk_that_refuses_loses_nothing_while_it_waits(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path / "state")
    (tmp_path / "state").write_text("a file where the folder should be")
    for ago in (3, 2):
        files.add(json_bytes(minute(ago).dump()))
        files.write()
        assert files.status.is_failing
    (tmp_path / "state").unlink()
    files.write()
    assert list(files.read()) == [minute(3), minute(2)]


def test_a_fleet_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_GPUS", 1)
    feature = HistoryFeature(feature_parts(TargetStore("here"), Config(state_dir=str(tmp_path))))
    assert feature.files is not None
    for second in range(0, 400, 20):
        feature.take_tick(at(second, [gpu(number) for number in range(1 if second < 200 else 2)]))
    feature.save()
    (file,) = tmp_path.iterdir()
    assert len(file.read_text().splitlines()) == 3  # until the second GPU had a minute
