"""HTTP for the exporter sources: gets a page, whatever stands between pulsed and the exporter.

Independent of when pages are read and of their content. The HTTP client and ssl are imported by the
first request, so that importing this module, or reading files only, costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pulsed.errors import ScrapeFailed
from pulsed.http.credentials import (
    BadCredentials,
    BadTlsFiles,
    ClientTls,
    authorization,
    basic_authorization,
    masked,
    masked_foreign,
    read_password,
)
from pulsed.reader.exporter.settings import ExporterSettings, Login

if TYPE_CHECKING:
    from pulsed.http.client import HttpClient

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
            seconds: the timeout; by default that of the settings.

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
            request = Request(url, headers, self._secrets(login), self._tls)
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
        return answer.body

    def _secrets(self, login: Login | None) -> Mapping[str, str]:
        """Return the headers for the exporter only."""
        settings = self._settings
        secrets = authorization("", settings.bearer_token_file)
        if not secrets and settings.bearer_token:
            secrets = {"Authorization": f"Bearer {settings.bearer_token}"}
        elif not secrets and (login or settings.username):
            secrets = {"Authorization": basic_authorization(*(login or (settings.username or "", self._password())))}
        return {**secrets, **settings.headers} if settings.headers else secrets

    def _password(self) -> str:
        file = self._settings.password_file
        return read_password(file) if file else self._settings.password or ""


def _where(url: str, location: str) -> str:
    """Return the URL, and to where it led."""
    return masked(url) if location == url else f"{masked(url)}, redirected to {masked_foreign(location)},"
