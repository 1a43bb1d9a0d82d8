"""All HTTP requests of pulsed: aiohttp, with one deadline for the whole answer.

Credentials go only to the server of the URL, whatever it redirects to. There are no cookies. Must not depend
on what is requested.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict

from pulsed import __version__
from pulsed.daemon_thread import FileReads, FileSystemHangs
from pulsed.http.body import read_body
from pulsed.http.credentials import (
    BadCredentials,
    BadTlsFiles,
    ClientTls,
    masked_foreign,
    may_have_credentials,
    without_login,
)
from pulsed.http.failure import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_SHOWN,
    HttpRequestFailed,
    broken,
    failure_of,
    head_too_large,
)
from pulsed.printable import clean

_T = TypeVar("_T")

_CLOSE_TURNS = 3
"""Turns of the event loop until a connection of TLS has ended."""

_REDIRECTS = (301, 302, 303, 307, 308)
_ZONE = re.compile(r"%(?:25)?([^\]%]+)(?=\])")  # of a link-local address: RFC 6874 writes %25, the resolver takes %
_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": f"pulsed/{__version__}"}
_KEEPALIVE = (
    ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 30),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), 10),
    ((socket.IPPROTO_TCP, socket.TCP_KEEPCNT), 3),
)
"""Options of sockets: a connection to a machine that is gone ends after a minute, even while nothing is sent."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request.

    Attributes:
        url: a login in it is not sent.
        headers: sent to every server.
        secrets: headers that only the server of the URL gets; they override `headers`.
        tls: the files of TLS; the client's certificate is shown to the server of the URL only.
        method: one other than GET is not redirected.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    tls: ClientTls = field(default_factory=ClientTls)
    method: str = "GET"
    body: bytes | None = None


@dataclass(slots=True)
class Answer:
    """The answer of a server; all texts are printable.

    Attributes:
        url: where redirects have led.
        reason: the words after the status.
        location: where a redirect leads, empty without one.
        body: decompressed; with another status than 200 empty if the client does not read it.
        retry_seconds: the header Retry-After, if it is a number.
        has_length: whether the end of the body is marked; otherwise a reset may have cut it off.
    """

    url: str
    status: int
    reason: str
    location: str
    content_type: str
    retry_seconds: int | None
    body: bytes = b""
    has_length: bool = True


class HttpClient:
    """Requests of one owner, on connections that are kept for the next request to the same server.

    Args:
        idle_seconds: how long an unused connection is kept.
        refusal_bytes: limit of the body of an answer with another status than 200; 0: it is not read.
        max_redirects: how many are followed, 0: an answer with a redirect is returned.
        uses_proxies: whether the proxies of the environment are used.
    """

    def __init__(
        self, idle_seconds: float, *, refusal_bytes: int = 0, max_redirects: int = 0, uses_proxies: bool = False
    ) -> None:
        self._idle_seconds, self._refusal_bytes = idle_seconds, refusal_bytes
        self._max_redirects, self._uses_proxies = max_redirects, uses_proxies
        self._session: aiohttp.ClientSession | None = None
        self._files = FileReads()

    async def read_secrets(self, files: str, read: Callable[[], _T]) -> _T:
        """Return what is read from files of credentials, in a thread: their file system may hang.

        Args:
            files: their names; equal ones are read once at a time.
            read: reads them; raises `BadCredentials`.

        Raises:
            BadCredentials: they cannot be read, or not in time.
        """
        try:
            return await self._files.read(files, read)
        except FileSystemHangs as error:
            raise BadCredentials(f"cannot read {files}: {error.strerror}") from None

    async def _context(self, tls: ClientTls) -> ssl.SSLContext:
        """Return the context of TLS; raises `BadTlsFiles`."""
        if (made := tls.made) is not None:
            return made
        try:
            return await self._files.read(tls, tls.context)
        except FileSystemHangs as error:
            raise BadTlsFiles(tls.files, error.strerror or "") from None

    async def fetch(self, request: Request, limit: int, seconds: float) -> Answer:
        """Return the answer, after redirects.

        Args:
            limit: bytes of the body of an answer with status 200, when decompressed.
            seconds: until when all must have come.

        Raises:
            HttpRequestFailed: no complete answer came. A refusal without a complete body is an answer without one.
            BadTlsFiles: the files of TLS cannot be used.
        """
        url, answer = request.url, None
        try:
            async with asyncio.timeout(seconds):
                for _ in range(self._max_redirects + 1):
                    answer = None
                    async with self.open(request, url) as response:
                        answer = answer_of(response, url)
                        answer.body = await self.body(response, limit)
                    if not self._max_redirects or answer.status not in _REDIRECTS or not answer.location:
                        return answer
                    url = _redirected(answer)
        except TimeoutError:
            if answer is not None and answer.status != 200:
                return answer
            raise HttpRequestFailed("deadline", f"did not answer in {seconds:g} s", url=url) from None
        except HttpRequestFailed as error:
            error.url = url
            raise
        raise HttpRequestFailed("redirect", f"redirects more than {self._max_redirects} times", url=request.url)

    @contextlib.asynccontextmanager
    async def open(self, request: Request, url: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
        """Return an answer whose head has arrived; its unread rest is discarded at the end of the block.

        Args:
            url: where the server has redirected to.

        Raises:
            HttpRequestFailed: no answer came.
            BadTlsFiles: the files of TLS cannot be used.
        """
        url = url or request.url
        if self._session is None or self._session.closed:
            self._session = self._new_session()
        session, headers, tls = self._session, CIMultiDict(request.headers), request.tls
        try:
            if url == request.url or may_have_credentials(request.url, url):
                for name, value in request.secrets.items():  # also if the case of letters differs
                    headers[name] = value
            else:
                tls = tls.for_another_server()
            target = without_login(url)
            zone = _ZONE.search(urlsplit(target).netloc)
            if zone:  # means nothing to the other side
                headers.setdefault("Host", urlsplit(target).netloc.replace(zone[0], ""))
                target = target.replace(zone[0], f"%{zone[1]}", 1)
            response = await session.request(
                request.method,
                target,
                headers=headers,
                data=request.body,
                allow_redirects=False,
                ssl=await self._context(tls) if url.startswith("https:") else True,
                server_hostname=tls.server_name or None,
                proxy=_environment_proxy(url) if self._uses_proxies else None,
            )
        except (aiohttp.ClientError, HttpRequestFailed, OSError, ValueError) as error:  # its text may repeat a header
            raise broken("closed by pulsed") if session.closed else failure_of(error) from None
        if sum(len(name) + len(value) for name, value in response.raw_headers) > MAX_HEAD_BYTES:
            response.close()
            raise head_too_large()
        if response.status < 100:
            response.close()
            raise broken(f"invalid HTTP: status {response.status}")
        try:
            yield response
        finally:
            response.close()

    async def body(self, response: aiohttp.ClientResponse, limit: int = 0) -> bytes:
        """Return the body; of a refusal only if the client reads it, and it can be read. Raises `HttpRequestFailed`."""
        if response.status == 200:
            return await read_body(response, limit)
        if self._refusal_bytes:
            with contextlib.suppress(HttpRequestFailed):
                return await read_body(response, self._refusal_bytes)
        return b""

    async def close(self) -> None:
        """End all connections; requests on their way fail. Another request opens new ones."""
        if self._session is not None:
            await self._session.close()
        for _ in range(_CLOSE_TURNS):
            await asyncio.sleep(0)

    def _new_session(self) -> aiohttp.ClientSession:
        resolver = aiohttp.ThreadedResolver()  # also where aiodns is installed, which reads no /etc/nsswitch.conf
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=self._idle_seconds, resolver=resolver, socket_factory=_socket
        )
        connection: type[ResponseHandler] = _Connection
        connector._factory = partial(connection, asyncio.get_running_loop())
        return aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
            max_headers=MAX_HEADERS,
        )


class _Connection(ResponseHandler):
    """A connection that ends at once when it is closed: without the goodbye of TLS, which a server may never answer."""

    def is_connected(self) -> bool:
        """Return whether the next request can use it: not after an answer without a request, as a proxy's 408 to an
        idle connection, which would otherwise be read as the next answer."""
        return super().is_connected() and not self.should_close

    def close(self) -> None:
        """End the connection."""
        self.abort()


def answer_of(response: aiohttp.ClientResponse, url: str = "") -> Answer:
    """Return an answer without its body."""
    headers = response.headers
    retry = headers.get("Retry-After", "")[:MAX_SHOWN]
    return Answer(
        url,
        response.status,
        _printable((response.reason or "")[:MAX_SHOWN]),
        _printable(headers.get("Location", "")),
        _printable(headers.get("Content-Type", "")[:MAX_SHOWN]),
        int(retry) if retry.isdecimal() else None,
        has_length=not {"Content-Length", "Transfer-Encoding"}.isdisjoint(headers),
    )


def _printable(text: str) -> str:
    """Return a text of a server with `?` for what is not printable, and without the surrogates of invalid UTF-8."""
    return clean(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _redirected(answer: Answer) -> str:
    """Return where an answer redirects to; raises `HttpRequestFailed` if that is not http."""
    try:
        url = without_login(urljoin(answer.url, answer.location))
    except ValueError:
        url = answer.location
    if not url.startswith(("http://", "https://")):
        raise HttpRequestFailed("redirect", f"redirects to {masked_foreign(url)}")
    return url


def _environment_proxy(url: str) -> str | None:
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc.rpartition("@")[2]) else getproxies().get(parts.scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _socket(address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(*address[:3])
    for option, value in _KEEPALIVE:
        sock.setsockopt(*option, value)
    return sock
