"""The file of latches: whole or not at all, and never in the way."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pulsed.collector.state_file import StateFile


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state" / "latches.json")
    assert not file.load(lambda _: None)
    assert file.save({"version": 1, "gpus": {"a": [1.5, None]}})
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


def test_a_file_that_is_not_accepted_is_set_aside(tmp_path: Path) -> None:
    def refuse(_: Mapping[str, object]) -> None:
        raise ValueError("version 7 instead of 1")

    file = StateFile(tmp_path / "latches.json")
    file.save({})
    assert not file.load(refuse)
    assert (tmp_path / "latches.json.broken").exists()


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "taken").write_text("a file where the folder should be")
    file = StateFile(tmp_path / "taken" / "latches.json")
    assert not file.save({})
    assert not file.save({})
    assert caplog.text.count("cannot be kept") == 1
    (tmp_path / "taken").unlink()
    assert file.save({})
    assert "kept again" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "latches.json"
    path.write_text("{}")
    path.chmod(0)
    assert not StateFile(path).load(lambda _: None)
    assert path.exists()
    assert "cannot be read" in caplog.text
