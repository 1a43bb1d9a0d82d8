"""Texts from outside cannot control the terminal, and take the cells that they are counted for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pulsed.apps.top.feed import Connection, Feed, HistoryWanted, Wanted
from pulsed.number_text import left, right
from pulsed.present.terminal.focus import HISTORY_FIELDS
from pulsed.present.terminal.frame import VIEWS, frame
from pulsed.present.terminal.model import Gpu, model_of
from pulsed.present.terminal.text import fixed
from pulsed.present.terminal.view_state import ViewState
from pulsed.printable import ascii_text, clean
from tests.present.boards import TIME
from tests.present.terminal.fleet_model import answers
from tests.support.examples import examples
from tests.test_printable import CONTROL, EVIL


@given(st.text(), st.integers(0, 30))
def test_cut_and_padded_text_has_its_width(text: str, width: int) -> None:
    shown = clean(text)
    assert cell_len(left(shown, width)) == cell_len(right(shown, width)) == width
    assert fixed(shown, width).cell_len == width


def test_marks_of_other_scripts_keep_their_width() -> None:
    assert left("名前ab", 4) == "名 …"
    assert right("名", 4) == "  名"


KEPT = frozenset((
    "time", "since", "last_sample_time", "event", "state", "kind", "change", "finding", "last_seen", "bottleneck",
    "uuid", "mig_id", "roster", "workload_class", "health_state", "severity", "gpu", "node",
))  # fmt: skip
"""Keys whose texts decide what is shown; the others may be anything."""


def poisoned(document: Any, text: str) -> Any:
    """Return a document with a text in place of all others that come from outside."""
    if isinstance(document, dict):
        return {key: value if key in KEPT else poisoned(value, text) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [poisoned(each, text) for each in document]
    return text if isinstance(document, str) else document


class PoisonedDaemon:
    """Answers all requests of a feed with a text everywhere."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._before = answers()

    def json(self, path: str) -> Any:
        route = path.partition("?")[0]
        documents: dict[str, Any] = {
            "/gpus": self._before.summary,
            "/host": self._before.host,
            "/version": {"version": "0"},
            "/events/recent": {"changes": self._before.events},
            "/jobs": {"jobs": self._before.jobs},
            "/processes": {"published": True, "processes": self._before.processes},
            "/history": self._before.history,
        }
        if route == "/config":
            return {"history": {"fields": list(HISTORY_FIELDS)}}
        document = documents.get(route) or next(iter(self._before.details.values()))
        return poisoned(json.loads(json.dumps(document)), self._text)


@examples(40)
@given(st.text() | st.just(EVIL))
def test_no_text_of_any_document_reaches_the_terminal_as_it_is(text: str) -> None:
    feed = Feed(lambda: Connection(PoisonedDaemon(text), text), text)
    gpu = Gpu("node1", "2")
    feed.want(Wanted(gpu, HistoryWanted((gpu,), HISTORY_FIELDS, 600.0), events=True, jobs=True))
    feed.poll()
    assert feed.answers.error == ""
    model = model_of([feed.answers], feed.answers.arrived or 0.0, TIME + 0.9)
    assert [bool(each.detail) for each in model.gpus] == [number == 2 for number in range(9)]
    for view in VIEWS:
        for each in frame(model, ViewState(view=view, selected=model.gpus[2].key), 120, 70):
            assert not CONTROL.search(each.plain), each.plain
            assert ascii_text(each.plain).isascii()
