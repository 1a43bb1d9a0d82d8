"""Keys and commands."""

from __future__ import annotations

import pytest

from pulsed.commands.top.keys import Command
from pulsed.terminal.view_state import ViewState
from tests.terminal.fleet_model import model


@pytest.fixture
def command() -> Command:
    made = Command(ViewState())
    made.model = model()
    return made


def typed(command: Command, text: str) -> bool:
    """Press the keys of a text, and Enter."""
    for each in text:
        command.press({":": "colon", "/": "slash", " ": "space"}.get(each, each), each, 24)
    return command.press("enter", None, 24)


def view_of(command: Command) -> str:
    return command.view.view


def prompt_of(command: Command) -> str:
    return command.view.prompt or ""


def selected(command: Command) -> str:
    gpu = command.view.current(command.view.shown(command.model))
    return "" if gpu is None else gpu.name


def test_keys_of_kempnerpulse(command: Command) -> None:
    for key, name in (
        ("j", "1"),
        ("down", "2"),
        ("k", "1"),
        ("up", "0"),
        ("up", "0"),
        ("pagedown", "6"),
        ("pageup", "0"),
    ):
        command.press(key, None, 24)
        assert selected(command) == name, key
    assert not typed(command, ":focus 5")
    assert (view_of(command), selected(command)) == ("focus", "5")
    for name in ("plot", "job"):
        assert not typed(command, f":{name}")
        assert view_of(command) == name
    assert not typed(command, ":q")
    assert view_of(command) == "fleet"
    assert typed(command, ":q")
    assert typed(command, ":exit")
    command.press("1", "1", 24)
    command.press("enter", None, 24)
    assert view_of(command) == "focus"
    assert not command.press("escape", None, 24)
    assert command.press("escape", None, 24)


@pytest.mark.parametrize("wanted", ["GPU-node1-0003", "node1:3", "node1/3", "3"])
def test_names_of_gpus(command: Command, wanted: str) -> None:
    typed(command, f":focus {wanted}")
    assert selected(command) == "3"


def test_wrong_commands_are_messages(command: Command) -> None:
    for text, message in (
        (":focus 99", "there is no GPU '99'"),
        (":wq", "there is no command 'wq'"),
        (":sort mood", "there is no order 'mood'"),
        ("/ru<", "a value after ru is missing"),
    ):
        assert not typed(command, text)
        assert message in command.view.message
    command.press("j", "j", 24)
    assert command.view.message == ""


def test_filter_sort_layout_pause_and_window(command: Command) -> None:
    typed(command, "/use=held | use=free")
    assert [gpu.name for gpu in command.view.shown(command.model)] == ["3", "4"]
    assert not command.press("escape", None, 24)
    assert command.view.filter == ""
    typed(command, ":sort ru")
    assert [gpu.name for gpu in command.view.shown(command.model)][:3] == ["0", "2", "8"]
    command.press("r", "r", 24)
    assert command.view.shown(command.model)[-1].name == "0"
    typed(command, ":sort waste")
    command.press("r", "r", 24)
    assert command.view.shown(command.model)[0].name == "3"
    command.press("v", "v", 24)
    assert command.view.layout == "cards"
    command.press("space", " ", 24)
    assert command.view.paused
    command.press("plus", "+", 24)
    assert command.view.window == 1800.0


def test_a_prompt_can_be_edited_and_left(command: Command) -> None:
    for key, character in (("colon", ":"), ("x", "x"), ("escape", None)):
        command.press(key, character, 24)
    assert prompt_of(command) == ""
    for key, character in (("colon", ":"), ("x", "x"), ("backspace", None), ("q", "q"), ("tab", "\t")):
        command.press(key, character, 24)
    assert prompt_of(command) == ":q"
    command.press("backspace", None, 24)
    command.press("backspace", None, 24)
    assert prompt_of(command) == ""


def test_lists_scroll(command: Command) -> None:
    command.press("5", "5", 24)
    command.press("j", "j", 24)
    command.press("pagedown", None, 24)
    assert command.view.scroll == 20
    command.press("pageup", None, 24)
    command.press("k", "k", 24)
    command.press("k", "k", 24)
    assert command.view.scroll == 0


def test_a_click_selects_and_opens(command: Command) -> None:
    key = command.model.gpus[4].key
    command.click(key)
    assert (selected(command), view_of(command)) == ("4", "fleet")
    command.click(key)
    assert view_of(command) == "focus"
