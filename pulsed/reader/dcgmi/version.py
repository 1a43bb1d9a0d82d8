"""Which DCGM this is: what `dcgmi -v` prints of itself and of this machine's host engine (DCGM's Version.cpp)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pulsed.errors import SourceError
from pulsed.reader.dcgmi.discovery import printed

_VERSION = re.compile(r"^Version\s*:\s*(\d[\w.+-]*)", re.MULTILINE)
_ENGINE = "Hostengine build info"


def parse_versions(text: str) -> tuple[str, str]:
    """Read `dcgmi -v`: the versions of dcgmi and of the host engine, empty where they are missing."""
    own, _, engine = text.partition(_ENGINE)
    found = [_VERSION.search(part) for part in (own, engine)]
    return found[0][1] if found[0] else "", found[1][1] if found[1] else ""


async def versions(path: str, patience: float) -> tuple[str, str]:
    """Return the versions of dcgmi and of this machine's host engine, from `dcgmi -v`; empty on failure."""
    try:
        return parse_versions(await printed((path, "-v"), patience))
    except SourceError:
        return "", ""


def described(versions: Sequence[str]) -> str:
    """Return both in words for a person; empty if nothing is known."""
    names = ("dcgmi", "host engine")
    return ", ".join(f"{name} {version}" for name, version in zip(names, versions, strict=True) if version)
