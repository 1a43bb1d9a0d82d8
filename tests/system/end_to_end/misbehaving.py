"""Exporters that misbehave in every known way: `python -m tests.system.end_to_end.misbehaving PORT`, a path for each.

Raw sockets: most of these answers are not what an HTTP library would send.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import random
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.support.exporters import page

PATIENCE = 30.0
"""Seconds after which an exporter that never finishes gives up."""

Answer = Callable[[socket.socket, int], None]
"""Answers one request on a connection; the number counts the requests of this path."""


@dataclass(frozen=True)
class Misbehaviour:
    """One kind of misbehaving exporter.

    Attributes:
        reason: of the counted error; empty if the page is accepted, in part or as a whole. Several where it depends on
            whether bytes after the answer arrive together with it: then the answer is not valid HTTP.
        answer: what it does after it has received a request.
    """

    reason: str
    answer: Answer


def _head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "", "")).encode()


def _whole(body: bytes | str, *lines: str, status: str = "200 OK", length: int = 0) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return _head("Content-Type: text/plain", f"Content-Length: {length or len(data)}", *lines, status=status) + data


def _says(data: bytes, *, close: bool = False) -> Answer:
    def answer(client: socket.socket, number: int) -> None:
        client.sendall(data)
        if close:
            client.shutdown(socket.SHUT_WR)

    return answer


def _says_much(data: Callable[[], bytes]) -> Answer:
    """Send what takes time and memory to make, and is made when it is first asked for."""
    made = functools.cache(data)
    return lambda client, number: client.sendall(made())


def _pages(body: Callable[[int], str]) -> Answer:
    return lambda client, number: client.sendall(_whole(body(number)))


def _endless(head: bytes, piece: bytes, pause: float = 0.0) -> Answer:
    def answer(client: socket.socket, number: int) -> None:
        client.sendall(head)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            client.sendall(piece)
            time.sleep(pause)

    return answer


def _silent(client: socket.socket, number: int) -> None:
    time.sleep(PATIENCE)


def _reset(client: socket.socket, number: int) -> None:
    client.sendall(_whole(page(0), length=100_000))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def _row(gpu: object, value: object, name: str = "DCGM_FI_DEV_GPU_UTIL", more: str = "") -> str:
    return f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="bad"{more}}} {value}\n'


def _rows(count: int, row: Callable[[int], str]) -> str:
    return "".join(map(row, range(count)))


_PAGE = page(0)
_CHUNKED = _head("Content-Type: text/plain", "Transfer-Encoding: chunked")
_ZIPPED = gzip.compress(_PAGE.encode())


def _zipped(data: bytes) -> bytes:
    return _whole(gzip.compress(data, 1), "Content-Encoding: gzip")


_RANDOM = random.Random(1)
_BINARY = _RANDOM.randbytes(50_000)

KINDS: Mapping[str, Misbehaviour] = {
    # HTTP
    "half-a-page": Misbehaviour("scrape_failed", _says(_whole(_PAGE, length=100_000), close=True)),
    "length-too-short": Misbehaviour(
        "bad_page|scrape_failed", _says(_whole(_PAGE, length=len(_PAGE) // 2), close=True)
    ),
    "length-negative": Misbehaviour("scrape_failed", _says(_head("Content-Length: -5") + _PAGE.encode(), close=True)),
    "length-huge": Misbehaviour("scrape_failed", _says(_whole(_PAGE, length=10**12))),
    "two-lengths": Misbehaviour("scrape_failed", _says(_whole(_PAGE, "Content-Length: 7"), close=True)),
    "slow-drip": Misbehaviour("scrape_failed", _endless(_head("Content-Length: 100000"), b"a", 0.1)),
    "slow-headers": Misbehaviour("scrape_failed", _endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", 0.1)),
    "silent": Misbehaviour("scrape_failed", _silent),
    "closes-at-once": Misbehaviour("scrape_failed", _says(b"", close=True)),
    "reset": Misbehaviour("scrape_failed", _reset),
    "redirect-loop": Misbehaviour("scrape_failed", _says(_whole("", "Location: /redirect-loop", status="302 Found"))),
    "redirect-to-file": Misbehaviour("scrape_failed", _says(_whole("", "Location: file:///etc", status="302 X"))),
    "401": Misbehaviour("scrape_failed", _says(_whole("no", status="401 Unauthorized"))),
    "500": Misbehaviour("scrape_failed", _says(_whole(_PAGE, status="500 Internal Server Error"))),
    "503": Misbehaviour("scrape_failed", _says(_whole("", "Retry-After: 1", status="503 Service Unavailable"))),
    "204": Misbehaviour("scrape_failed", _says(_head(status="204 No Content"))),
    "status-999": Misbehaviour("scrape_failed", _says(_whole(_PAGE, status="999 ?"))),
    "100-continue": Misbehaviour("", _says(_head(status="100 Continue") * 3 + _whole(_PAGE))),
    "endless-100": Misbehaviour("scrape_failed", _endless(b"", _head(status="100 Continue"), 0.001)),
    "http-0.9": Misbehaviour("scrape_failed", _says(_PAGE.encode(), close=True)),
    "http-2": Misbehaviour("scrape_failed", _says(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80", close=True)),
    "tls": Misbehaviour("scrape_failed", _says(b"\x15\x03\x01\0\x02\x02\x46", close=True)),
    "header-flood": Misbehaviour("scrape_failed", _says(_whole(_PAGE, *(f"X-{n}: y" for n in range(5000))))),
    "header-endless": Misbehaviour("scrape_failed", _endless(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65536)),
    "bad-chunks": Misbehaviour("scrape_failed", _says(_CHUNKED + b"zz\r\n" + _PAGE.encode(), close=True)),
    "chunks-cut": Misbehaviour("scrape_failed", _says(_CHUNKED + b"fff\r\n" + _PAGE.encode(), close=True)),
    "chunks-endless": Misbehaviour("scrape_failed", _endless(_CHUNKED, b"100000\r\n" + b"a" * 2**20 + b"\r\n")),
    "two-answers": Misbehaviour("", _says(_whole(_PAGE) * 2)),
    "junk-after": Misbehaviour("|scrape_failed", _says(_whole(_PAGE) + b"junk" * 1000)),
    # Encodings
    "gzip-garbage": Misbehaviour("scrape_failed", _says(_whole(_BINARY, "Content-Encoding: gzip"))),
    "gzip-cut": Misbehaviour("scrape_failed", _says(_whole(_ZIPPED[:-9], "Content-Encoding: gzip"))),
    "gzip-bomb": Misbehaviour("scrape_failed", _says_much(lambda: _zipped(b"# padding\n" * 20_000_000))),
    "gzip-bomb-of-rows": Misbehaviour(
        "scrape_failed", _says_much(lambda: _zipped(_rows(1000, lambda n: _row(n, 1)).encode() * 2000))
    ),
    "brotli": Misbehaviour("scrape_failed", _says(_whole(_PAGE, "Content-Encoding: br"))),
    # Contents
    "empty": Misbehaviour("bad_page", _says(_whole(""))),
    "blank-lines": Misbehaviour("bad_page", _says(_whole("\n" * 1000))),
    "comments-only": Misbehaviour("bad_page", _says(_whole("# HELP a b\n# TYPE a gauge\n"))),
    "html": Misbehaviour("bad_page", _says(_whole("<!DOCTYPE html><html><body>Sign in</body></html>"))),
    "json": Misbehaviour("bad_page", _says(_whole('{"status":"ok"}\n'))),
    "binary": Misbehaviour("bad_page", _says(_whole(_BINARY))),
    "zero-bytes": Misbehaviour("bad_page", _says(_whole(b"\0" * 100_000))),
    "html-as-type": Misbehaviour("", _says(_whole(_PAGE).replace(b"text/plain", b"text/html"))),
    "invalid-utf-8": Misbehaviour("", _says(_whole(_PAGE.encode() + b'x{a="\xff"} 1\n'))),
    "huge-page": Misbehaviour("scrape_failed", _says_much(lambda: _whole(b"a 1\n" * 5_000_000))),
    "many-lines": Misbehaviour("bad_page", _says_much(lambda: _whole(b"a 1\n" * 1_000_000))),
    "long-line": Misbehaviour("bad_page", _says_much(lambda: _whole('a{b="' + "x" * 8_000_000 + '"} 1\n'))),
    "many-gpus": Misbehaviour("too_many_gpus", _says_much(lambda: _whole(_rows(20_000, lambda n: _row(n, 1))))),
    "many-series": Misbehaviour(
        "bad_page", _says_much(lambda: _whole(_rows(100_000, lambda n: f'other_metric{{id="{n}"}} 1\n')))
    ),
    "many-names": Misbehaviour("", _says_much(lambda: _whole(_PAGE + _rows(20_000, lambda n: f"metric_{n} 1\n")))),
    "many-labels": Misbehaviour("", _says(_whole(_PAGE + _row(1, 1, more="".join(f',l{n}="x"' for n in range(5000)))))),
    "bad-rows": Misbehaviour("bad_page", _says_much(lambda: _whole(_rows(50_000, lambda n: f"DCGM_FI_{n}{{gpu= 1\n")))),
    "nan-flood": Misbehaviour("", _pages(lambda n: _rows(64, lambda gpu: _row(f"nan-{gpu}", "NaN")))),
    "infinities": Misbehaviour("", _pages(lambda n: _row("inf", "+Inf") + _row("inf2", "-Inf") + _row("big", "1e308"))),
    "duplicates": Misbehaviour("", _pages(lambda n: _rows(1000, lambda value: _row("twin", value)))),
    "new-uuids": Misbehaviour("", _pages(lambda n: _rows(8, lambda gpu: _row(f"churn-{n}-{gpu}", 1)))),
    "new-labels": Misbehaviour("", _pages(lambda n: _rows(8, lambda gpu: _row(f"lab-{gpu}", 1, more=f',pod="p{n}"')))),
    "new-metrics": Misbehaviour("", _pages(lambda n: _rows(8, lambda m: _row("met", 1, f"DCGM_FI_NEW_{n}_{m}")))),
    "come-and-go": Misbehaviour("", _pages(lambda n: _rows(1 + n % 8, lambda gpu: _row(f"gone-{gpu}", 1)))),
    "negative-counter": Misbehaviour(
        "", _pages(lambda n: _row("neg", -n, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") + _row("neg", -1))
    ),
    "falling-counter": Misbehaviour(
        "", _pages(lambda n: _row("fall", 10**9 - n, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"))
    ),
    "time-travel": Misbehaviour("bad_page", _pages(lambda n: _row("time", f"1 {10**12 - n * 10**9}"))),
    "words-as-values": Misbehaviour("", _pages(lambda n: _PAGE + _row("word", "ERROR - FAILED TO CONVERT TO STRING"))),
}  # fmt: skip


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        client: socket.socket = self.request
        client.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            received = b""
            while True:
                while b"\r\n\r\n" not in received:
                    data = client.recv(65536)
                    if not data:
                        return
                    received += data
                request, _, received = received.partition(b"\r\n\r\n")
                name = request.split(b" ", 2)[1].decode().lstrip("/")
                self.server.misbehaviours[name].answer(client, next(self.server.numbers[name]))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.misbehaviours = {**KINDS, "good": Misbehaviour("", _pages(lambda number: page(7, number % 10 / 10)))}
        self.numbers: Mapping[str, Iterator[int]] = {name: itertools.count() for name in self.misbehaviours}

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients that hang up are expected


def main() -> None:
    threading.stack_size(256 * 1024)
    with _Server(int(sys.argv[1])) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
