"""Keys, in the program, and commands."""

from __future__ import annotations

from functools import partial

import pytest

from pulsed.apps.top.session import TopSession, WrongCommand
from pulsed.present.terminal.view_state import ViewState
from tests.apps.top.running_top import Running, running
from tests.present.terminal.fleet_model import model
from tests.support.waiting import eventually

NAMES = {":": "colon", "/": "slash", " ": "space", "+": "plus", "-": "minus", "?": "question_mark"}


@pytest.fixture
def session() -> TopSession:
    made = TopSession([], ViewState())
    made.model = model()
    return made


def state(session: TopSession) -> tuple[str, str]:
    gpu = session.view.current(session.view.shown(session.model))
    return session.view.view, "" if gpu is None else gpu.name


async def pressed(top: Running, names: str) -> None:
    await top.shows("GPUs 9")
    await top.press(*(NAMES.get(name, name) for name in names.split()))


async def shown(top: Running, expected: tuple[str, str], case: str) -> None:
    await eventually(lambda: (top.session.view.view, top.selected) == expected, case=case)


KEYS = [
    ("j", "fleet", "1"),
    ("j down", "fleet", "2"),
    ("j down k", "fleet", "1"),
    ("j up up", "fleet", "0"),
    ("right right left", "fleet", "1"),
    ("pagedown", "fleet", "6"),
    ("pagedown pageup", "fleet", "0"),
    ("end", "fleet", "8"),
    ("end home", "fleet", "0"),
    ("j enter", "gpu", "1"),
    ("3 enter", "gpu", "0"),
    ("4 enter", "events", "0"),
    ("2 escape", "fleet", "0"),
    ("5 q", "fleet", "0"),
    ("?", "help", "0"),
    ("tab", "fleet", "0"),
]


async def test_a_key_selects_a_gpu_or_opens_a_view() -> None:
    async with running((120, 24)) as top:
        for names, view, gpu in KEYS:
            await pressed(top, names)
            await shown(top, (view, gpu), names)
            await top.press("1", "home")
            await shown(top, ("fleet", "0"), names)


@pytest.mark.parametrize(
    ("text", "view", "gpu"),
    [
        ("focus 5", "gpu", "5"),
        ("focus GPU-node1-0003", "gpu", "3"),
        ("focus node1:3", "gpu", "3"),
        ("focus node1/3", "gpu", "3"),
        ("focus", "gpu", "0"),
        ("fo 2", "gpu", "2"),
        ("plot", "plot", "0"),
        ("job", "work", "0"),
        ("work", "work", "0"),
        ("gpu 5", "gpu", "5"),
        ("he", "help", "0"),
        ("", "fleet", "0"),
    ],
)
def test_a_command_opens_a_view(session: TopSession, text: str, view: str, gpu: str) -> None:
    assert not session.run(text)
    assert state(session) == (view, gpu)


@pytest.mark.parametrize("text", ["q", "quit", "qui"])
def test_going_back_leads_to_fleet_and_then_ends(session: TopSession, text: str) -> None:
    session.open("plot")
    assert not session.run(text)
    assert session.view.view == "fleet"
    assert session.run(text)
    session.open("plot")
    assert session.run("exit")


@pytest.mark.parametrize("names", ["2 escape escape", "4 q q", ": e x i t enter", "ctrl+c", ": ctrl+c"])
async def test_keys_end_the_program(names: str) -> None:
    async with running() as top:
        await pressed(top, names)
        await eventually(lambda: not top.app.is_running)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("focus 99", "there is no GPU '99'"),
        ("wq", "there is no command 'wq'"),
        ("f", "there is no command 'f'"),
        ("sort mood", "there is no order 'mood'"),
        ("filter ru<", "a value after ru is missing"),
    ],
)
def test_a_wrong_command_is_refused(session: TopSession, text: str, message: str) -> None:
    with pytest.raises(WrongCommand, match=message):
        session.run(text)


async def test_a_wrong_command_is_a_message() -> None:
    async with running() as top:
        await pressed(top, ": w q enter")
        await top.shows("there is no command 'wq'")
        await pressed(top, "/ r u < enter")
        await top.shows("a value after ru is missing")


def lists(top: Running, names: str) -> bool:
    return " ".join(gpu.name for gpu in top.session.view.shown(top.session.model)) == names


ORDERS = [
    ("/ u s e = h e l d | u s e = f r e e enter", "3 4"),
    ("/ u s e = h e l d enter escape", "0 1 2 3 4 5 6 7:3 8"),
    (": s o r t space r u enter", "0 2 8 5 3 4 1 6 7:3"),
    ("s r", "7:3 6 1 4 3 5 8 2 0"),
    (": s o r t space w a s t e enter", "3 1 4 6 7:3 5 8 0 2"),
]


async def test_filter_and_order() -> None:
    async with running() as top:
        for names, gpus in ORDERS:
            top.session.view = ViewState()
            await pressed(top, names)
            await eventually(partial(lists, top, gpus), case=names)


async def test_layout_pause_and_window_are_changed_by_a_key() -> None:
    async with running() as top:
        view = top.session.view
        await pressed(top, "v space +")
        await eventually(lambda: (view.layout, view.paused, view.window) == ("cards", True, 1800.0))
        await pressed(top, "v v s - -")
        await eventually(lambda: (view.layout, view.sort, view.window) == ("auto", "ru", 300.0))


@pytest.mark.parametrize(
    ("names", "prompt"),
    [
        (": x escape", None),
        (": x ctrl+u", None),
        (": x backspace q tab", ":q"),
        (": x backspace backspace", None),
        ("/ a", "/a"),
    ],
)
async def test_a_prompt_can_be_edited_and_left(names: str, prompt: str | None) -> None:
    async with running() as top:
        await pressed(top, names)
        await eventually(lambda: top.lines[-1].startswith("? help" if prompt is None else prompt))


async def test_a_list_scrolls_and_changes_are_selected() -> None:
    async with running((80, 14)) as top:
        await pressed(top, "? pagedown")
        await top.shows("temperatures GPU|memory")
        await pressed(top, "pageup k")
        await top.shows("Views")
        await pressed(top, "4")
        await top.shows("XID 48")
        await pressed(top, "j")
        await top.shows("What to do: Reset the GPU")


def test_a_click_selects_and_opens(session: TopSession) -> None:
    key = session.model.gpus[4].key
    session.click(key)
    assert state(session) == ("fleet", "4")
    session.click(key)
    assert session.view.view == "gpu"
