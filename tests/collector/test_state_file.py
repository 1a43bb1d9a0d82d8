"""The file of latches: whole or not at all, and never in the way."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pulsed.collector import state_file
from pulsed.collector.collector import Pipeline
from pulsed.collector.state_file import SavedHealth, StateFile
from pulsed.compute.gpu_table import GpuTable
from tests.support.full_disk import file_size_limit
from tests.support.tampering import tampered
from tests.support.waiting import cancelled_before_it_has_a_thread, eventually
from tools.bench.ticks import raw_ticks


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state" / "latches.json")
    assert not file.load(lambda _: None)
    assert file.save(file.draft({"version": 1, "gpus": {"a": [1.5, None]}}))
    found: list[Mapping[str, object]] = []
    assert file.load(found.append)
    assert found == [{"version": 1, "gpus": {"a": [1.5, None]}}]
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["latches.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_a_broken_file_is_set_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "latches.json"
    path.write_bytes(content)
    assert not StateFile(path).load(lambda _: None)
    assert not path.exists()
    assert (tmp_path / "latches.json.broken").read_bytes() == content
    assert "set aside" in caplog.text


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "huge"])
def test_what_is_no_file_of_pulseds_is_set_aside(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without reading a FIFO, which would never end, or what a link leads to."""
    monkeypatch.setattr(state_file, "MOST_BYTES", 1000)
    path, other = tmp_path / "latches.json", tmp_path / "other.json"
    other.write_text("{}")
    make = {"fifo": lambda: os.mkfifo(path), "link": lambda: path.symlink_to(other), "folder": path.mkdir}
    make.get(kind, lambda: path.write_text('{"a": "%s"}' % ("x" * 1000)))()
    file = StateFile(path)
    assert not file.load(lambda _: pytest.fail("it was read"))
    assert ("larger than 1000 bytes" if kind == "huge" else "not a regular file") in caplog.records[0].error  # type: ignore[attr-defined]
    assert os.path.lexists(tmp_path / "latches.json.broken")
    assert file.save(file.draft({"version": 1}))
    assert file.load(lambda _: None)
    assert other.read_text() == "{}"


def test_what_waits_in_place_of_the_new_file_is_not_written_to(tmp_path: Path) -> None:
    other, new = tmp_path / "other", tmp_path / "latches.json.new"
    other.touch()
    file = StateFile(tmp_path / "latches.json")
    new.symlink_to(other)
    assert file.save(file.draft({"version": 1}))
    os.mkfifo(new)
    assert file.save(file.draft({"version": 1}))
    assert other.read_bytes() == b""
    assert not os.path.lexists(new)


def test_a_write_that_ends_in_the_middle_keeps_the_old_file(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "latches.json")
    assert file.save(file.draft({"version": 1}))
    with file_size_limit(100):
        assert not file.save(file.draft({"version": 1, "more": "x" * 1000}))
    assert [path.name for path in tmp_path.iterdir()] == ["latches.json"]
    assert json.loads((tmp_path / "latches.json").read_bytes()) == {"version": 1}


def test_a_document_that_waited_for_a_thread_replaces_no_later_one(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "latches.json")
    first, second = file.draft({"version": 1}), file.draft({"version": 2})
    assert file.save(second)
    assert file.save(first)
    assert json.loads((tmp_path / "latches.json").read_bytes()) == {"version": 2}


def test_others_cannot_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = StateFile(tmp_path / "state" / "latches.json")
        file.save(file.draft({}))
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "state" / "latches.json").stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_not_accepted_is_set_aside(tmp_path: Path) -> None:
    def refuse(_: Mapping[str, object]) -> None:
        raise ValueError("version 7 instead of 1")

    file = StateFile(tmp_path / "latches.json")
    file.save(file.draft({}))
    assert not file.load(refuse)
    assert (tmp_path / "latches.json.broken").exists()


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "taken").write_text("a file where the folder should be")
    file = StateFile(tmp_path / "taken" / "latches.json")
    assert not file.save(file.draft({}))
    assert not file.save(file.draft({}))
    assert caplog.text.count("cannot be kept") == 1
    (tmp_path / "taken").unlink()
    assert file.save(file.draft({}))
    assert "kept again" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "latches.json"
    path.write_text("{}")
    path.chmod(0)
    assert not StateFile(path).load(lambda _: None)
    assert path.exists()
    assert "cannot be read" in caplog.text


async def test_changed_health_is_written_regularly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "WRITE_SECONDS", 0.01)
    pipeline = Pipeline(GpuTable(), "node")
    for raw in raw_ticks(4, 2):
        pipeline.process(raw)
    evaluators = {"bench": pipeline.health_evaluator}
    path, at_once = tmp_path / "latches.json", tmp_path / "at_once.json"
    writing = asyncio.create_task(SavedHealth(StateFile(path)).write_regularly(lambda: evaluators))
    await eventually(path.exists)
    writing.cancel()
    SavedHealth(StateFile(at_once)).write(evaluators)
    assert path.read_bytes() == at_once.read_bytes()


async def test_health_is_not_lost_while_its_write_waits_for_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "WRITE_SECONDS", 0.01)
    pipeline, path = Pipeline(GpuTable(), "node"), tmp_path / "latches.json"
    for raw in raw_ticks(4, 2):
        pipeline.process(raw)
    evaluators = {"bench": pipeline.health_evaluator}
    saved = SavedHealth(StateFile(path))
    await cancelled_before_it_has_a_thread(saved.write_regularly(lambda: evaluators), lambda: saved.write(evaluators))
    assert json.loads(path.read_bytes())["targets"].keys() == {"bench"}


@pytest.mark.slow
def test_no_change_of_the_file_stops_pulsed(tmp_path: Path) -> None:
    path, ticks = tmp_path / "latches.json", raw_ticks(2, 4)
    first = Pipeline(GpuTable(), "node")
    for raw in ticks[:2]:
        first.process(raw)
    SavedHealth(StateFile(path)).write({"bench": first.health_evaluator})
    for text, change in tampered(json.loads(path.read_bytes()), 300, seed=1):
        path.write_text(text)
        try:
            pipeline, saved = Pipeline(GpuTable(), "node"), SavedHealth(StateFile(path))
            saved.restore("bench", pipeline.health_evaluator, ticks[1].time + 5.0)
            for raw in ticks[2:]:
                pipeline.process(raw)
            saved.write({"bench": pipeline.health_evaluator})
            assert not saved.status.is_failing
        except Exception as error:
            raise AssertionError(change) from error
