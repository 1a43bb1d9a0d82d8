"""Keys and commands."""

from __future__ import annotations

import pytest

from pulsed.apps.top.keys import KeyHandler
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import model

NAMES = {":": "colon", "/": "slash", " ": "space", "+": "plus", "?": "question_mark"}


@pytest.fixture
def keys() -> KeyHandler:
    made = KeyHandler(ViewState())
    made.model = model()
    return made


def typed(keys: KeyHandler, text: str) -> bool:
    """Press the keys of a text, and Enter."""
    for each in text:
        keys.press(NAMES.get(each, each), each, 24)
    return keys.press("enter", None, 24)


def pressed(keys: KeyHandler, names: str) -> bool:
    """Press keys; return whether the last one ends the program."""
    return [keys.press(NAMES.get(name, name), name if len(name) == 1 else None, 24) for name in names.split()][-1]


def selected(keys: KeyHandler) -> str:
    gpu = keys.view.current(keys.view.shown(keys.model))
    return "" if gpu is None else gpu.name


def state(keys: KeyHandler) -> tuple[str, str]:
    return keys.view.view, selected(keys)


@pytest.mark.parametrize(
    ("names", "view", "gpu"),
    [
        ("j", "fleet", "1"),
        ("j down", "fleet", "2"),
        ("j down k", "fleet", "1"),
        ("j up up", "fleet", "0"),
        ("right right left", "fleet", "1"),
        ("pagedown", "fleet", "6"),
        ("pagedown pageup", "fleet", "0"),
        ("end", "fleet", "8"),
        ("end home", "fleet", "0"),
        ("j enter", "focus", "1"),
        ("3 enter", "focus", "0"),
        ("5 enter", "events", "0"),
        ("2 escape", "fleet", "0"),
        ("4 q", "fleet", "0"),
        ("?", "help", "0"),
        ("tab", "fleet", "0"),
    ],
)
def test_a_key_selects_a_gpu_or_opens_a_view(keys: KeyHandler, names: str, view: str, gpu: str) -> None:
    assert not pressed(keys, names)
    assert state(keys) == (view, gpu)


@pytest.mark.parametrize(
    ("text", "view", "gpu"),
    [
        (":focus 5", "focus", "5"),
        (":focus GPU-node1-0003", "focus", "3"),
        (":focus node1:3", "focus", "3"),
        (":focus node1/3", "focus", "3"),
        (":focus", "focus", "0"),
        (":fo 2", "focus", "2"),
        (":plot", "plot", "0"),
        (":job", "job", "0"),
        (":he", "help", "0"),
        (":", "fleet", "0"),
    ],
)
def test_a_command_opens_a_view(keys: KeyHandler, text: str, view: str, gpu: str) -> None:
    assert not typed(keys, text)
    assert state(keys) == (view, gpu)


@pytest.mark.parametrize("text", [":q", ":quit", ":qui"])
def test_going_back_leads_to_fleet_and_then_ends(keys: KeyHandler, text: str) -> None:
    keys.open("plot")
    assert not typed(keys, text)
    assert keys.view.view == "fleet"
    assert typed(keys, text)
    keys.open("plot")
    assert typed(keys, ":exit")
    assert not pressed(keys, "escape")
    assert pressed(keys, "escape")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":focus 99", "there is no GPU '99'"),
        (":wq", "there is no command 'wq'"),
        (":f", "there is no command 'f'"),
        (":sort mood", "there is no order 'mood'"),
        ("/ru<", "a value after ru is missing"),
    ],
)
def test_a_wrong_command_is_a_message_until_the_next_key(keys: KeyHandler, text: str, message: str) -> None:
    assert not typed(keys, text)
    assert message in keys.view.message
    pressed(keys, "j")
    assert keys.view.message == ""


@pytest.mark.parametrize(
    ("text", "names", "gpus"),
    [
        ("/use=held | use=free", "tab", "3 4"),
        ("/use=held", "escape", "0 1 2 3 4 5 6 7:3 8"),
        (":sort ru", "tab", "0 2 8 5 3 4 1 6 7:3"),
        (":sort ru", "r", "7:3 6 1 4 3 5 8 2 0"),
        (":sort waste", "tab", "3 1 4 6 7:3 5 8 0 2"),
    ],
)
def test_filter_and_order(keys: KeyHandler, text: str, names: str, gpus: str) -> None:
    typed(keys, text)
    assert not pressed(keys, names)
    assert " ".join(gpu.name for gpu in keys.view.shown(keys.model)) == gpus


def test_layout_pause_and_window_are_changed_by_a_key(keys: KeyHandler) -> None:
    pressed(keys, "v space +")
    assert (keys.view.layout, keys.view.paused, keys.view.window) == ("cards", True, 1800.0)
    pressed(keys, "v v s minus minus")
    assert (keys.view.layout, keys.view.sort, keys.view.window) == ("auto", "ru", 300.0)


@pytest.mark.parametrize(
    ("names", "prompt"),
    [
        (": x escape", None),
        (": x backspace q tab", ":q"),
        (": x backspace backspace", None),
        ("/ a", "/a"),
    ],
)
def test_a_prompt_can_be_edited_and_left(keys: KeyHandler, names: str, prompt: str | None) -> None:
    pressed(keys, names)
    assert keys.view.prompt == prompt


@pytest.mark.parametrize(
    ("names", "scroll"), [("5 j", 1), ("5 j pagedown", 20), ("5 j pagedown pageup k k", 0), ("2 pagedown", 19)]
)
def test_a_list_scrolls(keys: KeyHandler, names: str, scroll: int) -> None:
    pressed(keys, names)
    assert keys.view.scroll == scroll


def test_a_click_selects_and_opens(keys: KeyHandler) -> None:
    key = keys.model.gpus[4].key
    keys.click(key)
    assert state(keys) == ("fleet", "4")
    keys.click(key)
    assert keys.view.view == "focus"
