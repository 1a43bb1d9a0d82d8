"""Print each function of pulsed that a warm page and a warm row run through: `python -m tools.trace_path`.

From the bytes that a source delivers to the bytes of `/metrics`, without the daemon's features and its server, for a
page of dcgm-exporter of eight GPUs and for a row of `dcgmi dmon`. Resumptions of a coroutine count as calls.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path
from types import FrameType

import pulsed
from pulsed.collector.collector import Collector, Pipeline
from pulsed.collector.source_factory import open_sources, target_of
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import load
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from tests.support.standin.install import Standin
from tools.bench.pages import exporter_page
from tools.bench.ticks import FIELDS, GPUS

_ROOT = Path(pulsed.__file__).parent
_WARM_TICKS = 4
"""The tick that is traced: all caches are filled, and no background work of the start is left."""

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Functions to Python 3.11; to a reader, and mostly to later versions, they are lines of the function around them."""


class CallTrace:
    """The calls of pulsed's functions by module and qualified name, while it is active."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Count the calls of this thread from now on."""
        sys.setprofile(self._note)

    def stop(self) -> None:
        """Count no more calls."""
        sys.setprofile(None)

    def report(self, title: str) -> str:
        """Return the functions in the order of their first call, with the numbers of calls."""
        modules = {module for module, _ in self.calls}
        lines = [f"{calls:6} {module:40} {name}" for (module, name), calls in self.calls.items()]
        comprehensions = sum(name.endswith(_COMPREHENSIONS) for _, name in self.calls)
        heading = (
            f"{title}: {len(lines) - comprehensions} functions and {comprehensions} comprehensions in {len(modules)} "
            f"modules, {self.calls.total()} calls"
        )
        return "\n".join([heading, *lines, ""])

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and (path := Path(code.co_filename)).is_relative_to(_ROOT):
            self.calls[str(path.relative_to(_ROOT)), code.co_qualname] += 1


async def trace(*settings: str) -> CallTrace:
    """Collect a source with these settings, and return the calls of its first warm tick."""
    config = load(None, [*settings, "node=here"], {})
    (source,) = open_sources(config)
    target = target_of(source, config)
    store = TargetStore("here", [target])
    telemetry = Telemetry(store)
    pages, calls = Pages(store, telemetry), CallTrace()

    def render(_: Tick) -> None:
        pages.page(Monotonic(time.monotonic()), openmetrics=False, gzip=False)
        calls.stop()
        if target.samples == _WARM_TICKS - 1:
            calls.start()

    def is_traced(target: Target) -> bool:
        return target.samples >= _WARM_TICKS

    pipeline = Pipeline(GpuTable(config.compute_settings()), "here", telemetry.observe)
    await Collector(source, pipeline, target, render, is_traced).run()
    return calls


async def trace_page() -> CallTrace:
    """Return the calls of a page of dcgm-exporter."""
    numbers = count()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            page = exporter_page(GPUS, FIELDS, next(numbers))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
        return await trace("source.kind=exporter", f"source.exporter.targets={url}", "source.interval=1")


async def trace_row() -> CallTrace:
    """Return the calls of a row of `dcgmi dmon`, which is a tick of one GPU."""
    with tempfile.TemporaryDirectory() as folder:
        path = Standin(Path(folder)).path
        return await trace("source.kind=dcgmi", f"source.dcgmi.path={path}", "source.interval=1")


def main() -> None:
    """Print both traces."""
    print(asyncio.run(trace_page()).report("A page of dcgm-exporter"))
    print(asyncio.run(trace_row()).report("A row of dcgmi dmon"))


if __name__ == "__main__":
    main()
