"""Which of several processes reads a target. Depends on nothing but the target's name."""

from __future__ import annotations

from hashlib import md5
from typing import Literal
from urllib.parse import urlsplit

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
