"""The HTTP client of the exporter sources against servers that do what servers should not, on both event loops.

Every test ends with the check that no socket and no task is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import ScrapeFailed
from pulsed.http.client import Answer, HttpClient, Request
from pulsed.reader.exporter import ExporterSettings
from pulsed.reader.exporter.source import Scraper
from tests.support.certificates import make, make_authority
from tests.support.examples import examples
from tests.support.loops import leaves_nothing, run_in_loop
from tests.support.tools import missing
from tests.support.waiting import SECONDS

PAGE = b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 37\nDCGM_FI_DEV_GPU_UTIL{gpu="1"} 99\n'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
SHORT = ExporterSettings(timeout=0.2)


@dataclass
class Peer:
    """The server's side of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: list[bytes] = field(default_factory=list)

    async def request(self) -> bytes:
        self.asked.append(await self.reader.readuntil(b"\r\n\r\n"))
        return self.asked[-1]

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Until the client has ended the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass


Handle = Callable[[Peer], Awaitable[None]]


@dataclass
class Site:
    """A server that has been, or is, running."""

    port: int = 0
    peers: list[Peer] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"


@asynccontextmanager
async def serving(handle: Handle, host: str = "127.0.0.1", context: SSLContext | None = None) -> AsyncIterator[Site]:
    site = Site()

    async def serve(peer: Peer) -> None:
        try:
            await handle(peer)
            await peer.writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # clients that hang up are what is tested
        finally:
            peer.writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.peers.append(Peer(reader, writer))
        site.tasks.append(asyncio.ensure_future(serve(site.peers[-1])))

    server = await asyncio.start_server(connected, host, 0, ssl=context)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in site.tasks:
            task.cancel()
        await asyncio.gather(*site.tasks, return_exceptions=True)


def answering(*answers: bytes) -> Handle:
    """Each request of a connection gets the next of these answers; then the connection ends."""

    async def handle(peer: Peer) -> None:
        for answer in answers:
            await peer.request()
            peer.send(answer)
            await peer.writer.drain()

    return handle


def stalling(begin: bytes = b"", asked: asyncio.Event | None = None) -> Handle:
    """The first request gets this, and sets `asked`; then nothing comes until the client hangs up."""

    async def handle(peer: Peer) -> None:
        await peer.request()
        peer.send(begin)
        if asked is not None:
            asked.set()
        await peer.gone()

    return handle


def endless(begin: bytes, rest: bytes) -> Handle:
    """The first request gets this, and then the rest again and again."""

    async def handle(peer: Peer) -> None:
        await peer.request()
        peer.send(begin)
        while True:
            peer.send(rest)
            await peer.writer.drain()
            await asyncio.sleep(0)

    return handle


@asynccontextmanager
async def scraping(settings: ExporterSettings | None = None) -> AsyncIterator[Scraper]:
    scraper = Scraper(settings or ExporterSettings())
    scraper.retain()
    try:
        yield scraper
    finally:
        await scraper.release()


async def fetch_once(url: str, settings: ExporterSettings | None = None) -> bytes:
    async with scraping(settings) as scraper:
        return await scraper.fetch(url)


async def failure(url: str, settings: ExporterSettings | None = None) -> str:
    with pytest.raises(ScrapeFailed) as caught:
        await fetch_once(url, settings)
    assert len(caught.value.remedy.split()) > 2
    return str(caught.value)


# --- answers as they may be


FORMS = {
    "length": WHOLE,
    "eof": b"HTTP/1.1 200 OK\r\n\r\n" + PAGE,
    "1.0": b"HTTP/1.0 200 OK\r\nX-Empty:\r\n\r\n" + PAGE,
    "no reason": b"HTTP/1.1 200\r\nconnection: close\r\n\r\n" + PAGE,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + WHOLE,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%X;a=b\r\n%b\r\n0\r\nX-T: 1\r\n\r\n"
    % (len(PAGE), PAGE),
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\n\r\n" + gzip.compress(PAGE[:20]) + gzip.compress(PAGE[20:]),
}
"""A page as servers send it."""

TOLERATED = {
    "LF": b"HTTP/1.1 200 OK\nContent-Length: %d\n\n%b" % (len(PAGE), PAGE),
    "unasked": WHOLE + b"HTTP/1.1 500 Nobody asked\r\n\r\n",
}
"""A page as no server should send it."""


@pytest.mark.parametrize("answer", [*FORMS.values(), *TOLERATED.values()], ids=[*FORMS, *TOLERATED])
@leaves_nothing
async def test_a_page_in_all_its_forms(answer: bytes) -> None:
    async with serving(answering(answer)) as site, scraping() as scraper:
        for _ in range(2):
            assert await scraper.fetch(site.url) == PAGE


@leaves_nothing
async def test_a_server_that_does_not_wait_for_the_request() -> None:
    async def handle(peer: Peer) -> None:
        peer.send(WHOLE)
        await peer.gone()

    async with serving(handle) as site:
        assert await fetch_once(site.url) == PAGE


@leaves_nothing
async def test_a_server_that_closes_its_side_after_the_answer() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE)
        peer.writer.write_eof()
        await peer.gone()

    async with serving(handle) as site:
        assert await fetch_once(site.url) == PAGE


@pytest.mark.parametrize("status", [204, 304, 503, 101])
@leaves_nothing
async def test_a_status_is_told_without_waiting_for_its_body(status: int) -> None:
    answer = b"HTTP/1.1 %d Some\x1b Reason\r\nContent-Length: 100\r\n\r\n" % status
    async with serving(stalling(answer)) as site:
        assert f"answered {status} Some? Reason" in await failure(site.url)


REFUSAL = b'{"message": "no"}'
REFUSALS = {
    "length": (b"Content-Length: 17\r\n\r\n" + REFUSAL, REFUSAL),
    "chunked": (b"Transfer-Encoding: chunked\r\n\r\n11\r\n%b\r\n0\r\n\r\n" % REFUSAL, REFUSAL),
    "gzip": (b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(REFUSAL), REFUSAL),
    "eof": (b"\r\n" + REFUSAL, REFUSAL),
    "none": (b"Content-Length: 0\r\n\r\n", b""),
    "large": (b"Content-Length: 65\r\n\r\n" + b"x" * 65, b""),
    "large in chunks": (b"Transfer-Encoding: chunked\r\n\r\n41\r\n" + b"x" * 65 + b"\r\n0\r\n\r\n", b""),
    "not gzip": (b"Content-Encoding: gzip\r\n\r\n" + REFUSAL, b""),
    "cut": (b"Content-Length: 18\r\n\r\n" + REFUSAL, b""),
}
"""Bodies of a refusal, and what a client with a limit of 64 bytes reads of them."""


async def refused(url: str, seconds: float = 10.0) -> Answer:
    client = HttpClient(30.0, refusal_bytes=64)
    try:
        return await client.fetch(Request(url), 1000, seconds)
    finally:
        await client.close()


@pytest.mark.parametrize(("rest", "page"), REFUSALS.values(), ids=REFUSALS)
@leaves_nothing
async def test_the_body_of_a_refusal_is_read_if_wanted(rest: bytes, page: bytes) -> None:
    async with serving(answering(b"HTTP/1.1 403 Forbidden\r\n" + rest)) as site:
        answer = await refused(site.url)
        assert (answer.status, answer.reason, answer.body) == (403, "Forbidden", page)


@leaves_nothing
async def test_a_refusal_whose_body_stalls_is_still_a_refusal() -> None:
    async with serving(stalling(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 17\r\n\r\n{")) as site:
        answer = await refused(site.url, 0.2)
        assert (answer.status, answer.body) == (403, b"")


@leaves_nothing
async def test_a_connection_serves_again_after_a_refusal_that_was_read() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\n" + REFUSALS["length"][0]
    async with serving(answering(refusal, WHOLE)) as site:
        client = HttpClient(30.0, refusal_bytes=64)
        assert (await client.fetch(Request(site.url), 1000, 10.0)).body == REFUSAL
        assert (await client.fetch(Request(site.url), 1000, 10.0)).body == PAGE
        assert len(site.peers) == 1
        await client.close()


# --- connections that are kept


@leaves_nothing
async def test_a_connection_serves_many_scrapes_and_is_closed_at_the_end() -> None:
    async with serving(answering(*[WHOLE] * 9)) as site:
        async with scraping() as scraper:
            for _ in range(5):
                assert await scraper.fetch(site.url) == PAGE
        await asyncio.wait_for(site.peers[0].gone(), SECONDS)
        assert len(site.peers) == 1


@leaves_nothing
async def test_a_kept_connection_keeps_no_page() -> None:
    async with serving(answering(WHOLE, WHOLE)) as site, scraping() as scraper:
        page = await scraper.fetch(site.url)
        await asyncio.sleep(0)
        assert sys.getrefcount(page) == 2  # the variable and the argument


@pytest.mark.parametrize("end", [b"", b"Connection: close\r\n"])
@leaves_nothing
async def test_a_connection_that_the_server_closed_meanwhile(end: bytes) -> None:
    async with serving(answering(WHOLE.replace(b"\r\n\r\n", b"\r\n" + end + b"\r\n"))) as site:
        async with scraping() as scraper:
            for _ in range(3):
                assert await scraper.fetch(site.url) == PAGE
                await asyncio.wait(site.tasks)  # the server has closed it now; the client may not know yet
        assert len(site.peers) == 3


@pytest.mark.parametrize("how", ["close", "reset"])
@leaves_nothing
async def test_a_request_that_met_a_closing_connection_is_sent_once_more(how: str) -> None:
    asked: list[bytes] = []

    async def handle(peer: Peer) -> None:
        for answer in (WHOLE, b"") if len(asked) < 2 else (b"",):
            asked.append(await peer.request())
            peer.send(answer)
        if how == "reset":
            peer.reset()

    async def good_at_last(peer: Peer) -> None:
        await (handle(peer) if len(asked) < 2 else answering(WHOLE)(peer))

    async with serving(good_at_last) as site, scraping() as scraper:
        assert await scraper.fetch(site.url) == PAGE
        assert await scraper.fetch(site.url) == PAGE
        assert (len(asked), len(site.peers)) == (2, 2)
    asked.clear()
    async with serving(handle) as site, scraping() as scraper:
        assert await scraper.fetch(site.url) == PAGE
        with pytest.raises(ScrapeFailed, match="broke off"):
            await scraper.fetch(site.url)
        assert (len(asked), len(site.peers)) == (3, 2)  # and not again


@leaves_nothing
async def test_an_answer_that_has_begun_is_not_asked_for_again() -> None:
    async with serving(answering(WHOLE, WHOLE[:-5])) as site, scraping() as scraper:
        await scraper.fetch(site.url)
        with pytest.raises(ScrapeFailed, match="broke off"):
            await scraper.fetch(site.url)
        assert len(site.peers) == 1


@leaves_nothing
async def test_a_connection_that_is_idle_for_too_long_is_closed() -> None:
    async with serving(answering(WHOLE, WHOLE, WHOLE)) as site:
        client = HttpClient(idle_seconds=0.05)
        for peers in (1, 2):
            for _ in range(2):
                assert (await client.fetch(Request(site.url), 1000, 10)).body == PAGE
            assert len(site.peers) == peers
            # Ended by the client: the server waits for a request.
            await asyncio.wait_for(asyncio.wait(site.tasks), SECONDS)
        await client.close()


@leaves_nothing
async def test_the_time_of_one_scrape_does_not_end_the_next() -> None:
    async with serving(answering(WHOLE, WHOLE)) as site:
        client = HttpClient(idle_seconds=60)
        for _ in range(2):
            assert (await client.fetch(Request(site.url), 1000, 0.2)).body == PAGE
            await asyncio.sleep(0.3)
        await client.close()
        assert len(site.peers) == 1


@leaves_nothing
async def test_a_kept_connection_has_keepalive() -> None:
    """A machine that is gone is noticed also while nothing is sent."""
    async with serving(answering(WHOLE, WHOLE)) as site:
        client = HttpClient(idle_seconds=60)
        await client.fetch(Request(site.url), 1000, SECONDS)
        timers = timers_to(site.port)
        await client.close()
        assert [timer.partition(":")[0] for timer in timers] == ["02"], "the timer of keepalive"


def timers_to(port: int) -> list[str]:
    """Return the timers of the established connections to a port of this machine, as Linux shows them.

    Those that have ended are shown for a minute, also of another program that had the port before.
    """
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[5] for row in rows if (row[2], row[3]) == (f"0100007F:{port:04X}", "01")]


@leaves_nothing
async def test_last_words_on_an_idle_connection_end_it() -> None:
    late, sent = asyncio.Event(), asyncio.Event()

    async def handle(peer: Peer) -> None:
        await answering(WHOLE)(peer)
        await late.wait()
        peer.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        sent.set()
        await peer.gone()

    async with serving(handle) as site, scraping() as scraper:
        await scraper.fetch(site.url)
        first = [*site.tasks]
        late.set()
        await sent.wait()
        await asyncio.sleep(0.1)  # until the client, in the same event loop, has read it
        assert await scraper.fetch(site.url) == PAGE
        await asyncio.wait_for(asyncio.wait(first), SECONDS)


async def cancel_scrape(scraper: Scraper, url: str, begun: asyncio.Event) -> None:
    """Begin a scrape and cancel it when the server has set `begun`."""
    begun.clear()
    scrape = asyncio.ensure_future(scraper.fetch(url))
    await begun.wait()
    scrape.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scrape


@leaves_nothing
async def test_a_cancelled_scrape_closes_its_connection() -> None:
    asked = asyncio.Event()
    async with serving(stalling(WHOLE[:30], asked)) as site, scraping() as scraper:
        await cancel_scrape(scraper, site.url, asked)
        await asyncio.wait_for(asyncio.wait(site.tasks), SECONDS)


@leaves_nothing
async def test_scrapes_on_their_way_fail_when_all_is_closed() -> None:
    asked = asyncio.Event()
    async with serving(stalling(asked=asked)) as site:
        async with scraping() as scraper:
            scrape = asyncio.ensure_future(scraper.fetch(site.url))
            await asked.wait()
        with pytest.raises(ScrapeFailed, match="closed by pulsed"):
            await scrape


# --- answers as they should not be


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        b"garbage\r\n\r\n" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"HTTP/1.1 2",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        WHOLE[:-1],
    ],
)
@leaves_nothing
async def test_an_answer_that_is_none(answer: bytes) -> None:
    async def reset(peer: Peer) -> None:
        await answering(answer)(peer)
        peer.reset()

    for handle in (answering(answer), reset):
        async with serving(handle) as site:
            assert f"{site.url} broke off the answer (" in await failure(site.url)
            assert len(site.peers) <= 2, "aiohttp asks once more"


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"HTTP/1.1 200 " + b"O" * 999, b"K" * 999),
        (b"HTTP/1.1 200 OK\r\nX-Long: a", b"a" * 999),
        (b"HTTP/1.1 200 OK\r\n", b"X-Many: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"X-Trailer: a\r\n"),
    ],
    ids=["reason", "header", "headers", "trailers"],
)
@leaves_nothing
async def test_a_head_without_an_end_is_cut_off(begin: bytes, rest: bytes) -> None:
    async with serving(endless(begin, rest)) as site:
        assert "a header of more than 65536 bytes or 256 lines" in await failure(site.url)


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"extension" * 99),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Trailer: ", b"a" * 999),
    ],
    ids=["interim", "extension", "trailer"],
)
@leaves_nothing
async def test_what_is_no_body_ends_with_the_deadline_and_is_not_kept(begin: bytes, rest: bytes) -> None:
    gc.collect()
    before = psutil.Process().memory_info().rss
    async with serving(endless(begin, rest)) as site:
        assert "did not answer in 0.3 s" in await failure(site.url, ExporterSettings(timeout=0.3))
        assert psutil.Process().memory_info().rss - before < 16 * 2**20


@pytest.mark.parametrize("begin", [b"http://127.0.0.1:1/?", b"ftp://127.0.0.1/", b"https://127.0.0.1:1/"])
@leaves_nothing
async def test_a_long_redirect_is_cut_in_the_error(begin: bytes) -> None:
    async with serving(answering(b"HTTP/1.1 302 Found\r\nLocation: %b\r\n\r\n" % (begin + b"a" * 60_000))) as site:
        error = await failure(site.url)
        assert begin.decode() in error
        assert len(error) < 1000


@pytest.mark.parametrize(
    "headers", [b"X: 1\r\n" * 300, b"X: %b\r\n" % (b"a" * 70_000), (b"X: %b\r\n" % (b"a" * 999)) * 99]
)
@leaves_nothing
async def test_a_large_head_is_refused(headers: bytes) -> None:
    async with serving(answering(WHOLE.replace(b"\r\n", b"\r\n" + headers, 1))) as site:
        assert "a header of more than 65536 bytes or 256 lines" in await failure(site.url)


@pytest.mark.parametrize("encoding", [b"identity", b"gzip"])
@leaves_nothing
async def test_a_page_without_an_end_is_cut_off(encoding: bytes) -> None:
    piece = b"# padding\n" * 100
    if encoding == b"gzip":
        piece = gzip.compress(piece)

    begin = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: %b\r\n\r\n" % encoding
    async with serving(endless(begin, b"%x\r\n%b\r\n" % (len(piece), piece))) as site:
        assert "more than 100000 bytes" in await failure(site.url, ExporterSettings(max_page_bytes=100_000))


@pytest.mark.parametrize(
    "begin",
    [b"", b"HTTP/1.1 200 OK\r\nConte", WHOLE[:-1], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab"],
)
@leaves_nothing
async def test_a_server_that_stalls(begin: bytes) -> None:
    async with serving(stalling(begin)) as site:
        assert f"{site.url} did not answer in 0.2 s" in await failure(site.url, SHORT)
        await asyncio.wait_for(asyncio.wait(site.tasks), SECONDS)


@leaves_nothing
async def test_one_deadline_for_all_redirects() -> None:
    async def handle(peer: Peer) -> None:
        while True:
            await peer.request()
            await asyncio.sleep(0.15)
            peer.send(b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n")

    async with serving(handle) as site:
        assert "did not answer in 0.2 s" in await failure(site.url, SHORT)
        assert len(site.peers) == 1


@pytest.mark.parametrize("location", [b"http://host:99999/", b"http://[::1/", b"http://a b/", b"//\xff/"])
@leaves_nothing
async def test_a_redirect_to_no_address(location: bytes) -> None:
    answer = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % location
    async with serving(answering(answer)) as site:
        assert "redirected to" in await failure(site.url)


# --- TLS


@leaves_nothing
async def test_https_is_kept_alive_and_ends(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    context = authority.server_context()
    async with serving(answering(WHOLE, WHOLE, WHOLE), context=context) as site:
        url = site.url.replace("http:", "https:")
        async with scraping(ExporterSettings(ca_file=str(authority.ca))) as scraper:
            assert [await scraper.fetch(url) for _ in range(3)] == [PAGE] * 3
        assert len(site.peers) == 1
        assert "not trusted" in await failure(url, ExporterSettings(ca_file=str(authority.other_ca)))
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE), context=context) as site:
        assert (
            await fetch_once(site.url.replace("http:", "https:"), ExporterSettings(insecure_skip_verify=True)) == PAGE
        )


@pytest.mark.parametrize(
    ("name", "days", "host", "text", "remedy"),
    [
        ("server", -1, "127.0.0.1", "certificate has expired", "Renew the certificate of that server"),
        ("server", 30, "localhost", "Hostname mismatch", "set source.exporter.server_name"),
    ],
)
@leaves_nothing
async def test_a_certificate_of_another_time_or_host(
    tmp_path: Path, name: str, days: int, host: str, text: str, remedy: str
) -> None:
    authority = make("ca", authority=True)
    ca, _ = authority.write(tmp_path, "ca")
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make(name, authority, days=days).write(tmp_path, "server"))
    async with serving(answering(WHOLE), context=context) as site:
        url = site.url.replace("http:", "https:").replace("127.0.0.1", host)
        error = await failure(url, ExporterSettings(ca_file=str(ca)))
        assert f"{url} shows a certificate that is not trusted: {text}" in error
        assert remedy in error


@leaves_nothing
async def test_a_server_that_requires_a_certificate(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    async with serving(answering(WHOLE), context=authority.server_context(ask_client=True)) as site:
        url = site.url.replace("http:", "https:")
        assert "a client certificate" in await failure(url, ExporterSettings(ca_file=str(authority.ca)))
        other = ExporterSettings(
            ca_file=str(authority.ca), cert_file=str(authority.client), key_file=str(authority.client_key)
        )
        assert await fetch_once(url, other) == PAGE


@leaves_nothing
async def test_a_tls_handshake_that_stalls_or_is_cancelled() -> None:
    begun = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.reader.read(1)
        begun.set()
        await peer.gone()

    async with serving(handle) as site, scraping() as scraper:
        url = site.url.replace("http:", "https:")
        assert "did not answer in 0.2 s" in await failure(url, SHORT)
        await cancel_scrape(scraper, url, begun)
        await asyncio.wait_for(asyncio.wait(site.tasks), SECONDS)


# --- addresses


@leaves_nothing
async def test_a_host_name() -> None:
    async with serving(answering(WHOLE)) as site:
        assert await fetch_once(f"http://localhost:{site.port}/metrics") == PAGE
        assert f"Host: localhost:{site.port}\r\n".encode() in site.peers[0].asked[0]


@leaves_nothing
async def test_an_ipv6_address() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        missing(f"IPv6 is off: {error}; sysctl net.ipv6.conf.lo.disable_ipv6=0")
    async with serving(answering(WHOLE), "::1") as site:
        assert await fetch_once(f"http://[::1]:{site.port}/a b/ä?q=ü") == PAGE
        begin = f"GET /a%20b/%C3%A4?q=%C3%BC HTTP/1.1\r\nHost: [::1]:{site.port}\r\n".encode()
        assert site.peers[0].asked[0].startswith(begin)


def link_local_address() -> tuple[str, str]:
    """Return a link-local address of this machine, and its interface."""
    rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    addresses = [(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])), row[5]) for row in rows if row[3] == "20"]
    if not addresses:
        missing("no interface has a link-local IPv6 address; ip link set dev eth0 up")
    return addresses[0]


@leaves_nothing
async def test_a_link_local_address_has_a_zone_that_is_not_sent() -> None:
    address, zone = link_local_address()
    async with serving(answering(WHOLE), "::") as site:
        assert await fetch_once(f"http://[{address}%25{zone}]:{site.port}/metrics") == PAGE
        assert f"Host: [{address}]:{site.port}\r\n".encode() in site.peers[0].asked[0]


@leaves_nothing
async def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with serving(answering(WHOLE)) as site:
        assert await fetch_once(site.url) == PAGE


# --- fuzz


@leaves_nothing
async def test_a_page_that_a_reset_cuts_off_in_a_line_is_none() -> None:
    async def handle(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE[:-1])
        await peer.writer.drain()
        await asyncio.sleep(0.1)
        peer.reset()

    async with serving(handle) as site:
        assert "broke off the answer (connection closed in a line)" in await failure(site.url)


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    cuts = sorted(draw(st.lists(st.integers(1, len(body) - 1), max_size=5, unique=True)))
    ends = [*cuts, len(body)]
    return b"".join(
        b"%x\r\n%b\r\n" % (end - begin, body[begin:end]) for begin, end in zip([0, *cuts], ends, strict=True)
    )


@given(st.data())
@examples(60)
def test_an_answer_may_come_in_any_pieces(data: st.DataObject) -> None:
    interim = data.draw(st.sampled_from([b"", b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"]))
    body, encoding = data.draw(st.sampled_from([(PAGE, b""), (gzip.compress(PAGE), b"Content-Encoding: gzip\r\n")]))
    framing = data.draw(st.sampled_from(["length", "chunked", "eof"]))
    head = interim + b"HTTP/1.1 200 OK\r\n" + encoding
    answer = {
        "length": head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        "chunked": head + b"Transfer-Encoding: chunked\r\n\r\n" + data.draw(chunked(body)) + b"0\r\n\r\n",
        "eof": head + b"\r\n" + body,
    }[framing]
    cuts = sorted(data.draw(st.lists(st.integers(1, len(answer) - 1), max_size=12, unique=True)))
    pieces = [answer[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]

    async def handle(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            peer.send(piece)
            await asyncio.sleep(0)  # often sent, and received, before the next one
        if framing != "eof":
            await peer.gone()

    async def test() -> None:
        async with serving(handle) as site:
            assert await fetch_once(site.url) == PAGE

    run_in_loop(test())


GOOD = [
    WHOLE,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na 1\n \r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(PAGE),
    b"HTTP/1.1 302 Found\r\nLocation: http://[::1/x\r\n\r\n",
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    answer = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(answer)))
        answer = answer[:at] + draw(st.binary(max_size=5)) + answer[at + draw(st.integers(0, 5)) :]
    return answer


@given(answers=st.lists(st.one_of(damaged(), st.binary(max_size=300)), min_size=1, max_size=8))
@examples(40)
def test_garbage_gives_a_page_or_the_typed_error(answers: list[bytes]) -> None:
    left = list(answers)

    async def handle(peer: Peer) -> None:
        while left:
            await peer.request()
            peer.send(left.pop())
            await peer.writer.drain()

    async def test() -> None:
        async with serving(handle) as site, scraping(ExporterSettings(timeout=0.05)) as scraper:
            for _ in answers:
                with contextlib.suppress(ScrapeFailed):
                    assert isinstance(await scraper.fetch(site.url), bytes)

    run_in_loop(test())
