"""Lists of targets in Prometheus' formats (files, HTTP, DNS), and the shards that divide them.

Here are the settings of both, and which of several processes reads a target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pulsed.config.settings import NOT_ALLOWED, Kind, ListKind, Problem, Settings, setting
from pulsed.config.values import Duration, FileName, PositiveCount, SecretFileName, matching, not_empty, whole
from pulsed.errors import ConfigError

Partition = Literal["jump", "hashmod"]
"""A function from targets to shards."""

_WORD = 2**64 - 1


def shard_of(key: str, shards: int, by: Partition) -> int:
    """Return the shard of a target, 0..`shards` - 1.

    Both start from the number that Prometheus' `hashmod` takes of a text: the last 8 bytes of its MD5. `jump` is
    Lamping and Veach's jump consistent hash of it: one more shard moves only the targets that the new one gets.

    >>> shard_of("gpu-0001:9400", 4, "hashmod")
    1
    """
    number = int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[8:], "big")
    if by == "hashmod":
        return number % shards
    shard, following = -1, 0
    while following < shards:
        shard = following
        number = (number * 2862933555777941757 + 1) & _WORD
        following = int((shard + 1) * (2.0**31 / ((number >> 33) + 1)))
    return shard


def shard_key(target: str) -> str:
    """Return what a target is assigned to shards by: host and port as its URL has them, or the path of a file."""
    parts = urlsplit(target)
    return parts.netloc.rpartition("@")[2] or target


GONE_SECONDS = 600.0
"""How long a target that is no longer listed, and what was counted of it, is kept."""

_ORDINAL = re.compile(r"(?:.*-)?([0-9]{1,6})")


def _ordinal(value: object) -> int:
    """Return the number at the end of a name."""
    if isinstance(value, bool) or not (match := _ORDINAL.fullmatch(str(value))):
        raise ValueError(NOT_ALLOWED)
    return int(match[1])


def _list_url(value: str) -> str:
    """Return a URL of http or https."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # an invalid bracket or port
        usable = False
    if not usable:
        raise ValueError("is not a URL of http or https")
    return value


FilePatterns = Annotated[
    tuple[str, ...],
    ListKind(
        "file",
        "names that end in .json, .yml or .yaml, with at most one *, in their last part; one or a list of them",
        matching(r"[^*]*(\*[^/]*)?\.(json|yml|yaml)", "is not the name of a list of targets"),
        "file",
    ),
]
ListUrl = Annotated[
    str,
    Kind("list", "a URL such as http://inventory.example/targets", _list_url, "text"),
]
Names = Annotated[tuple[str, ...], ListKind("name", "names of DNS; one or a list of them", not_empty, "text")]
Port = Annotated[int, Kind("port number", "a number from 1 to 65535", whole(1, 65535))]
ShardIndex = Annotated[
    int,
    Kind("index", "a whole number, 0 or more, or a name that ends in - and such a number, such as pulsed-3", _ordinal),
]


@dataclass(frozen=True, slots=True)
class FileListSettings(Settings):
    """Lists for `discovery: file`, in the format of Prometheus' `file_sd_configs`."""

    files: FilePatterns = setting(
        (),
        "JSON or YAML files. A change is read within seconds. A broken file keeps its targets.",
        example="/etc/pulsed/targets/*.json",
    )


@dataclass(frozen=True, slots=True)
class HttpListSettings(Settings):
    """The list for `discovery: http`, in the format of Prometheus' `http_sd_configs`."""

    url: ListUrl | None = setting(
        None,
        "Its URL; a user and password in it are never shown.",
        example="http://inventory.example/targets",
        hidden=True,
    )
    interval: Duration = setting(60.0, "Time between two requests, and their timeout. An error keeps the targets.")
    bearer_token_file: SecretFileName | None = setting(
        None, "File with a bearer token, read for every request.", example="/etc/pulsed/inventory-token"
    )
    ca_file: FileName | None = setting(
        None, "PEM file of trusted authorities. Unset: the system's.", example="/etc/pulsed/ca.pem"
    )


@dataclass(frozen=True, slots=True)
class DnsListSettings(Settings):
    """Records for `discovery: dns`, as for Prometheus' `dns_sd_configs`."""

    names: Names = setting((), "Names to look up. An error keeps the targets.", example="_metrics._tcp.gpu.example")
    type: Literal["SRV", "A", "AAAA"] = setting(
        "SRV", "Type of the records. SRV needs dnspython (`pip install 'pulsed[dns]'`)."
    )
    port: Port | None = setting(None, "Port of the exporters, for A and AAAA.", example=9400)
    interval: Duration = setting(30.0, "Time between two look-ups.")

    def without_effect(self) -> Iterator[Problem]:
        """Yield the port, which SRV records have themselves."""
        if self.type == "SRV":
            yield "port", "SRV records have ports of their own"


@dataclass(frozen=True, slots=True)
class ShardSettings(Settings):
    """The share of the targets that this process reads, where several processes divide them.

    A file may be that of all of them, without `index`, which a daemon has from its command line or environment.
    """

    index: ShardIndex | None = setting(
        None,
        "This process, from 0, or the name of a pod of a StatefulSet.",
        example="pulsed-0",
    )
    of: PositiveCount = setting(1, "Number of processes.")
    by: Partition = setting(
        "jump",
        "How targets are assigned: `jump` moves the fewest when `of` changes; `hashmod` is Prometheus' "
        "relabelling of `__address__`.",
    )

    def problems(self) -> Iterator[Problem]:
        """Find an index outside of the number."""
        if self.index is not None and self.index >= self.of:
            yield "index", f"is {self.index}; allowed: 0..{self.of - 1}, as shard.of is {self.of}"

    def without_effect(self) -> Iterator[Problem]:
        """Yield how the targets of one process would be divided."""
        if self.of == 1:
            yield "by", "it needs an `of` above 1"

    def check_index(self) -> None:
        """Raise `ConfigError` if the index is missing, which a daemon needs."""
        if self.index is None and self.of > 1:
            raise ConfigError(
                f"source.exporter.shard.index is missing, and shard.of is {self.of}",
                f"Set it to 0..{self.of - 1}, a different one in each process, for example by --set or a variable",
            )

    def has(self, key: str) -> bool:
        """Return whether a target is read here, by its host and port; without an index, every one."""
        return self.of == 1 or self.index is None or shard_of(key, self.of, self.by) == self.index
