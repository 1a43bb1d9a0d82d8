"""The program on Textual, driven by its Pilot."""

from __future__ import annotations

import signal

import pytest
from rich.cells import cell_len

from pulsed.model.owner import pod
from pulsed.present.terminal.text import THEMES
from tests.apps.top.running_top import running
from tests.owners.report.accounts import document, gpu_account
from tests.support.waiting import eventually


@pytest.mark.slow
async def test_keys_lead_through_all_views() -> None:
    async with running() as top:
        await top.shows("GPUs 9")
        await top.press("j", "j", "enter")
        await top.shows("What to do: Reset the GPU when the current jobs finish")
        assert any(path.startswith("/gpus/2?node=node1") for path in top.daemon.paths)
        await top.press("3")
        await top.shows("Real utilization 0..100 %")
        await top.press("4")
        await top.shows("XID 48 2 times")
        await top.press("5")
        await top.shows("job 4711")
        await top.press("6")
        await top.shows("pulsed 0.1.0")
        await top.press("question_mark")
        await top.shows(":gpu GPU or :focus GPU")
        await top.press("escape", "slash", *"use=held", "enter")
        await top.shows("GPUs 1/9")
        await top.press("colon", *"exit", "enter")
        await eventually(lambda: not top.app.is_running)


async def test_enter_opens_the_report_of_the_selected_owner() -> None:
    async with running((120, 50)) as top:
        jobs = [document(gpu_account(0)), document(gpu_account(1, idle=4.0), owner=pod("ml", "web"))]
        top.daemon.documents["/jobs"] = {"jobs": jobs}
        await top.press("5")
        await top.shows("ml/web")
        await top.press("j", "enter")
        await top.shows("Job 4711 (ann, lab)  train")  # the other one has more idle time
        await top.shows("What to do")
        await top.press("escape")
        await top.shows("most idle time first")
        await top.press("k", "enter")
        await top.shows("Pod ml/web")
        await top.press("escape", "slash", *"no such owner", "enter", "enter")
        await top.shows("most idle time first")


async def test_the_mouse_selects_and_opens() -> None:
    async with running((200, 60)) as top:
        await top.shows("4711 idle")
        row = next(at for at, each in enumerate(top.lines) if "4711 idle" in each)
        await top.pilot.click(offset=(130, row))
        await top.shows("[GPU 3]")
        await top.pilot.click(offset=(130, row))
        await top.shows("Saturation")


@pytest.mark.parametrize("size", [(200, 60), (80, 24)])
async def test_charts_are_below_the_gpus(size: tuple[int, int]) -> None:
    async with running(size) as top:
        await top.shows("-10 min ─")
        assert any(line.startswith("? help  RU real utilization") for line in top.lines)
        assert any(path.startswith("/history?") for path in top.daemon.paths)


async def test_resizing_and_small_terminals() -> None:
    async with running((41, 23)) as top:
        await top.shows("GPUs 9")
        await top.pilot.resize_terminal(30, 5)
        await top.shows("needs 41x8")
        await top.pilot.resize_terminal(200, 60)
        await top.shows("LIMIT")


async def test_a_pause_freezes_the_picture() -> None:
    async with running() as top:
        await top.shows("GPUs 9")
        await top.press("space")
        await top.shows("PAUSED")
        top.daemon.is_up = False
        await top.pilot.pause(0.2)
        before = top.lines
        await top.pilot.pause(0.2)
        assert top.lines == before
        await top.press("space")
        await top.shows("live")


async def test_a_gpu_of_the_url_is_selected() -> None:
    async with running(gpu="5") as top:
        await top.shows("[GPU 5]")


@pytest.mark.parametrize("theme", THEMES)
async def test_themes_and_ascii(theme: str) -> None:
    async with running(theme=theme, ascii=True) as top:
        await top.shows("GPUs 9")
        assert all(line.isascii() for line in top.lines)
        colours = {
            segment.style.color.name
            for strip in top.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None and segment.style.color is not None
        }
        assert (colours <= {"default"}) == (theme == "none")
        assert any(name.startswith("#") for name in colours) == (theme in ("dark", "light"))


async def test_a_signal_ends_the_program() -> None:
    async with running() as top:
        await top.shows("GPUs 9")
        signal.raise_signal(signal.SIGTERM)
        await eventually(lambda: not top.app.is_running)


async def test_names_are_no_markup_and_may_be_wide() -> None:
    async with running((200, 24)) as top:
        summary = top.daemon.documents["/gpus"]
        top.daemon.documents["/gpus"] = {**summary, "gpus": {**summary["gpus"], "model": ["[red]名前[/red]"] * 9}}
        await top.shows("[red]名前[/re")
        assert all(cell_len(line) == 200 for line in top.lines)
        await top.press("colon", *("left_square_bracket", "slash", "right_square_bracket"), "enter")
        await top.shows("there is no command '[/]'")


async def test_a_daemon_that_goes_away_and_returns() -> None:
    async with running() as top:
        await top.shows("live")
        top.daemon.is_up = False
        await top.shows("STALE")
        await top.press("6")
        await top.shows("no answer")
        top.daemon.is_up = True
        await top.shows("live")
        await top.press("1")
        await top.shows("GPUs 9")


async def test_cards_scroll_to_the_selected_gpu() -> None:
    async with running((80, 24)) as top:
        await top.shows("GPUs 9")
        await top.press("v")
        await top.shows("MHz 1980|2619")
        await top.press("end")
        await top.shows("8 STALE 42 s")
        assert not any(line.startswith("    1 ok") for line in top.lines)


async def test_a_tab_opens_a_view() -> None:
    async with running() as top:
        await top.shows("GPUs 9")
        await top.pilot.click(offset=(top.lines[0].index("3 plot"), 0))
        await top.shows("Real utilization 0..100 %")
