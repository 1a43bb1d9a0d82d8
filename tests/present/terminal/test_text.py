"""Texts from outside cannot control the terminal, and take the cells that they are counted for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pulsed.apps.top.feed import JOBS, Connection, Feed, Wanted
from pulsed.number_text import left, right
from pulsed.present.terminal.frame import VIEWS, frame
from pulsed.present.terminal.model import model_of
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

    def json(self, path: str) -> Any:
        route, before = path.partition("?")[0], answers().documents
        documents: dict[str, Any] = {
            "/gpus": before["summary"],
            "/events/recent": before["events"],
            "/events/incidents": before["incidents"],
            "/gpus/2": before["detail"],
            "/gpus/2/class": before["class"],
        }
        document = documents.get(route) or before[route.removeprefix("/")]
        return poisoned(json.loads(json.dumps(document)), self._text)


@examples(40)
@given(st.text() | st.just(EVIL))
def test_no_text_of_any_document_reaches_the_terminal_as_it_is(text: str) -> None:
    feed = Feed(lambda: Connection(PoisonedDaemon(text), text), text)
    paths = {"detail": "/gpus/2", "class": "/gpus/2/class", "events": "/events/recent", "jobs": JOBS}
    paths["incidents"] = "/events/incidents"
    paths |= {name: f"/{name}" for name in ("history", "processes", "catalog")}
    feed.want({name: Wanted(path) for name, path in paths.items()})
    feed.poll()
    assert feed.answers.error == ""
    model = model_of([feed.answers], feed.answers.arrived or 0.0, TIME + 0.9)
    assert [bool(each.detail) for each in model.gpus] == [number == 2 for number in range(9)]
    for view in VIEWS:
        for each in frame(model, ViewState(view=view, selected=model.gpus[2].key), 120, 70).lines:
            assert not CONTROL.search(each.plain), each.plain
            assert ascii_text(each.plain).isascii()
