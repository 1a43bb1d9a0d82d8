"""Lines of the log: one an event, without characters that a terminal interprets."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsed.log import LIMIT_SECONDS, MAX_LINES, Format, LineLimit, error_lines, setup
from tests.test_printable import CONTROL, EVIL


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger; the root logger is restored."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield logging.getLogger("pulsed.test")
    root.handlers[:] = handlers
    root.setLevel(level)


def test_logfmt(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    logger.info("source failed", extra={"target": EVIL, "plain": "a-b/c", "empty": "", "quoted": 'a"b=c', "number": 1})
    (line,) = capsys.readouterr().err.splitlines()
    assert not CONTROL.search(line)
    assert r'target="\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eabc\r\n\ud800名前e' in line
    assert line.split(" logger=", 1)[1].startswith('pulsed.test msg="source failed" target=')
    assert line.endswith(r'plain=a-b/c empty="" quoted="a\"b=c" number=1')


def test_json(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    setup(format="json")
    logger.info(f"from outside: {EVIL}", extra={"target": EVIL})
    (line,) = capsys.readouterr().err.splitlines()
    assert not CONTROL.search(line)
    assert (json.loads(line)["msg"], json.loads(line)["target"]) == (f"from outside: {EVIL}", EVIL)


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_the_journal_gets_priorities(
    logger: logging.Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format
) -> None:
    journal = tmp_path / "journal"
    with journal.open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setattr("pulsed.log.os.fstat", lambda descriptor: status)
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        setup(format=format)
        logger.info("a")
        logger.warning("b")
        logger.error("c")
        assert error_lines("one\ntwo\n") == "<3>one\n<3>two\n"
        monkeypatch.setenv("JOURNAL_STREAM", "1:1")
        setup(format=format)
        logger.error("d")
        assert error_lines("one\n") == "one\n"
    lines = journal.read_text().splitlines()
    assert [line[:3] for line in lines[:3]] == ["<6>", "<4>", "<3>"]
    assert not lines[3].startswith("<")


def test_lines_of_one_kind_are_limited(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    for number in range(MAX_LINES + 50):
        logger.info(f"GPU-{number}")
    logger.info("another kind")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MAX_LINES + 1
    assert "another kind" in lines[-1]


def test_lines_that_are_left_out_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0] * (MAX_LINES + 7) + [LIMIT_SECONDS + 1])
    limit = LineLimit(lambda: next(times))
    record = logging.LogRecord("a", logging.INFO, "/x/health_log.py", 12, "text", None, None)
    assert [limit.filter(record) for _ in range(MAX_LINES + 7)].count(False) == 7
    assert caplog.records == []
    assert limit.filter(record)
    (counted,) = caplog.records
    assert (vars(counted)["lines"], vars(counted)["code"]) == (7, "health_log.py:12")


def test_debug_has_all_lines(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    setup("debug")
    for number in range(MAX_LINES + 50):
        logger.info(f"GPU-{number}")
    assert len(capsys.readouterr().err.splitlines()) == MAX_LINES + 50
