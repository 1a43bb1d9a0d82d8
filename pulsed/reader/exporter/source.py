"""The source `exporter`: scrapes dcgm-exporters over HTTP, or rereads a saved page.

One `ExporterSource` is one target; all of a process share one `Scraper`, and with it one pool of connections. The HTTP
client and ssl are imported by the first request, so that importing this module, or reading files only, costs nothing.
This module takes nothing from a page but when the exporter was started.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from pulsed.daemon_thread import SharedCall
from pulsed.errors import BadPage, ConfigError, ScrapeFailed, TooManyGpus
from pulsed.http.credentials import (
    BadCredentials,
    BadTlsFiles,
    ClientTls,
    basic_authorization,
    masked,
    masked_foreign,
    read_password,
    read_token,
    without_login,
)
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, Labels, Layout, RawTick, RawValue
from pulsed.reader.exporter import ExporterSettings, Login
from pulsed.reader.exposition.parser import PageParser, refuse_other_exporters
from pulsed.reader.exposition.row import limits_for
from pulsed.reader.source import Source, SourceRequest
from pulsed.regular_file import FileTooLarge, NotRegular, read_regular

if TYPE_CHECKING:
    from pulsed.http.client import HttpClient


PROCESS_START = "process_start_time_seconds"

_REPUBLISHED = "pulsed_"
"""Prefix of metrics on the page of another pulsed, whose process is not the one that counts."""


def page_epoch(layout: Layout, values: Sequence[RawValue], before: Epoch) -> Epoch:
    """Return the start of the process on a page; without one, the start on the page before."""
    start = before.exporter
    for series, value in zip(layout.series, values, strict=True):
        if series.name.startswith(_REPUBLISHED):
            return before
        if series.name == PROCESS_START and not series.labels and isinstance(value, float) and math.isfinite(value):
            start = repr(value)
    return Epoch(exporter=start)


OLD_SECONDS = 300.0
"""Age of a timestamp at which a sample is no longer current, as for Prometheus. Saved pages may be older."""

_AT_ONCE = 8
_LARGE_PAGE = 128 * 1024
"""Bytes above which a page is parsed in a thread. A new one of this size takes some 10 ms, the worst some 50 ms."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class ExporterSource(Source):
    """One exporter, or one saved page, read at a fixed cadence.

    Args:
        target: http or https URL (a user and password in it are used and never shown), `file://` URL, or path.
        phase: how long the first read waits, in intervals, 0..1; see `phases`.
        labels: of all series of its GPUs.

    Raises:
        ConfigError: the target is neither of these.
    """

    kind = "exporter"
    failures = (ScrapeFailed, BadPage, TooManyGpus)

    def __init__(
        self,
        target: str,
        settings: ExporterSettings | None = None,
        scraper: Scraper | None = None,
        phase: float = 0.0,
        *,
        labels: Labels = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._settings = settings or ExporterSettings()
        self._path, self._url, self._login = _resolve(target)
        self.target = masked(self._url) or self._path
        self.interval, self._timeout = self._settings.interval, self._settings.scrape_timeout
        self._file: SharedCall[bytes] = SharedCall("saved page")  # its file system may hang
        self._scraper: Scraper | None = scraper or Scraper(self._settings)
        self._scraper.retain()
        self._parser, self._epoch = PageParser(limits_for(self._settings.max_gpus)), UNKNOWN_EPOCH
        self._phase, self._clock, self._wall, self._sleep = phase, clock, wall, sleep
        self._start: float | None = None
        self._slot = -1
        self._labels = labels

    async def read(self) -> RawTick:
        """Wait for the next scheduled moment, then scrape. Moments that a slow scrape missed are left out.

        Raises `ScrapeFailed` if no page came, `BadPage` if nothing on it can be read, `TooManyGpus` for too many GPUs.
        """
        scraper = self._scraper
        if scraper is None:
            raise ScrapeFailed(f"{self.target} is closed", "Create a new source")
        await self._next_moment()
        if self._url:
            page = await scraper.fetch(self._url, self._login, self._timeout)
        else:
            page = await self._file.call(lambda: _read_file(self._path, self._settings.max_page_bytes))
        clock, arrival = Monotonic(self._clock()), Unix(self._wall())
        if not page or page.isspace():
            raise BadPage(f"{self.target}: empty page", self._empty_remedy())
        if len(page) <= _LARGE_PAGE:
            return self._parse(page, arrival, clock)
        async with scraper.large_pages:
            return await asyncio.to_thread(self._parse, page, arrival, clock)

    def is_same(self, other: Source) -> bool:
        """Return whether the other one reads the same page in the same way."""
        return (
            isinstance(other, ExporterSource)
            and (self._path, self._url, self._login, self._labels)
            == (other._path, other._url, other._login, other._labels)
            and replace(self._settings, targets=()) == replace(other._settings, targets=())
        )

    async def close(self) -> None:
        """Let go of the shared connections. Safe to call twice."""
        self._file.close()
        scraper, self._scraper = self._scraper, None
        if scraper is not None:
            await scraper.release()

    def _parse(self, page: bytes, arrival: Unix, clock: Monotonic) -> RawTick:
        begun = time.perf_counter()
        try:
            parsed = self._parser.parse(page, arrival - OLD_SECONDS if self._url else -math.inf)
            refuse_other_exporters(parsed.layout, parsed.samples)
        except BadPage as error:
            raise BadPage(f"{self.target}: {error.args[0]}", error.remedy) from error
        except TooManyGpus as error:
            raise TooManyGpus(error.limit, self.target) from error
        if parsed.samples == 0:
            raise BadPage(f"{self.target}: no sample that can be read", "Check that this is an exporter's page")
        spent = time.perf_counter() - begun
        self._epoch = page_epoch(parsed.layout, parsed.values, self._epoch)
        return RawTick(
            self.target,
            arrival,
            clock,
            self.interval,
            parsed.layout,
            parsed.values,
            parsed.rejected,
            spent,
            epoch=self._epoch,
            target_labels=self._labels,
        )

    async def _next_moment(self) -> None:
        now = self._clock()
        if self._start is None:
            self._start = now + self._phase * self.interval
        slot = max(self._slot + 1, math.ceil((now - self._start) / self.interval))
        while (delay := self._start + slot * self.interval - self._clock()) > 0:
            await self._sleep(delay)
        self._slot = slot

    def _empty_remedy(self) -> str:
        if self._url:  # dcgm-exporter answers 200 with no body for the 2-3 s of a reload
            return "The exporter is reloading its configuration; wait a few seconds"
        return "Write the file under another name, then rename it"


def phases(targets: Sequence[str]) -> list[float]:
    """Return when in the interval each target is scraped, 0..1, so that many do not answer in the same instant.

    The first few start at once, for a quick first view; the others by a hash of their name, the same in every run.
    """
    return [0.0 if n < _AT_ONCE else zlib.crc32(target.encode()) / 2**32 for n, target in enumerate(targets)]


def open_sources(settings: ExporterSettings, request: SourceRequest) -> Sequence[ExporterSource]:
    """Return one source per target, with one `Scraper` among them, as `SourceSection` describes."""
    scraper, targets = Scraper(settings), settings.targets
    delays = [0.0] * len(targets) if request.hurried else phases([target.url for target in targets])
    return [
        ExporterSource(target.url, settings, scraper, delay, labels=tuple(target.labels.items()))
        for target, delay in zip(targets, delays, strict=True)
    ]


def _resolve(target: str) -> tuple[str, str, Login | None]:
    """Return what a target names: a path and no URL, or no path, a URL without login, and the login."""
    scheme = _SCHEME.match(target)
    if scheme is None:
        return target, "", None
    try:
        parts = urlsplit(target)
        host, _ = parts.hostname, parts.port  # an invalid port raises here
    except ValueError:
        host, parts = None, SplitResult("", "", "", "", "")
    if parts.scheme == "file" and parts.path:
        return unquote(parts.path), "", None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(
            f"the exporter target {masked(target)!r} is not an http, https or file URL",
            "Write http://host:9400/metrics, or the path of a saved page",
        )
    login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return "", without_login(target), login


def _read_file(path: str, limit: int) -> bytes:
    try:
        return read_regular(path, limit)
    except NotRegular as error:
        raise ScrapeFailed(f"{path} is not a regular file", "A target is a URL or the path of a saved page") from error
    except FileTooLarge as error:
        raise ScrapeFailed(
            f"{path} has more than {limit} bytes", "Check that this is a page, or increase max_page_bytes"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ScrapeFailed(
            f"cannot read {path}: {reason}",
            "Name a saved page that pulsed's user may read, or a URL with http:// or https://",
        ) from error


_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"  # what every dcgm-exporter serves; before 4.8.3 it ignores Accept
_MAX_REDIRECTS = 3

_STATUS_REMEDIES: Mapping[int, str] = {
    401: "Give the credentials that it requires, or correct them",
    403: "These credentials may not read the page: use others, or allow them on the exporter's side",
    404: "The page of dcgm-exporter is at /metrics: check the path of the target",
    500: "One failing GPU or link makes dcgm-exporter refuse the whole page: its log names the culprit",
    503: "It is overloaded or not ready: scrape less often, or with fewer scrapers",
}

_FAILURE_REMEDIES: Mapping[str, str] = {
    "certificate": "Set source.exporter.ca_file to the certificate of its authority, and use a host name that is in "
    "its certificate, or set source.exporter.server_name to one",
    "tls": "See whether it speaks https at all, and whether it requires a client certificate",
    "name": "Check the host's name and this machine's DNS",
    "broken": "See its log, and whether it wants https or a client certificate",  # TLS 1.3 may refuse by a reset
    "connect": "See whether dcgm-exporter runs there, and whether host and port are right",
    "deadline": "Check that it is up, or allow it a longer timeout",
    "redirect": "Give the page's own URL as target",
    "request": "Look for line breaks in the URL, headers and credentials",
}


class Scraper:
    """HTTP for all exporter sources of a process: one pool of connections, closed by the last source that lets go.

    Attributes:
        large_pages: held while a large page is parsed: one after the other, which limits memory.
    """

    def __init__(self, settings: ExporterSettings) -> None:
        self._settings = settings
        self._timeout = settings.scrape_timeout
        self._client: HttpClient | None = None
        self._tls = ClientTls(
            settings.ca_file or "",
            settings.cert_file or "",
            settings.key_file or "",
            is_verified=not settings.insecure_skip_verify,
            server_name=settings.server_name or "",
        )
        self._users = 0
        self.large_pages = asyncio.Lock()

    def retain(self) -> None:
        """Count one more source that will `release` later."""
        self._users += 1

    async def release(self) -> None:
        """Count one source less; the last one closes all connections."""
        self._users -= 1
        if self._users <= 0 and self._client is not None:
            await self._client.close()

    async def fetch(
        self,
        url: str,
        login: Login | None = None,
        seconds: float | None = None,
    ) -> bytes:
        """Return a page, following a few redirects; credentials and headers go to no other host than the URL's.

        Args:
            seconds: the timeout; by default the timeout of the settings.

        Raises:
            ScrapeFailed: no page came, or one above the size limit.
        """
        from pulsed.http.client import HttpClient, Request
        from pulsed.http.failure import HttpRequestFailed

        timeout = self._timeout if seconds is None else seconds
        if self._client is None:
            # Connections are kept for longer than an interval, so that scrapes share them.
            self._client = HttpClient(2 * self._settings.interval, max_redirects=_MAX_REDIRECTS)
        headers = {"Accept": _ACCEPT, "X-Prometheus-Scrape-Timeout-Seconds": f"{timeout:g}"}
        try:
            request = Request(url, headers, await self._read_secrets(self._client, login), self._tls)
            answer = await self._client.fetch(request, self._settings.max_page_bytes, timeout)
        except BadCredentials as error:
            raise ScrapeFailed(str(error), "Name a file that pulsed's user may read, and with nothing else") from error
        except BadTlsFiles as error:
            raise ScrapeFailed(
                f"the TLS files {error.files} cannot be used: {error.reason}",
                "Each must exist, be readable for pulsed's user, and be PEM; certificate and key must belong together",
            ) from error
        except HttpRequestFailed as error:
            where = _where(url, error.url)
            text = f"no request can be made for {where}" if error.kind == "request" else f"{where} {error}"
            raise ScrapeFailed(text, error.remedy or _FAILURE_REMEDIES[error.kind]) from error
        if answer.status != 200:
            raise ScrapeFailed(
                f"{_where(url, answer.url)} answered {answer.status} {answer.reason}".rstrip(),
                _STATUS_REMEDIES.get(answer.status, "See the exporter's log"),
            )
        if not answer.has_length and not answer.body.endswith(b"\n"):
            text = f"{_where(url, answer.url)} broke off the answer (connection closed in a line)"
            raise ScrapeFailed(text, _FAILURE_REMEDIES["broken"])
        return answer.body

    async def _read_secrets(self, client: HttpClient, login: Login | None) -> Mapping[str, str]:
        """Return the headers for the exporter only, of files or of the settings."""
        files = self._settings.bearer_token_file or self._settings.password_file
        if not files or (login and not self._settings.bearer_token_file):
            return self._secrets(login)
        return await client.read_secrets(files, lambda: self._secrets(login))

    def _secrets(self, login: Login | None) -> Mapping[str, str]:
        """Return the headers for the exporter only."""
        settings, secrets = self._settings, dict[str, str]()
        if settings.bearer_token_file or settings.bearer_token:
            token = read_token(settings.bearer_token_file) if settings.bearer_token_file else settings.bearer_token
            secrets["Authorization"] = f"Bearer {token}"
        elif login or settings.username:
            secrets["Authorization"] = basic_authorization(*(login or (settings.username or "", self._password())))
        return {**secrets, **settings.headers}

    def _password(self) -> str:
        file = self._settings.password_file
        return read_password(file) if file else self._settings.password or ""


def _where(url: str, location: str) -> str:
    """Return the URL, and to where it led."""
    return masked(url) if location == url else f"{masked(url)}, redirected to {masked_foreign(location)},"
