"""Frames as text, compared with the files in `expected/`; UPDATE_GOLDEN=1 writes them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsed.present.terminal.line import ascii_line, cells, palette
from pulsed.present.terminal.model import Model
from pulsed.present.terminal.screen import MIN_HEIGHT, MIN_WIDTH, VIEWS, Screen, render
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


def text_of(screen: Screen, *, ascii: bool = False) -> str:
    lines = [ascii_line(each) if ascii else each for each in screen.lines]
    return "".join(f"{each.text.rstrip()}\n" for each in lines)


def compare(name: str, text: str) -> None:
    file = EXPECTED / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", VIEWS)
def test_frames(shown: Model, view: Any, size: tuple[int, int]) -> None:
    state = ViewState(view=view, selected="0/node1/GPU-node1-0002/")
    screen = render(shown, state, *size)
    assert len(screen.lines) == size[1]
    assert {each.width for each in screen.lines} == {size[0]}
    assert {segment.style for each in screen.lines for segment in each} <= set(palette("none"))
    compare(f"{view}-{size[0]}x{size[1]}", text_of(screen))


@pytest.mark.parametrize("view", VIEWS)
def test_ascii_frames_have_the_same_width(shown: Model, view: Any) -> None:
    screen = render(shown, ViewState(view=view), 100, 40)
    lines = [ascii_line(each) for each in screen.lines]
    assert all(each.text.isascii() and each.width == 100 for each in lines)


def test_cards_on_demand_scroll_with_the_selected_gpu(shown: Model) -> None:
    state = ViewState(layout="cards", selected="0/node1/GPU-node1-0005/")
    screen = render(shown, state, 80, 24)
    text = text_of(screen)
    assert "GPU 4 " in text
    assert "GPU 5 " in text
    assert "GPU 0 " not in text
    assert screen.gpu_at(3, 4) == "0/node1/GPU-node1-0004/"
    assert screen.gpu_at(50, 4) == "0/node1/GPU-node1-0005/"
    assert screen.gpu_at(3, 0) == ""


def test_what_is_missing_is_never_zero(shown: Model) -> None:
    rows = {
        line.split()[0]: line for line in text_of(render(shown, ViewState(layout="rows"), 200, 60)).splitlines()[3:12]
    }
    assert "STALE 42 s" in rows["8"]
    assert " 0" not in rows["8"].split("STALE 42 s")[1].replace("/ /", "")
    assert "38..61" in rows["1"]
    assert "? memory bound or mixed" in rows["1"]
    assert "--" in rows["1"]
    assert "[▏" in rows["4"]
    assert "free" in rows["4"]
    assert "4711 idle" in rows["3"]
    sums = render(shown, ViewState(), 200, 60).lines[1].text
    assert "5/9" in sums
    assert "1 stale" in sums


def test_too_small_a_terminal_says_what_it_needs(shown: Model) -> None:
    screen = render(shown, ViewState(), MIN_WIDTH - 1, MIN_HEIGHT)
    assert screen.lines[0].text.startswith(f"needs {MIN_WIDTH}x{MIN_HEIGHT}")
    assert len(screen.lines) == MIN_HEIGHT


@pytest.mark.parametrize("view", ["focus", "job", "events", "sources"])
def test_a_document_of_another_version_is_an_error_of_its_view(shown: Model, view: Any) -> None:
    other = {"version": "\x1b[2J"}
    strange = replace(
        shown,
        gpus=tuple(replace(gpu, detail={"health": {"checks": [other]}}) for gpu in shown.gpus),
        daemons=tuple(
            replace(daemon, summary={"sources": (other,)}, events=(other,), jobs=(other,)) for daemon in shown.daemons
        ),
    )
    screen = render(strange, ViewState(view=view), 120, 30)
    assert [each.width for each in screen.lines] == [120] * 30
    assert "this view cannot show what the daemon answered" in text_of(screen)
    assert "\x1b" not in text_of(screen)


def test_every_view_has_a_frame_without_any_data() -> None:
    for view in VIEWS:
        for size in SIZES:
            screen = render(Model(0.0), ViewState(view=view), *size)
            assert {each.width for each in screen.lines} == {size[0]}
            assert all(cells(each.text) == size[0] for each in screen.lines)
