"""The file of state: whole or not at all, and never in the way."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pulsed.daemon import state_file
from pulsed.daemon.state_file import StateFile
from tests.support.full_disk import file_size_limit

OTHERS = '{"version": 1, "sections": {"theirs": 1}}'


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state")
    assert not file.load()
    assert file.save(file.draft({"health": {"a": [1.5, None]}}))
    assert StateFile(tmp_path / "state").load() == {"health": {"a": [1.5, None]}}
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["state.json"]


OTHER_VERSION = b'{"version": 7, "sections": {}}'


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"null", b"{}", OTHER_VERSION])
def test_a_broken_file_is_set_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    assert not StateFile(tmp_path).load()
    assert not path.exists()
    assert (tmp_path / "state.json.broken").read_bytes() == content
    assert "set aside" in caplog.text


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "huge"])
def test_what_is_no_file_of_pulseds_is_set_aside(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without reading a FIFO, which would never end, or what a link leads to."""
    monkeypatch.setattr(state_file, "MAX_BYTES", 1000)
    path, other = tmp_path / "state.json", tmp_path / "other.json"
    other.write_text(OTHERS)
    make = {"fifo": lambda: os.mkfifo(path), "link": lambda: path.symlink_to(other), "folder": path.mkdir}
    make.get(kind, lambda: path.write_text('{"a": "%s"}' % ("x" * 1000)))()
    file = StateFile(tmp_path)
    assert not file.load()
    assert ("larger than 1000 bytes" if kind == "huge" else "not a regular file") in caplog.records[0].error  # type: ignore[attr-defined]
    assert os.path.lexists(tmp_path / "state.json.broken")
    assert file.save(file.draft({"a": 1}))
    assert file.load()
    assert other.read_text() == OTHERS


def test_what_waits_in_place_of_the_new_file_is_not_written_to(tmp_path: Path) -> None:
    other, new = tmp_path / "other", tmp_path / "state.json.new"
    other.touch()
    file = StateFile(tmp_path)
    new.symlink_to(other)
    assert file.save(file.draft({"a": 1}))
    os.mkfifo(new)
    assert file.save(file.draft({"a": 1}))
    assert other.read_bytes() == b""
    assert not os.path.lexists(new)


def test_a_write_that_ends_in_the_middle_keeps_the_old_file(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    assert file.save(file.draft({"a": 1}))
    with file_size_limit(100):
        assert not file.save(file.draft({"a": 1, "more": "x" * 1000}))
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert file.load() == {"a": 1}


def test_a_document_that_waited_for_a_thread_replaces_no_later_one(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    first, second = file.draft({"a": 1}), file.draft({"a": 2})
    assert file.save(second)
    assert file.save(first)
    assert file.load() == {"a": 2}


def test_others_cannot_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = StateFile(tmp_path / "state")
        file.save(file.draft({}))
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "state" / "state.json").stat().st_mode & 0o777 == 0o640


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "taken").write_text("a file where the folder should be")
    file = StateFile(tmp_path / "taken")
    assert not file.save(file.draft({}))
    assert not file.save(file.draft({}))
    assert caplog.text.count("cannot be saved") == 1
    (tmp_path / "taken").unlink()
    assert file.save(file.draft({}))
    assert "saved again" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.json"
    path.write_text("{}")
    path.chmod(0)
    assert not StateFile(tmp_path).load()
    assert path.exists()
    assert "cannot be read" in caplog.text
