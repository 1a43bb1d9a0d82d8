"""HTTP for the exporter sources: gets a page, whatever stands between pulsed and the exporter.

Independent of when pages are read and of their content. The HTTP client and ssl are imported by the
first request, so that importing this module, or reading files only, costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from pulsed import __version__
from pulsed.errors import ScrapeFailed
from pulsed.http.body import BadBody, Body
from pulsed.http.credentials import (
    BadCredentials,
    BadTlsFiles,
    ClientTls,
    basic_authorization,
    masked,
    may_have_credentials,
    read_password,
    read_token,
)
from pulsed.reader.exporter.settings import ExporterSettings, Login, without_login

if TYPE_CHECKING:
    import ssl

    from pulsed.http.client import Answer, BrokenAnswer, HttpClient

_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"  # what every dcgm-exporter serves; before 4.8.3 it ignores Accept
_REDIRECTS = (301, 302, 303, 307, 308)
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
    "its certificate",
    "tls": "See whether it speaks https at all, and whether it requires a client certificate",
    "name": "Check the host's name and this machine's DNS",
    "broken": "See its log, and whether it wants https or a client certificate",  # TLS 1.3 may refuse by a reset
    "connect": "See whether dcgm-exporter runs there, and whether host and port are right",
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
        self._tls: dict[bool, ClientTls] = {}
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
            seconds: the timeout; by default that of the settings.

        Raises:
            ScrapeFailed: no page came, or one above the size limit.
        """
        timeout = self._timeout if seconds is None else seconds
        location, end = url, time.monotonic() + timeout
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await self._get(url, location, login, (timeout, end))
            if answer.status == 200:
                return answer.page
            where = _where(url, location)
            if answer.status not in _REDIRECTS or not answer.location:
                remedy = _STATUS_REMEDIES.get(answer.status, "See the exporter's log")
                raise ScrapeFailed(f"{where} answered {answer.status} {answer.reason}".rstrip(), remedy)
            try:
                location = without_login(urlsplit(urljoin(location, answer.location)))
            except ValueError:
                location = answer.location
            if not location.startswith(("http://", "https://")):
                raise ScrapeFailed(f"{where} redirects to {masked(location)}", "Give the page's own URL as target")
        raise ScrapeFailed(
            f"{masked(url)} redirects more than {_MAX_REDIRECTS} times", "Give the page's own URL as target"
        )

    async def _get(self, url: str, location: str, login: Login | None, limit: tuple[float, float]) -> Answer:
        """Return the answer of one location that the URL leads to; `limit` is the timeout and the end of its time."""
        from pulsed.http.client import (
            BrokenAnswer,
            DeadlineMissed,
            HttpClient,
            address_of,
            request_bytes,
        )

        timeout, end = limit
        if self._client is None:
            # Kept over an interval, else each scrape pays for a new connection.
            self._client = HttpClient(idle_seconds=2 * self._settings.interval)
        try:
            trusted = location == url or may_have_credentials(urlsplit(url), urlsplit(location))
            address = address_of(location)
            request = request_bytes(address, self._headers(login, trusted, timeout))
            context = self._context(trusted) if address.secure else None
            body = Body(self._settings.max_page_bytes)
            left = max(end - time.monotonic(), 0.001)
            return await self._client.get(address, request, body, left, context)
        except BadCredentials as error:
            raise ScrapeFailed(str(error), "Name a file that pulsed's user may read, and with nothing else") from error
        except BadBody as error:
            raise ScrapeFailed(f"{_where(url, location)} {error}", error.remedy) from error
        except DeadlineMissed as error:
            raise ScrapeFailed(
                f"{_where(url, location)} did not answer in {timeout:g} s",
                "See whether it is up, or allow it a longer timeout",
            ) from error
        except (BrokenAnswer, OSError) as error:
            raise _failure(_where(url, location), error) from error
        except ValueError:  # its text may repeat a header: neither shown nor chained
            raise ScrapeFailed(
                f"no request can be made for {_where(url, location)}",
                "Look for line breaks in the URL, headers and credentials",
            ) from None

    def _headers(self, login: Login | None, trusted: bool, timeout: float) -> Mapping[str, str]:
        settings = self._settings
        headers = {
            "Accept": _ACCEPT,
            "Accept-Encoding": "gzip",
            "User-Agent": f"pulsed/{__version__}",
            "X-Prometheus-Scrape-Timeout-Seconds": f"{timeout:g}",
        }
        if trusted:
            if settings.bearer_token_file:
                headers["Authorization"] = f"Bearer {read_token(settings.bearer_token_file)}"
            elif settings.bearer_token:
                headers["Authorization"] = f"Bearer {settings.bearer_token}"
            elif login or settings.username:
                headers["Authorization"] = basic_authorization(*(login or (settings.username or "", self._password())))
            if settings.headers:
                own = {name.lower() for name in settings.headers}
                headers = {name: value for name, value in headers.items() if name.lower() not in own}
                headers.update(settings.headers)
        return headers

    def _password(self) -> str:
        file = self._settings.password_file
        return read_password(file) if file else self._settings.password or ""

    def _context(self, trusted: bool) -> ssl.SSLContext:
        """Return the TLS context; without the client's certificate for hosts that are not trusted."""
        settings = self._settings
        if trusted not in self._tls:
            own = (settings.cert_file or "", settings.key_file or "") if trusted else ()
            self._tls[trusted] = ClientTls(settings.ca_file or "", *own, is_verified=not settings.insecure_skip_verify)
        try:
            return self._tls[trusted].context()
        except BadTlsFiles as error:
            raise ScrapeFailed(
                f"the TLS files {error.files} cannot be used: {error.reason}",
                "Each must exist, be readable for pulsed's user, and be PEM; certificate and key must belong together",
            ) from error


def _failure(where: str, error: BrokenAnswer | OSError) -> ScrapeFailed:
    from pulsed.http.connection import describe

    kind, what = describe(error)
    return ScrapeFailed(f"{where} {what}", _FAILURE_REMEDIES[kind])


def _where(url: str, location: str) -> str:
    """Return the URL, and to where it led."""
    return masked(url) if location == url else f"{masked(url)}, redirected to {masked(location)},"
