"""Reads lists of targets: files, an HTTP answer, DNS records."""

from __future__ import annotations

import asyncio
import glob
import os
import socket
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial

from pulsed.daemon_thread import SharedCall
from pulsed.errors import TargetListError
from pulsed.http.client import HttpClient, Request
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, authorization, masked, masked_foreign
from pulsed.http.failure import HttpRequestFailed
from pulsed.reader.exporter.discovery import DnsListSettings, FileListSettings, HttpListSettings
from pulsed.reader.exporter.discovery.target_groups import TargetGroup, parse_json, parse_yaml
from pulsed.regular_file import read_regular

MAX_LIST_BYTES = 2**20
"""Size limit of a list, decompressed; its objects take 50 times as much. 20,000 targets take 0.5 MB."""

FILE_SECONDS = 5.0
"""Time between two looks at the files."""

ReadLists = Mapping[str, Sequence[TargetGroup] | TargetListError]
"""The lists by name; the error of one that cannot be read, whose targets of before are kept."""


class TargetLists:
    """Lists of targets of one kind.

    Attributes:
        interval: seconds between two reads.
    """

    interval: float

    @abstractmethod
    async def read(self) -> ReadLists:
        """Return all lists; errors are in the result."""

    async def close(self) -> None:
        """Close connections."""


class FileLists(TargetLists):
    """Files that match patterns; one that has not changed is not read again, and one that vanished is not returned."""

    interval = FILE_SECONDS

    def __init__(self, settings: FileListSettings) -> None:
        self._patterns = settings.files
        self._thread: SharedCall[ReadLists] = SharedCall("target lists")  # their file system may hang
        self._known: dict[str, tuple[tuple[int, int, int], Sequence[TargetGroup] | TargetListError]] = {}

    async def read(self) -> ReadLists:
        """Return the lists by file. A pattern without a `*` whose file is missing is an error."""
        return await self._thread.call(self._read)

    async def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _read(self) -> ReadLists:
        names = dict.fromkeys(
            name for pattern in self._patterns for name in (sorted(glob.glob(pattern)) if "*" in pattern else [pattern])
        )
        before, self._known = self._known, {}
        lists: dict[str, Sequence[TargetGroup] | TargetListError] = {}
        for name in names:
            try:
                stat = os.stat(name)
            except FileNotFoundError:
                if name in self._patterns and name not in before:
                    lists[name] = TargetListError(f"{name}: there is no such file", "Write it, or correct file.files")
                continue
            except OSError as error:
                lists[name] = TargetListError(f"{name}: {error.strerror}", "Let pulsed's user read it")
                continue
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            cached = before.get(name)
            self._known[name] = cached if cached and cached[0] == signature else (signature, _file_groups(name))
            lists[name] = self._known[name][1]
        return lists


def _file_groups(name: str) -> Sequence[TargetGroup] | TargetListError:
    try:
        text = read_regular(name, MAX_LIST_BYTES)
        return parse_json(text, name) if name.endswith(".json") else parse_yaml(text, name)
    except OSError as error:
        return TargetListError(f"{name}: {error.strerror or error}", "Let pulsed's user read it")
    except TargetListError as error:
        return error


class HttpList(TargetLists):
    """The answer of a URL: status 200 and JSON."""

    def __init__(self, settings: HttpListSettings) -> None:
        self._settings, self.interval = settings, settings.interval
        self._url = settings.url or ""
        self._client = HttpClient(idle_seconds=2 * settings.interval)
        self._tls = ClientTls(settings.ca_file or "")

    async def read(self) -> ReadLists:
        """Return the list by its URL."""
        name = masked(self._url)
        try:
            return {name: await self._groups(name)}
        except TargetListError as error:
            return {name: error}

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _groups(self, name: str) -> Sequence[TargetGroup]:
        headers = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": f"{self.interval:g}"}
        try:
            secrets = authorization(self._url, self._settings.bearer_token_file)
            request = Request(self._url, headers, secrets, self._tls)
            answer = await self._client.fetch(request, MAX_LIST_BYTES, self.interval)
        except (BadCredentials, BadTlsFiles) as error:
            raise TargetListError(f"{name}: {error}", "Correct source.exporter.http") from None
        except HttpRequestFailed as error:
            if error.kind == "request":
                raise TargetListError(
                    f"no request can be made for {name}", "Correct source.exporter.http.url"
                ) from None
            if error.kind == "body":
                raise TargetListError(f"{name}: {error}", "Correct source.exporter.http") from None
            raise TargetListError(f"{name} {error}", "Check that it is up") from None
        if answer.status != 200:
            more = f", to {masked_foreign(answer.location)}" if answer.location else ""
            raise TargetListError(
                f"{name} answered {answer.status} {answer.reason}{more}".rstrip(), "Only 200 is a list of targets"
            )
        media, _, parameters = answer.content_type.lower().partition(";")
        charset = parameters.partition("charset=")[2].strip(' "')
        if media.strip() != "application/json" or charset not in ("", "utf-8"):
            raise TargetListError(
                f"{name} has the content type {answer.content_type!r}", "Serve the list as application/json"
            )
        return await asyncio.to_thread(parse_json, answer.body, name)


_DNS_REMEDY = "See whether the DNS servers answer"

LOOKUP_SECONDS = 10.0
"""Limit of a lookup of addresses; a resolver takes 5 s for each server and attempt by default (resolv.conf(5))."""


class DnsLists(TargetLists):
    """DNS records: SRV by dnspython, A and AAAA by the system's resolver.

    Each name has a thread of its own: a server that does not answer delays no other lookup of this process.

    Args:
        servers: addresses of DNS servers for SRV, and their port; None: those of /etc/resolv.conf.
    """

    def __init__(self, settings: DnsListSettings, servers: tuple[Sequence[str], int] | None = None) -> None:
        self._settings, self.interval, self._servers = settings, settings.interval, servers
        self._threads = {name: SharedCall[list[str]](f"dns {name}") for name in settings.names}

    async def read(self) -> ReadLists:
        """Return the lists by name; a name that does not exist has no targets."""
        look_up = self._services if self._settings.type == "SRV" else self._addresses
        return dict(zip(self._settings.names, await asyncio.gather(*map(look_up, self._settings.names)), strict=True))

    async def close(self) -> None:
        """End the threads."""
        for thread in self._threads.values():
            thread.close()

    async def _addresses(self, name: str) -> Sequence[TargetGroup] | TargetListError:
        family = socket.AF_INET if self._settings.type == "A" else socket.AF_INET6
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                hosts = await self._threads[name].call(partial(_hosts, name, family))
        except TimeoutError:
            return TargetListError(f"{name}: no answer within {LOOKUP_SECONDS:g} s", _DNS_REMEDY)
        except socket.gaierror as error:
            if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
                return ()
            return TargetListError(f"{name}: {error.strerror}", _DNS_REMEDY)
        return (TargetGroup([_with_port(host, self._settings.port or 0) for host in hosts], {}),)

    async def _services(self, name: str) -> Sequence[TargetGroup] | TargetListError:
        try:
            from dns.asyncresolver import Resolver
            from dns.exception import DNSException
            from dns.rdtypes.IN.SRV import SRV
            from dns.resolver import NXDOMAIN, NoAnswer
        except ImportError:
            return TargetListError(
                "the Python package dnspython is not installed", "Install it with pip install 'pulsed[dns]'"
            )
        try:
            resolver = Resolver(configure=self._servers is None)
            if self._servers is not None:
                resolver.nameservers, resolver.port = list(self._servers[0]), self._servers[1]
            resolver.use_edns(0, 0, 1232)
            answer = await resolver.resolve(name, "SRV", search=True)
        except (NXDOMAIN, NoAnswer):
            return ()
        except DNSException as error:
            return TargetListError(f"{name}: {error}", _DNS_REMEDY)
        records = [record for record in answer if isinstance(record, SRV)]
        targets = sorted(_with_port(record.target.to_text(omit_final_dot=True), record.port) for record in records)
        return (TargetGroup(targets, {}),)


def _hosts(name: str, family: socket.AddressFamily) -> list[str]:
    return sorted({str(address[4][0]) for address in socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)})


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
