"""Lines of the log: one an event, without characters that a terminal interprets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from pulsed.log import setup
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
