"""Draws deploy/pictures: frames of `pulsed top` on a moment of the demo, the same at every run.

Run as `python -m tools.draw_terminal`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console, Group
from rich.segment import Segment
from rich.style import Style

from pulsed.apps.top.feed import Connection, Feed
from pulsed.apps.top.session import TopSession
from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import Config
from pulsed.json_text import rfc3339
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import Target, TargetStore
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.owners.attribution.gpu_processes import GpuProcessTable
from pulsed.present.api.account_lookup import Accounts
from pulsed.present.api.application import api
from pulsed.present.api.day_history import DayHistory
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History
from pulsed.present.api.routes.events import event_router
from pulsed.present.api.routes.history import history_router
from pulsed.present.api.routes.owners import owner_router
from pulsed.present.api.routing import ApiParts
from pulsed.present.terminal.frame import frame as shown
from pulsed.present.terminal.model import model_of
from pulsed.present.terminal.text import styles
from pulsed.present.terminal.view_state import ViewState
from pulsed.reader.demo.source import DemoSource

PICTURES = Path(__file__).resolve().parents[1] / "deploy" / "pictures"
START = 1767225600.0
"""2026-01-01T00:00:00Z, in the pictures' time zone."""

SECONDS = 935
"""Moment of the demo: a GPU is hot, one has bad memory, and some are idle with an owner."""

FRAMES: Mapping[str, tuple[ViewState, str, int, int]] = {
    "top-fleet": (ViewState(), "", 120, 40),
    "top-gpu": (ViewState(view="gpu"), "7", 120, 44),
}
"""By name: view, selected GPU, width and height."""

CELL_WIDTH, CELL_HEIGHT = 7.2, 15
FOREGROUND, BACKGROUND = "#E6EDF3", "#0D1117"

NO_BREAK = "\u00a0"
"""In place of blanks, which SVG would collapse."""


class DemoDaemon:
    """The API of a daemon that has read the demo up to a moment, without a network; its time stands still there."""

    def __init__(self) -> None:
        source = DemoSource(node="gpu01", start=START, pace=False)
        pipeline = Pipeline(GpuTable(), "gpu01")
        target = Target("demo", "demo", 1.0, 10.0)
        store = TargetStore("gpu01", [target])
        history, events, accounting = History(), EventBroadcaster(lambda: "gpu01"), OwnerAccounting()
        for _ in range(SECONDS + 1):
            tick = pipeline.process(asyncio.run(source.read()))
            target.accept(tick, Monotonic(time.monotonic()))
            history.add(tick)
            events.publish(tick)
            accounting.add(tick)
        config = {**Config().masked(), "history": {"fields": history.fields}, "attribution": {"processes": False}}
        of_features = (
            history_router(store, history, DayHistory(history.fields, 0)),
            event_router(store, events),
            owner_router(store, Accounts(accounting, EndedAccounts())),
        )
        self._app = api(ApiParts(store, GpuProcessTable(), config), of_features)

    def json(self, path: str) -> Any:
        """Return the document of a path; its time is the moment, and its host is made up."""
        document = asyncio.run(self._get(path))
        if path == "/host":
            gibibyte = 2**30
            return {"cpu_count": 64, "cpu_busy_ratio": 0.23, "load_average": 14.2,
                    "memory_bytes": 512 * gibibyte, "memory_used_bytes": 96 * gibibyte}  # fmt: skip
        if isinstance(document, dict) and "sources" in document:
            document["time"] = rfc3339(START + SECONDS + 0.4)
        return document

    async def _get(self, path: str) -> Any:
        transport = httpx.ASGITransport(app=self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gpu01:9401") as client:
            return (await client.get(path)).raise_for_status().json()


def frame(daemon: DemoDaemon, view: ViewState, gpu: str, width: int, height: int) -> list[list[Segment]]:
    """Return the lines of a view."""
    feed = Feed(lambda: Connection(daemon, "http://gpu01:9401"), "gpu01", interval=0.0)
    session = TopSession([feed], view, gpu)
    for _ in range(2):
        feed.poll()
        session.update()
    if feed.answers.error:
        raise RuntimeError(feed.answers.error)
    model = model_of([feed.answers], feed.answers.arrived or 0.0, START + SECONDS + 0.4)
    console = Console(width=width, color_system="truecolor", theme=styles("dark"))
    return console.render_lines(Group(*shown(model, view, width, height).lines), pad=False)[:height]


def picture(lines: list[list[Segment]], width: int) -> str:
    """Return lines as SVG on a dark ground."""
    rows = [row for number, each in enumerate(lines) if (row := "".join(_row(each, number * CELL_HEIGHT)))]
    size = f"{width * CELL_WIDTH + 12:.0f} {len(lines) * CELL_HEIGHT + 12}"
    fonts = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-6 -6 {size}" font-family="{fonts}" font-size="12"'
    ground = f'<rect x="-6" y="-6" width="100%" height="100%" fill="{BACKGROUND}"/>'
    return "\n".join([f'{head} fill="{FOREGROUND}">', ground, *rows, "</svg>\n"])


def _row(line: list[Segment], y: int) -> Iterator[str]:
    column = 0
    for segment in line:
        text, style = segment.text.strip(), segment.style or Style.null()
        if text:
            begin = column + len(segment.text) - len(segment.text.lstrip())
            place = f'x="{begin * CELL_WIDTH:.1f}"', f'"{len(text) * CELL_WIDTH:.1f}"'
            if style.reverse:
                yield f'<rect {place[0]} y="{y + 1}" width={place[1]} height="{CELL_HEIGHT}" fill="{FOREGROUND}"/>'
            escaped = escape(text).replace(" ", NO_BREAK)
            yield f'<text {place[0]} y="{y + 12}" textLength={place[1]}{_attributes(style)}>{escaped}</text>'
        column += len(segment.text)


def _attributes(style: Style) -> str:
    colour = BACKGROUND if style.reverse else style.color.name if style.color else ""
    parts = (f' fill="{colour}"' if colour else "", ' font-weight="bold"' * bool(style.bold))
    return "".join((*parts, ' opacity=".6"' * bool(style.dim)))


def draw(folder: Path = PICTURES) -> None:
    """Draw all pictures, with times in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder.mkdir(exist_ok=True)
    daemon = DemoDaemon()
    for name, (view, gpu, width, height) in FRAMES.items():
        lines = frame(daemon, view, gpu, width, height)
        (folder / f"{name}.svg").write_text(picture(lines, width), encoding="utf-8")


if __name__ == "__main__":
    draw()
