"""Bodies of many targets within one budget: they wait, none waits for ever, and small ones never wait."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import ScrapeFailed
from pulsed.http.body import SMALL_BODY_BYTES, BodyBudget, Reservation
from pulsed.reader.exporter.settings import ExporterSettings
from tests.http.test_client import Peer, scraping, serving
from tests.support.loops import on_both_loops
from tests.support.waiting import SECONDS, eventually

MIB = 2**20


@given(st.lists(st.integers(1, 16 * MIB), min_size=1, max_size=12), st.integers(0, 4 * MIB), st.randoms())
def test_all_bodies_end_and_stay_within_the_budget(sizes: Sequence[int], spare: int, chance: random.Random) -> None:
    budget = BodyBudget(max(sizes) + spare)
    left = {Reservation(budget): size for size in sizes}
    for reservation, size in left.items():
        reservation.most = chance.choice([size, budget.total])  # announced, or not known before the end
    running, sizes_now = list(left), dict.fromkeys(left, 0)
    while running:  # empty with bodies left: they wait in a circle
        reservation = chance.choice(running)
        sizes_now[reservation] += min(chance.randint(1, MIB), left[reservation] - sizes_now[reservation])
        if not reservation.extend(sizes_now[reservation], lambda each=reservation: running.append(each)):  # type: ignore[misc]
            running.remove(reservation)
        elif sizes_now[reservation] == left[reservation]:
            del left[reservation]
            running.remove(reservation)
            with reservation:
                pass
        assert sum(each.held for each in left) <= budget.total
        assert all(sizes_now[each] <= each.size for each in left if each in running)
    assert not left


def test_a_released_body_waits_no_longer() -> None:
    budget = BodyBudget(MIB)
    first, second, third = (Reservation(budget) for _ in range(3))
    granted: list[str] = []
    assert first.extend(MIB, lambda: granted.append("first"))
    with second:
        assert not second.extend(MIB, lambda: granted.append("second"))
        assert not third.extend(MIB, lambda: granted.append("third"))
    with first:
        pass
    assert granted == ["third"]


def large(number: int, *, packed: bool) -> tuple[bytes, bytes]:
    """Return an answer and its page, of 3 MiB."""
    page = b'a{gpu="%d"} 1\n' % number * (3 * MIB // 13)
    if not packed:
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(page), page), page
    body = gzip.compress(page, 1)
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), page


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@on_both_loops
async def test_large_pages_wait_for_each_other(packed: bool) -> None:
    async def handle(peer: Peer) -> None:
        while True:
            number = int((await peer.request()).split(b" ")[1].rpartition(b"/")[2])
            peer.send(large(number, packed=packed)[0])
            await peer.writer.drain()

    settings = ExporterSettings(timeout=SECONDS, interval=SECONDS, max_page_bytes=4 * MIB)
    async with serving(handle) as site, scraping(settings) as scraper:
        parsed = asyncio.Event()
        arrived: list[int] = []

        async def scrape(number: int) -> None:
            with scraper.reservation() as reservation:
                page = await scraper.fetch(f"{site.url}/{number}", None, reservation)
                assert page == large(number, packed=packed)[1]
                arrived.append(number)
                await parsed.wait()

        for _ in range(2):  # on new connections, and on the kept ones, which must read again
            parsed.clear()
            arrived.clear()
            scrapes = [asyncio.ensure_future(scrape(number)) for number in range(8)]
            await eventually(lambda: bool(arrived))
            await asyncio.sleep(0.1)
            assert len(arrived) < 3  # 6 MiB are shared; a page that is not parsed keeps its part
            parsed.set()
            await asyncio.gather(*scrapes)
            assert sorted(arrived) == list(range(8))


@on_both_loops
async def test_a_small_page_passes_and_a_large_one_fails_with_the_reason() -> None:
    small = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SMALL_BODY_BYTES + b"\n" * SMALL_BODY_BYTES

    async def handle(peer: Peer) -> None:
        while True:
            peer.send(small if b"small" in await peer.request() else large(0, packed=False)[0])
            await peer.writer.drain()

    settings = ExporterSettings(timeout=0.5, max_page_bytes=3 * MIB)
    async with serving(handle) as site, scraping(settings) as scraper:
        with scraper.reservation() as first, scraper.reservation() as second:
            await scraper.fetch(site.url, None, first)
            with pytest.raises(ScrapeFailed) as caught:
                await scraper.fetch(site.url, None, second)
            assert f"{site.url} could not be read in time" in str(caught.value)
            assert "large pages of other targets filled the 5242880 bytes that all share" in str(caught.value)
            assert "source.exporter.timeout" in caught.value.remedy
            with scraper.reservation() as third:
                assert len(await scraper.fetch(f"{site.url}/small", None, third)) == SMALL_BODY_BYTES
