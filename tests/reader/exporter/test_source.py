"""The exporter source against real servers on real sockets, with and without TLS, and against files."""

from __future__ import annotations

import asyncio
import base64
import gzip
import http.server
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from pathlib import Path
from urllib.parse import unquote

import pytest

from pulsed import __version__
from pulsed.errors import BadPage, ConfigError, ScrapeFailed
from pulsed.http.credentials import masked
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exporter import ExporterSettings, ExporterTarget
from pulsed.reader.exporter import source as exporter_source
from pulsed.reader.exporter.source import ExporterSource, Scraper, open_sources, phases
from pulsed.reader.source import Source, SourceRequest
from pulsed.regular_file import read_regular
from tests.support.certificates import Authority, make_authority
from tests.support.http_servers import QuietHandler, running
from tests.support.sources import FakeClock, arrivals, cancel_read
from tests.support.waiting import SECONDS

PAGE = b"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aaaa"} 37
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-bbbb"} 99
"""
HTML = b"<!DOCTYPE html><html><body>Please log in</body></html>"
SECRET = "s3cr3t-pass"

Route = Callable[["Handler"], None]


@dataclass
class Server:
    """A server's address, its routes, and what it was asked."""

    url: str
    routes: dict[str, Route]
    seen: list[tuple[str, Message]] = field(default_factory=list)
    connections: list[object] = field(default_factory=list)


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: HttpServer

    def do_GET(self) -> None:
        self.server.site.seen.append((self.path, self.headers))
        self.server.site.routes[self.path.partition("?")[0]](self)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class HttpServer(http.server.ThreadingHTTPServer):
    site: Server
    daemon_threads = True
    request_queue_size = 256

    def process_request(self, request: object, client_address: object) -> None:
        self.site.connections.append(client_address)
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients that hang up in the middle are what is tested


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    httpd = HttpServer(("127.0.0.1", 0), Handler)
    if context is not None:
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if context is None else "https"
    httpd.site = Server(f"{scheme}://127.0.0.1:{httpd.server_address[1]}", {"/metrics": lambda h: h.answer(PAGE)})
    with running(httpd):
        yield httpd.site


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as site:
        yield site


async def read_once(target: str, settings: ExporterSettings | None = None) -> RawTick:
    source = ExporterSource(target, settings)
    try:
        return await source.read()
    finally:
        await source.close()


async def failure(target: str, settings: ExporterSettings | None = None) -> str:
    with pytest.raises(ScrapeFailed) as caught:
        await read_once(target, settings)
    assert len(caught.value.remedy.split()) > 2
    text = str(caught.value)
    assert SECRET not in text
    return text


def utils(tick: RawTick) -> dict[str, object]:
    return {
        dict(series.labels)["gpu"]: value
        for series, value in zip(tick.layout.series, tick.values, strict=True)
        if series.name == "DCGM_FI_DEV_GPU_UTIL"
    }


# --- a page, and how it is asked for


async def test_a_page_becomes_a_tick(server: Server) -> None:
    source: Source = ExporterSource(f"{server.url}/metrics", wall=lambda: 1234.5, clock=lambda: 42.0)
    tick = await source.read()
    await source.close()
    assert utils(tick) == {"0": 37.0, "1": 99.0}
    assert (tick.target, tick.time, tick.clock, tick.interval) == (f"{server.url}/metrics", 1234.5, 42.0, 15.0)
    assert tick.layout.dialect == "exporter"
    assert (source.kind, source.target, source.interval) == ("exporter", f"{server.url}/metrics", 15.0)


async def test_what_is_sent(server: Server) -> None:
    await read_once(
        f"{server.url}/metrics", ExporterSettings(timeout=7, headers={"accept": "text/plain", "X-Tenant": "a"})
    )
    _, headers = server.seen[0]
    assert headers.get_all("Accept") == ["text/plain"]
    assert headers["X-Tenant"] == "a"
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["User-Agent"] == f"pulsed/{__version__}"
    assert headers["X-Prometheus-Scrape-Timeout-Seconds"] == "7"
    assert headers["Authorization"] is None
    await read_once(f"{server.url}/metrics")
    assert server.seen[1][1]["Accept"].startswith("text/plain;version=0.0.4")


async def test_the_query_of_the_target_arrives(server: Server) -> None:
    await read_once(server.url + '/metrics?match[]={__name__=~"DCGM.*"}')
    assert unquote(server.seen[0][0]) == '/metrics?match[]={__name__=~"DCGM.*"}'


async def test_the_layout_object_stays_while_the_series_stay(server: Server) -> None:
    time = FakeClock(1000.0)
    source = ExporterSource(f"{server.url}/metrics", clock=time.clock, sleep=time.sleep)
    first, second = await source.read(), await source.read()
    await source.close()
    assert first.layout is second.layout
    assert len(server.connections) == 1  # kept alive between scrapes


async def test_gzip_of_one_and_of_several_members(server: Server) -> None:
    server.routes["/one"] = lambda h: h.answer(gzip.compress(PAGE), Content_Encoding="gzip")
    half = PAGE.index(b"\n", 60) + 1
    members = gzip.compress(PAGE[:half]) + gzip.compress(PAGE[half:])
    server.routes["/two"] = lambda h: h.answer(members, Content_Encoding="gzip")
    for path in ("/one", "/two"):
        assert utils(await read_once(server.url + path)) == {"0": 37.0, "1": 99.0}


async def test_a_chunked_page(server: Server) -> None:
    def chunked(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for at in range(0, len(PAGE), 7):
            piece = PAGE[at : at + 7]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    server.routes["/chunked"] = chunked
    assert utils(await read_once(f"{server.url}/chunked")) == {"0": 37.0, "1": 99.0}


# --- who may read


async def test_basic_authentication_by_settings_and_by_url(server: Server) -> None:
    await read_once(f"{server.url}/metrics", ExporterSettings(username="ann", password="pä:ss"))
    host = server.url.removeprefix("http://")
    tick = await read_once(f"http://bob:{SECRET}%40x@{host}/metrics", ExporterSettings(username="ann"))
    sent = [base64.b64decode(headers["Authorization"].removeprefix("Basic ")) for _, headers in server.seen]
    assert sent == ["ann:pä:ss".encode(), f"bob:{SECRET}@x".encode()]
    assert tick.target == f"http://{host}/metrics"


async def test_a_bearer_token_and_its_file_read_anew(server: Server, tmp_path: Path) -> None:
    await read_once(f"{server.url}/metrics", ExporterSettings(bearer_token="abc"))
    token = tmp_path / "token"
    token.write_text("first\n")
    time = FakeClock(1000.0)
    settings = ExporterSettings(bearer_token_file=str(token))
    source = ExporterSource(f"{server.url}/metrics", settings, clock=time.clock, sleep=time.sleep)
    await source.read()
    token.write_text("second\n")
    await source.read()
    await source.close()
    assert [headers["Authorization"] for _, headers in server.seen] == ["Bearer abc", "Bearer first", "Bearer second"]


@pytest.mark.parametrize("content", [None, b"", b"two words", b"line\nline", "schlüssel".encode()])
async def test_a_bad_token_file_is_named_and_nothing_is_sent(
    server: Server, tmp_path: Path, content: bytes | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    assert str(token) in await failure(f"{server.url}/metrics", ExporterSettings(bearer_token_file=str(token)))
    assert server.seen == []


async def test_a_refusal_names_the_status_and_not_the_credentials(server: Server) -> None:
    server.routes["/metrics"] = lambda h: h.answer(b"no", 401)
    host = server.url.removeprefix("http://")
    text = await failure(f"http://bob:{SECRET}@{host}/metrics?api_key={SECRET}", ExporterSettings(password=SECRET))
    assert "401" in text
    assert "credentials" in text
    assert f"http://{host}/metrics?api_key=***" in text


async def test_a_header_that_cannot_be_sent_is_not_repeated(server: Server) -> None:
    text = await failure(f"{server.url}/metrics", ExporterSettings(headers={"X-Key": f"{SECRET}\r\nEvil: 1"}))
    assert "line breaks" in text
    assert server.seen == []


# --- redirects


async def test_a_redirect_on_the_same_host_keeps_the_credentials(server: Server) -> None:
    server.routes["/old"] = lambda h: h.answer(b"", 302, Location="/metrics")
    await read_once(f"{server.url}/old", ExporterSettings(bearer_token="abc"))
    assert [headers["Authorization"] for _, headers in server.seen] == ["Bearer abc", "Bearer abc"]


async def test_a_redirect_to_another_host_gets_no_credentials(server: Server) -> None:
    with serving() as other:
        server.routes["/old"] = lambda h: h.answer(b"", 307, Location=f"{other.url}/metrics")
        settings = ExporterSettings(username="ann", password=SECRET, headers={"X-Api-Key": SECRET})
        tick = await read_once(f"{server.url}/old", settings)
    assert utils(tick) == {"0": 37.0, "1": 99.0}
    assert server.seen[0][1]["Authorization"].startswith("Basic ")
    headers = other.seen[0][1]
    assert headers["Authorization"] is None
    assert headers["X-Api-Key"] is None
    assert headers["User-Agent"] == f"pulsed/{__version__}"


async def test_credentials_come_back_to_the_first_host_only(server: Server) -> None:
    with serving() as other:
        server.routes["/old"] = lambda h: h.answer(b"", 302, Location=f"{other.url}/back")
        other.routes["/back"] = lambda h: h.answer(b"", 302, Location=f"http://x:y@{server.url[7:]}/metrics")
        await read_once(f"{server.url}/old", ExporterSettings(bearer_token="abc"))
    assert [headers["Authorization"] for _, headers in server.seen] == ["Bearer abc", "Bearer abc"]
    assert other.seen[0][1]["Authorization"] is None


async def test_redirects_end(server: Server) -> None:
    server.routes["/loop"] = lambda h: h.answer(b"", 302, Location="/loop")
    server.routes["/file"] = lambda h: h.answer(b"", 302, Location="file:///etc/passwd")
    assert "redirects more than 3 times" in await failure(f"{server.url}/loop")
    assert len(server.seen) == 4
    assert "redirects to file:///etc/passwd" in await failure(f"{server.url}/file")


# --- what goes wrong


@pytest.mark.parametrize(("status", "remedy"), [(500, "log"), (404, "/metrics"), (403, "credentials"), (418, "log")])
async def test_a_status_other_than_200(server: Server, status: int, remedy: str) -> None:
    server.routes["/metrics"] = lambda h: h.answer(PAGE, status)
    text = await failure(f"{server.url}/metrics")
    assert f"{server.url}/metrics answered {status}" in text
    assert remedy in text


async def test_an_empty_body_is_a_reload(server: Server) -> None:
    server.routes["/metrics"] = lambda h: h.answer(b"")
    server.routes["/gzip"] = lambda h: h.answer(gzip.compress(b""), Content_Encoding="gzip")
    for path in ("/metrics", "/gzip"):
        with pytest.raises(BadPage, match=r"empty page.*reloading") as caught:
            await read_once(server.url + path)
        assert server.url in str(caught.value)


@pytest.mark.parametrize("body", [HTML, b"\x7fELF\0\0\0", b"# HELP a b\n# TYPE a gauge\n", b"OK\n"])
async def test_a_page_without_samples(server: Server, body: bytes) -> None:
    server.routes["/metrics"] = lambda h: h.answer(body)
    with pytest.raises(BadPage) as caught:
        await read_once(f"{server.url}/metrics")
    assert server.url in str(caught.value)
    assert len(caught.value.remedy.split()) > 2


async def test_a_page_above_the_limit(server: Server) -> None:
    server.routes["/metrics"] = lambda h: h.answer(PAGE * 1000)
    text = await failure(f"{server.url}/metrics", ExporterSettings(max_page_bytes=100_000))
    assert "more than 100000 bytes" in text
    exact = ExporterSettings(max_page_bytes=len(PAGE))
    server.routes["/metrics"] = lambda h: h.answer(gzip.compress(PAGE), Content_Encoding="gzip")
    assert utils(await read_once(f"{server.url}/metrics", exact)) == {"0": 37.0, "1": 99.0}


async def test_a_gzip_bomb_is_cut_off(server: Server) -> None:
    bomb = gzip.compress(b"# padding\n" * 20_000_000, compresslevel=1)  # 200 MB from under 2 MB
    server.routes["/metrics"] = lambda h: h.answer(bomb, Content_Encoding="gzip")
    assert "more than 1048576 bytes" in await failure(f"{server.url}/metrics", ExporterSettings(max_page_bytes=2**20))


async def test_broken_compression(server: Server) -> None:
    whole = gzip.compress(PAGE)
    server.routes["/lie"] = lambda h: h.answer(PAGE, Content_Encoding="gzip")
    server.routes["/cut"] = lambda h: h.answer(whole[:-20], Content_Encoding="gzip")
    server.routes["/br"] = lambda h: h.answer(PAGE, Content_Encoding="br")
    assert "broken gzip data" in await failure(f"{server.url}/lie")
    assert "cut off" in await failure(f"{server.url}/cut")
    assert "encoding 'br'" in await failure(f"{server.url}/br")


async def test_a_body_that_breaks_off(server: Server) -> None:
    def short(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "10000")
        handler.end_headers()
        handler.wfile.write(PAGE)
        handler.close_connection = True

    server.routes["/metrics"] = short
    assert "broke off" in await failure(f"{server.url}/metrics")


async def test_a_slow_exporter_times_out_in_head_and_body_and_comes_back(server: Server) -> None:
    hold = threading.Event()

    def slow_head(handler: Handler) -> None:
        hold.wait(30)

    def slow_body(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(PAGE)))
        handler.end_headers()
        handler.wfile.write(PAGE[:10])
        handler.wfile.flush()
        hold.wait(30)

    time = FakeClock(1000.0)
    settings = ExporterSettings(interval=1, timeout=0.2)
    source = ExporterSource(f"{server.url}/metrics", settings, clock=time.clock, sleep=time.sleep)
    try:
        for route in (slow_head, slow_body):
            server.routes["/metrics"] = route
            with pytest.raises(ScrapeFailed, match=r"did not answer in 0\.2 s"):
                await source.read()
        server.routes["/metrics"] = lambda h: h.answer(PAGE)
        assert utils(await source.read()) == {"0": 37.0, "1": 99.0}
    finally:
        hold.set()
        await source.close()


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        text = await failure(f"http://ann:{SECRET}@127.0.0.1:{port}/metrics")
    assert f"http://127.0.0.1:{port}/metrics cannot be reached: Connection refused" in text
    assert "dcgm-exporter runs" in text


async def test_an_unknown_host() -> None:
    text = await failure("http://no-such-host.invalid/metrics", ExporterSettings(timeout=5))
    assert "no-such-host.invalid" in text


async def test_https_asked_of_a_plain_server(server: Server) -> None:
    assert "TLS" in await failure(f"{server.url.replace('http:', 'https:')}/metrics")


# --- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls"))


def as_client(authority: Authority) -> ExporterSettings:
    return ExporterSettings(
        ca_file=str(authority.ca),
        cert_file=str(authority.client),
        key_file=str(authority.client_key),
    )


async def test_https_with_its_authority(authority: Authority) -> None:
    with serving(authority.server_context()) as site:
        assert utils(await read_once(f"{site.url}/metrics", ExporterSettings(ca_file=str(authority.ca))))
        assert utils(await read_once(f"{site.url}/metrics", ExporterSettings(insecure_skip_verify=True)))
        for settings in (ExporterSettings(ca_file=str(authority.other_ca)), ExporterSettings()):
            text = await failure(f"{site.url}/metrics", settings)
            assert "certificate that is not trusted" in text
            assert "Set source.exporter.ca_file" in text
        wrong_name = site.url.replace("127.0.0.1", "localhost")
        assert "not trusted" in await failure(f"{wrong_name}/metrics", ExporterSettings(ca_file=str(authority.ca)))
        named = ExporterSettings(ca_file=str(authority.ca), server_name="127.0.0.1")
        assert utils(await read_once(f"{wrong_name}/metrics", named))
        other = ExporterSettings(ca_file=str(authority.ca), server_name="exporter.example.org")
        assert "not trusted" in await failure(f"{site.url}/metrics", other)


async def test_a_client_certificate(authority: Authority) -> None:
    known = as_client(authority)
    with serving(authority.server_context(ask_client=True)) as site:
        assert utils(await read_once(f"{site.url}/metrics", known))
        assert "client certificate" in await failure(f"{site.url}/metrics", ExporterSettings(ca_file=str(authority.ca)))


async def test_a_redirect_to_another_host_gets_no_client_certificate(authority: Authority) -> None:
    settings = as_client(authority)
    context = authority.server_context(ask_client=True)
    with serving(context) as site, serving(context) as other:
        site.routes["/old"] = lambda h: h.answer(b"", 302, Location=f"{other.url}/metrics")
        assert "redirected to" in await failure(f"{site.url}/old", settings)
        assert other.seen == []


async def test_renewed_certificates_are_taken_up(authority: Authority, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.other_ca.read_bytes())
    time = FakeClock(1000.0)
    with serving(authority.server_context()) as site:
        settings = ExporterSettings(ca_file=str(ca))
        source = ExporterSource(f"{site.url}/metrics", settings, clock=time.clock, sleep=time.sleep)
        with pytest.raises(ScrapeFailed):
            await source.read()
        ca.unlink()
        with pytest.raises(ScrapeFailed, match="not trusted"):  # it may be about to be replaced
            await source.read()
        with pytest.raises(ScrapeFailed, match=r"ca\.pem cannot be used: No such file"):
            await source.read()
        ca.write_bytes(authority.ca.read_bytes())
        assert utils(await source.read())
        await source.close()


async def test_a_file_that_is_no_certificate(authority: Authority) -> None:
    text = await failure("https://127.0.0.1:1/metrics", ExporterSettings(ca_file=str(authority.client_key)))
    assert "client.key" in text
    assert "PEM" in text


# --- timestamps of samples, which dcgm-exporter does not write and what collects its pages may


NOW = 1_700_000_000.0


async def test_samples_with_an_old_timestamp_are_not_current(server: Server) -> None:
    lines = [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}"}} {gpu} {stamp}'
        for gpu, stamp in enumerate((int(1000 * (NOW - 299)), int(1000 * (NOW - 301)), NOW - 301.0, NOW + 60.0))
    ]
    server.routes["/stamped"] = lambda handler: handler.answer("\n".join([*lines, ""]).encode())
    time = FakeClock(1000.0)
    source = ExporterSource(f"{server.url}/stamped", wall=lambda: NOW, clock=time.clock, sleep=time.sleep)
    for _ in range(2):  # also with lines that are known
        tick = await source.read()
        assert (utils(tick), tick.rejected) == ({"0": 0.0, "3": 3.0}, {"old_sample": 2})
    await source.close()


async def test_a_page_of_old_samples_is_an_error(server: Server) -> None:
    page = PAGE.replace(b" 37\n", b" 37 1600000000000\n").replace(b" 99\n", b" 99 1600000000000\n")
    server.routes["/old"] = lambda handler: handler.answer(page)
    source = ExporterSource(f"{server.url}/old", wall=lambda: NOW)
    with pytest.raises(BadPage, match="timestamps of all 2 samples are old") as caught:
        await source.read()
    assert "clocks" in caught.value.remedy
    await source.close()


# --- files


async def test_a_file_is_read_again_at_every_interval(tmp_path: Path) -> None:
    page = tmp_path / "node 1.prom"
    page.write_bytes(PAGE)
    time = FakeClock(1000.0)
    source = ExporterSource(str(page), clock=time.clock, sleep=time.sleep)
    assert utils(await source.read()) == {"0": 37.0, "1": 99.0}
    page.write_bytes(PAGE.replace(b" 37", b" 38"))
    tick = await source.read()
    assert utils(tick) == {"0": 38.0, "1": 99.0}
    assert (tick.clock, tick.target) == (1015.0, str(page))
    page.unlink()
    with pytest.raises(ScrapeFailed, match="No such file") as caught:
        await source.read()
    assert str(page) in str(caught.value)
    page.write_bytes(PAGE)
    assert utils(await source.read()) == {"0": 37.0, "1": 99.0}
    await source.close()


async def test_files_that_hang_leave_the_threads_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, answers = tmp_path / "page.prom", threading.Event()
    page.write_bytes(PAGE)

    def read(path: str, limit: int) -> bytes:
        assert answers.wait(SECONDS)
        return read_regular(path, limit)

    monkeypatch.setattr(exporter_source, "read_regular", read)
    sources = [ExporterSource(str(page)) for _ in range(40)]
    reads = [asyncio.create_task(source.read()) for source in sources]
    try:
        async with asyncio.timeout(SECONDS / 2):
            await asyncio.sleep(0.1)
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        answers.set()
    assert [utils(tick) for tick in await asyncio.gather(*reads)] == [{"0": 37.0, "1": 99.0}] * 40
    for source in sources:
        await source.close()


async def test_a_file_url(tmp_path: Path) -> None:
    (tmp_path / "a b.prom").write_bytes(PAGE)
    tick = await read_once(f"file://{tmp_path}/a%20b.prom")
    assert tick.target == f"{tmp_path}/a b.prom"


async def test_files_that_are_no_page(tmp_path: Path) -> None:
    big = tmp_path / "big.prom"
    big.write_bytes(PAGE * 10)
    assert "more than 100 bytes" in await failure(str(big), ExporterSettings(max_page_bytes=100))
    assert "not a regular file" in await failure(str(tmp_path))
    assert "http://" in await failure("localhost:9400/metrics")
    assert "cannot read" in await failure("zero\0byte")
    empty = tmp_path / "empty.prom"
    empty.write_bytes(b"\n")
    with pytest.raises(BadPage, match=r"empty\.prom: empty page.*rename"):
        await read_once(str(empty))


async def test_a_page_that_becomes_a_fifo_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between two system calls: `stat` finds a file, opening it the FIFO."""
    page, fifo = tmp_path / "page.prom", tmp_path / "fifo"
    page.write_bytes(PAGE)
    found = os.stat(page)
    os.mkfifo(fifo)
    fifo.rename(page)
    monkeypatch.setattr(os, "stat", lambda *_, **__: found)
    assert "not a regular file" in await asyncio.wait_for(failure(str(page)), SECONDS)


@pytest.mark.parametrize("name", ["ca_file", "cert_file", "password_file", "bearer_token_file"])
async def test_files_of_credentials_are_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"x" * (16 * 2**20 + 1))
    for path, reason in (("fifo", "not a regular"), ("folder", "not a regular"), ("large", "larger than")):
        settings = replace(ExporterSettings(username="u"), **{name: str(tmp_path / path)})  # type: ignore[arg-type] # mypy: of any field
        text = await asyncio.wait_for(failure("https://127.0.0.1:1/metrics", settings), SECONDS)
        assert (reason in text, str(tmp_path / path) in text) == (True, True)


async def test_a_password_file_is_read_anew(server: Server, tmp_path: Path) -> None:
    password = tmp_path / "password"
    settings = ExporterSettings(username="ops", password="old", password_file=str(password))
    for word in ("first", "sec ond"):
        password.write_text(f"{word}\n")
        await read_once(f"{server.url}/metrics", settings)
        sent = base64.b64encode(f"ops:{word}".encode()).decode()
        assert server.seen[-1][1]["Authorization"] == f"Basic {sent}"


def test_files_need_no_http_client(tmp_path: Path) -> None:
    (tmp_path / "page.prom").write_bytes(PAGE)
    program = """
import asyncio, sys
from pulsed.reader.exporter.source import ExporterSource
async def main():
    source = ExporterSource(sys.argv[1])
    await source.read()
    await source.close()
asyncio.run(main())
print("aiohttp" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "page.prom")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# --- targets


@pytest.mark.parametrize(
    "target", ["ftp://host/metrics", "http://", "http:///metrics", "http://host:99999/", "http://[::1/", "file://"]
)
def test_a_target_that_is_none(target: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ExporterSource(target)
    assert target in str(caught.value)
    assert len(caught.value.remedy.split()) > 2


def test_a_bad_target_with_a_password_is_masked() -> None:
    with pytest.raises(ConfigError) as caught:
        ExporterSource(f"http://ann:{SECRET}/x@host:99999/metrics")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:9400/metrics", "http://host:9400/metrics"),
        ("http://a:b@host/m", "http://***@host/m"),
        ("https://token@host/m", "https://***@host/m"),
        ("http://host/m?x=1&access_token=abc&y=2", "http://host/m?x=1&access_token=***&y=2"),
        ("http://host/m?user=a@b", "http://host/m?user=a@b"),
    ],
)
def test_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_settings_do_not_print_secrets() -> None:
    settings = ExporterSettings(password=SECRET, bearer_token=SECRET, headers={"X-Key": SECRET})
    assert SECRET not in repr(settings)


# --- the cadence


async def test_a_fixed_cadence_without_bursts(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    page.write_bytes(PAGE)
    time = FakeClock(1000.0)
    source = ExporterSource(str(page), ExporterSettings(interval=10), clock=time.clock, sleep=time.sleep)
    busy = (0.0, 3.0, 9.0, 25.0, 1.0, 0.0)
    assert await arrivals(source, time, busy) == [1000, 1010, 1020, 1030, 1060, 1070]


async def test_a_failure_waits_for_its_next_moment(tmp_path: Path) -> None:
    time = FakeClock(1000.0)
    source = ExporterSource(str(tmp_path / "none"), ExporterSettings(interval=10), clock=time.clock, sleep=time.sleep)
    for expected in (1000, 1010, 1020):
        with pytest.raises(ScrapeFailed):
            await source.read()
        assert time.now == expected
    await source.close()


async def test_a_sleep_that_ends_early_is_slept_on(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    page.write_bytes(PAGE)
    time = FakeClock(1000.0)

    async def half(seconds: float) -> None:
        time.now += seconds / 2 if seconds > 0.1 else seconds

    source = ExporterSource(str(page), ExporterSettings(interval=16), clock=time.clock, sleep=half)
    await source.read()
    assert (await source.read()).clock == pytest.approx(1016)
    await source.close()


async def test_a_cancelled_wait_loses_no_moment(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    page.write_bytes(PAGE)
    time = FakeClock(1000.0)
    source = ExporterSource(str(page), ExporterSettings(interval=10), clock=time.clock, sleep=time.sleep)
    await source.read()
    await cancel_read(source, time)
    time.now = 1010.0
    assert (await source.read()).clock == 1010.0
    await source.close()


async def test_the_phase_delays_the_first_scrape(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    page.write_bytes(PAGE)
    time = FakeClock(1000.0)
    source = ExporterSource(str(page), ExporterSettings(interval=10), phase=0.25, clock=time.clock, sleep=time.sleep)
    assert [(await source.read()).clock for _ in range(2)] == [1002.5, 1012.5]
    await source.close()


def test_phases_spread_many_targets_over_one_interval() -> None:
    targets = [f"http://gpu-node-{n}:9400/metrics" for n in range(1250)]
    spread = phases(targets)
    assert phases(targets[:1]) == [0.0]
    assert spread[:8] == [0.0] * 8
    assert spread == phases(targets)
    assert all(0 <= phase < 1 for phase in spread)
    per_second = [sum(n <= phase * 15 < n + 1 for phase in spread[8:]) for n in range(15)]
    assert max(per_second) < 2 * 1242 / 15
    assert min(per_second) > 0.5 * 1242 / 15


# --- many sources, one scraper


async def test_sources_share_a_session_until_the_last_has_closed(server: Server) -> None:
    targets = tuple(ExporterTarget(f"{server.url}/metrics{query}") for query in ("", "?b"))
    sources = open_sources(ExporterSettings(targets), SourceRequest("n"))
    for source in sources:
        await source.read()
    assert len(server.connections) == 1
    await sources[0].close()
    await sources[0].close()  # twice is once
    with pytest.raises(ScrapeFailed, match="closed"):
        await sources[0].read()
    await sources[1].close()


async def test_hanging_exporters_do_not_hold_up_another(server: Server) -> None:
    hold = threading.Event()
    server.routes["/hang"] = lambda h: void(hold.wait(30))
    scraper = Scraper(ExporterSettings(interval=30, timeout=20))
    scraper.retain()
    waiting = [asyncio.ensure_future(scraper.fetch(f"{server.url}/hang?{n}")) for n in range(110)]
    try:
        while len(server.seen) < len(waiting):  # noqa: ASYNC110 (they arrive in threads)
            await asyncio.sleep(0.01)
        assert await scraper.fetch(f"{server.url}/metrics") == PAGE
    finally:
        hold.set()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await scraper.release()


def void(_: object) -> None:
    pass


async def test_a_scraper_opens_again_after_its_last_source_left(server: Server) -> None:
    scraper = Scraper(ExporterSettings())
    for _ in range(2):
        source = ExporterSource(f"{server.url}/metrics", scraper=scraper)
        assert utils(await source.read()) == {"0": 37.0, "1": 99.0}
        await source.close()
