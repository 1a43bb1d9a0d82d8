"""Texts from outside cannot control a terminal, a log or a spreadsheet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.owners.report.job_line import job_line
from pulsed.owners.report.job_report import job_report
from pulsed.owners.report.text_table import job_table
from pulsed.present.health_report import health_line, health_table
from pulsed.printable import clean, clean_lines, cleaned, escaped
from tests.owners.report.accounts import document

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r\n\ud800名前e\u0301"


@given(st.text())
def test_clean_text_has_no_control_characters(text: str) -> None:
    assert not CONTROL.search(clean(text))
    assert clean(clean(text)) == clean(text)


def test_clean_texts() -> None:
    assert clean(EVIL) == "?]0;owned??[2J?31m?abc???名前e"
    assert cleaned({EVIL: [EVIL, 1, None]}) == {clean(EVIL): [clean(EVIL), 1, None]}
    assert clean_lines("a\x1b\n\u2028b\x85\n") == "a?\n?b?\n"


@given(st.text())
def test_escaped_json_is_the_same_document(text: str) -> None:
    shown = escaped(json.dumps([text], ensure_ascii=False))
    assert not CONTROL.search(shown)
    assert json.loads(shown) == [text]


def poisoned(document: Any) -> Any:
    """Return a document with a hostile text in place of all texts that are no times."""
    if isinstance(document, dict):
        return {key: value if key in KEPT else poisoned(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [poisoned(each) for each in document]
    return EVIL if isinstance(document, str) else document


KEPT = frozenset({"since", "begin", "end", "state", "kind"})


@pytest.mark.parametrize("render", [health_table, health_line])
def test_reports_about_health(render: Callable[[list[Any]], str]) -> None:
    problem = {"id": EVIL, "state": "warn", "since": EVIL, "message": EVIL, "remedy": EVIL}
    row = {"node": EVIL, "gpu": EVIL, "uuid": EVIL, "mig": {"id": EVIL}, "model": EVIL, "target": EVIL, "stale": False}
    row |= {"state": "warn", "severity": 2, "coverage": 1.0, "last_reset": None, "problems": [problem]}
    assert not CONTROL.search(render([row, row | {"gpu": None}]).replace("\n", ""))


@pytest.mark.parametrize("render", [job_report, job_line, lambda account: job_table([account, account])])
def test_reports_about_jobs(render: Callable[[Any], str]) -> None:
    assert not CONTROL.search(render(poisoned(document())).replace("\n", ""))
