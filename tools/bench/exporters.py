"""Many dcgm-exporters in one small process: `python -m tools.bench.exporters PORT NODES`.

Node n is at 127.1.0.0 + n, so that each has a connection of its own, as in a cluster. Each answers with one of two
pages made in advance, in turn: the same series, other values; counters go on. Only what a scraper sees is real.
"""

from __future__ import annotations

import asyncio
import re
import sys
from ipaddress import IPv4Address
from typing import cast

import uvloop

from tools.bench.pages import exporter_page
from tools.bench.ticks import FIELDS, GPUS

FIRST = IPv4Address("127.1.0.0")

_COUNTER = re.compile(rb"^(DCGM_FI_DEV_(?:TOTAL_ENERGY_CONSUMPTION|POWER_VIOLATION)\{.*\}) \d+$", re.MULTILINE)
_COUNTED = 10**12
"""Where they begin; their digits stay as many."""

_COUNTED_PER_PAGE = 6_000_000
"""Some 400 W for 15 s, in millijoules."""


def address(node: int) -> str:
    return str(FIRST + node)


def url(port: int, node: int) -> str:
    return f"http://{address(node)}:{port}/metrics"


class _Exporter(asyncio.Protocol):
    def __init__(self, answers: dict[str, list[bytes]]) -> None:
        self._answers = answers
        self._asked = b""
        self._counted = _COUNTED

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pages = self._answers[transport.get_extra_info("sockname")[0]]

    def data_received(self, data: bytes) -> None:
        self._asked += data
        if self._asked.endswith(b"\r\n\r\n"):  # a GET ends with an empty line
            self._asked = b""
            self._pages.reverse()
            self._counted += _COUNTED_PER_PAGE
            self._transport.write(self._pages[0].replace(b"%COUNTED", b"%d" % self._counted))


def _answer(node: int, seed: int) -> bytes:
    page = _COUNTER.sub(rb"\1 %COUNTED", exporter_page(GPUS, FIELDS, seed, f"node{node}"))
    length = len(page.replace(b"%COUNTED", b"%d" % _COUNTED))
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (length, page)


async def _serve(port: int, nodes: int) -> None:
    answers = {address(node): [_answer(node, seed) for seed in range(2)] for node in range(nodes)}
    await asyncio.get_running_loop().create_server(lambda: _Exporter(answers), list(answers), port)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
