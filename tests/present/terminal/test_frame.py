"""Frames as text, compared with the files in `expected/`; UPDATE_GOLDEN=1 writes them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from pulsed.present.terminal.frame import MIN_HEIGHT, MIN_WIDTH, VIEWS, frame, printed
from pulsed.present.terminal.model import Model
from pulsed.present.terminal.text import Theme, styles
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import model

EXPECTED = Path(__file__).parent / "expected"
SIZES = ((41, 23), (80, 24), (200, 60))


@pytest.fixture(scope="module")
def shown() -> Model:
    return model()


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def text_of(model: Model, view: ViewState, width: int, height: int, theme: Theme = "none", **changes: bool) -> str:
    return printed(model, view, (width, height), theme, **{"ascii": False, "is_terminal": False, **changes})


def compare(name: str, text: str) -> None:
    file = EXPECTED / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", VIEWS)
def test_frames(shown: Model, view: Any, size: tuple[int, int]) -> None:
    state = ViewState(view=view, selected="0/node1/GPU-node1-0002/")
    text = text_of(shown, state, *size)
    assert all(cell_len(each) <= size[0] for each in text.splitlines())
    compare(f"{view}-{size[0]}x{size[1]}", text)


@pytest.mark.parametrize("view", VIEWS)
def test_ascii_frames_have_the_same_width(shown: Model, view: Any) -> None:
    state = ViewState(view=view)
    text, ascii = text_of(shown, state, 100, 40), text_of(shown, state, 100, 40, ascii=True)
    assert ascii.isascii()
    assert [cell_len(each) for each in text.splitlines()] == [len(each) for each in ascii.splitlines()]


@pytest.mark.parametrize("view", VIEWS)
def test_all_styles_have_colours(shown: Model, view: Any) -> None:
    known = {*styles("dark").styles, "dim", "bold", ""}
    for each in frame(shown, ViewState(view=view), 120, 40).lines:
        assert {str(span.style) for span in each.spans if isinstance(span.style, str)} <= known


def test_colours_are_those_of_the_theme(shown: Model) -> None:
    def codes(theme: Theme, **changes: bool) -> str:
        return text_of(shown, ViewState(), 120, 40, theme, **{"is_terminal": True, **changes})

    assert "\x1b[38;2;47;230;160m" in codes("dark")
    assert "\x1b[38;2;2;79;63m" in codes("light")
    assert "\x1b[32m" in codes("16")
    assert "38;2" not in codes("16")
    assert not re.search(r"\x1b\[[\d;]*\b3\d", codes("none"))
    assert "\x1b" not in codes("dark", is_terminal=False)


def test_what_is_missing_is_never_zero(shown: Model) -> None:
    rows = {line.split()[0]: line for line in text_of(shown, ViewState(layout="rows"), 200, 60).splitlines()[3:12]}
    assert "STALE 42 s" in rows["8"]
    assert " 0" not in rows["8"].split("STALE 42 s")[1].replace("/ /", "")
    assert "38..61" in rows["1"]
    assert "? memory bound or mixed" in rows["1"]
    assert "--" in rows["1"]
    assert "[▏" in rows["4"]
    assert "free" in rows["4"]
    assert "4711 idle" in rows["3"]
    sums = text_of(shown, ViewState(), 200, 60).splitlines()[1]
    assert "5/9" in sums
    assert "1 stale" in sums


def test_ok_is_shown_with_the_number_of_known_checks(shown: Model) -> None:
    checks = {"known_checks": 4, "applicable_checks": 23}
    half = replace(shown, gpus=tuple(replace(gpu, values={**gpu.values, **checks}) for gpu in shown.gpus))
    rows = {line.split()[0]: line for line in text_of(half, ViewState(layout="rows"), 200, 60).splitlines()[3:12]}
    well = [gpu.name for gpu in half.gpus if gpu.health == "ok" and not gpu.stale]
    assert well
    assert [name for name, row in rows.items() if "ok 4/23" in row] == well


def test_narrow_rows_have_the_index_of_each_gpu(shown: Model) -> None:
    for width in range(MIN_WIDTH, 121):
        rows = text_of(shown, ViewState(layout="rows"), width, 40).splitlines()[3 : 3 + len(shown.gpus)]
        assert [row.split()[0] for row in rows] == [gpu.name for gpu in shown.gpus], width


def test_too_small_a_terminal_says_what_it_needs(shown: Model) -> None:
    assert text_of(shown, ViewState(), MIN_WIDTH - 1, MIN_HEIGHT) == f"needs {MIN_WIDTH}x{MIN_HEIGHT} cells\n"


@pytest.mark.parametrize("view", ["gpu", "events", "work", "sources"])
def test_a_document_of_another_version_is_an_error_of_its_view(shown: Model, view: Any) -> None:
    other = {"version": "\x1b[2J"}
    strange = replace(
        shown,
        gpus=tuple(replace(gpu, detail={"health": {"checks": [other]}}) for gpu in shown.gpus),
        daemons=tuple(
            replace(
                daemon,
                documents={
                    "summary": {"sources": [other]},
                    "incidents": {"incidents": [other]},
                    "jobs": {"jobs": [other]},
                },
            )
            for daemon in shown.daemons
        ),
    )
    text = text_of(strange, ViewState(view=view), 120, 30)
    assert "this view cannot show what the daemon answered" in text
    assert "\x1b" not in text


def test_every_view_has_a_frame_without_any_data() -> None:
    for view in VIEWS:
        for size in SIZES:
            assert text_of(Model(0.0), ViewState(view=view), *size).startswith("pulsed")


def test_charts_and_abbreviations_fill_what_is_left_below_the_gpus(shown: Model) -> None:
    for view in (ViewState(), ViewState(layout="rows")):
        lines = frame(shown, view, 120, 80).lines
        assert len(lines) <= 80
        assert lines[-1].plain.startswith("? help  RU real utilization")
        assert lines[-2].plain.startswith("-10 min ─")
    without = replace(shown, gpus=tuple(replace(gpu, history={}) for gpu in shown.gpus))
    lines = frame(without, ViewState(layout="rows"), 120, 60).lines
    assert len(lines) == 2 + 1 + len(shown.gpus) + 1


def test_critical_gpus_stand_first_in_the_default_order(shown: Model) -> None:
    gpus = ViewState().shown(shown)
    urgent = [gpu.health in ("crit", "hot") for gpu in gpus]
    assert urgent == sorted(urgent, reverse=True)


def test_a_recording_that_is_over_is_no_fault(shown: Model) -> None:
    for daemon in shown.daemons:
        for source in daemon.documents["summary"]["sources"]:
            source |= {"up": False, "ended": True}
    (first, *_) = frame(shown, ViewState(), 200, 60).lines
    assert "the recording is over" in first.plain
    lines = [row.plain for row in frame(shown, ViewState(view="sources"), 200, 60).lines]
    assert any("ended" in line for line in lines)
    assert not any("DOWN" in line for line in lines)
