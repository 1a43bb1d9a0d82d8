"""One HTTP client, scraping: `python -m tools.bench.scrape_client CLIENT SCRAPES URL ...`, CLIENT pulsed or aiohttp.

Prints the CPU microseconds of one scrape and the resident memory in units of 10^6 bytes. Each URL has a connection of
its own, which is kept; scrapes follow each other, as in a daemon that spreads its targets over the interval. The client
has a process of its own because memory and imports are measured too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import psutil
import uvloop

INTERVAL = 15.0
HEADERS = {"Accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1", "Accept-Encoding": "gzip"}

Fetch = Callable[[str], Awaitable[bytes]]


@asynccontextmanager
async def with_pulsed() -> AsyncIterator[Fetch]:
    """The daemon's own scraper, with all that it does for a scrape: headers, limits, redirects, typed errors."""
    from pulsed.reader.exporter.scraper import Scraper
    from pulsed.reader.exporter.settings import ExporterSettings

    scraper = Scraper(ExporterSettings(interval=INTERVAL))
    scraper.retain()
    try:
        yield scraper.fetch
    finally:
        await scraper.release()


@asynccontextmanager
async def with_aiohttp() -> AsyncIterator[Fetch]:
    """The least that aiohttp can be asked to do: no cookies, no redirects, constant headers, no limit of the size."""
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

    connector = TCPConnector(limit=0, keepalive_timeout=2 * INTERVAL)
    timeout = ClientTimeout(total=INTERVAL)
    async with ClientSession(connector=connector, timeout=timeout, cookie_jar=DummyCookieJar()) as session:

        async def fetch(page: str) -> bytes:
            async with session.get(page, headers=HEADERS, allow_redirects=False) as response:
                response.raise_for_status()
                return await response.read()

        yield fetch


CLIENTS: Mapping[str, Callable[[], AbstractAsyncContextManager[Fetch]]] = {
    "pulsed": with_pulsed,
    "aiohttp": with_aiohttp,
}


async def _scrape(client: str, scrapes: int, targets: Sequence[str]) -> None:
    async with CLIENTS[client]() as fetch:
        for target in targets:
            await fetch(target)
        begun = time.process_time()
        for number in range(scrapes):
            await fetch(targets[number % len(targets)])
        spent = time.process_time() - begun
        print(spent / scrapes * 1e6, psutil.Process().memory_info().rss / 1e6)


if __name__ == "__main__":
    uvloop.run(_scrape(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
