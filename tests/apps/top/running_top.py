"""The program on Textual with the answers of a fake daemon, driven by its Pilot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from pulsed.apps.top.app import TopApp
from pulsed.apps.top.feed import Feed
from pulsed.apps.top.session import TopSession
from pulsed.present.terminal.view_state import ViewState
from tests.apps.top.fake_daemon import FakeDaemon
from tests.support.waiting import eventually


class Running:
    """The program, its Pilot, and the daemon."""

    def __init__(self, app: TopApp, session: TopSession, pilot: Pilot[None], daemon: FakeDaemon) -> None:
        self.app, self.session, self.pilot, self.daemon = app, session, pilot, daemon

    @property
    def lines(self) -> list[str]:
        """What the terminal shows, as rendered by Textual."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    @property
    def selected(self) -> str:
        """The name of the selected GPU."""
        gpu = self.session.view.current(self.session.view.shown(self.session.model))
        return "" if gpu is None else gpu.name

    async def shows(self, text: str) -> None:
        await eventually(lambda: any(text in line for line in self.lines))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


@asynccontextmanager
async def running(size: tuple[int, int] = (120, 40), **changes: Any) -> AsyncIterator[Running]:
    daemon = FakeDaemon()
    session = TopSession([Feed(daemon.connect, "node1", 0.05)], ViewState(), changes.pop("gpu", ""))
    app = TopApp(session, changes.pop("theme", "dark"), **{"interval": 0.05, **changes})
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Running(app, session, pilot, daemon)
