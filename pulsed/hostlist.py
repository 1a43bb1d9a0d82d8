"""Lists of host names in the notation of Slurm: `gpu[01-04,07],login1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from pulsed.errors import UsageError

MAX_HOSTS = 65536

_SEPARATORS = re.compile(r"(\[[^\[\]]*\]|,)")
_PARTS = re.compile(r"[^\[\],\s]+|\[[^\[\]]*\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expanded_hosts(text: str) -> list[str]:
    """Return the host names of a list, in its order and each once.

    A range keeps leading zeros: `n[08-10]` is n08, n09, n10. A name may have several brackets.

    Raises:
        UsageError: it is not such a list, or has more than `MAX_HOSTS` names.
    """
    hosts: dict[str, None] = {}
    for name in _names(text.strip()):
        parts = _PARTS.findall(name)
        if not name or "".join(parts) != name:
            raise _refusal(text, f"{name!r} is not a host name")
        choices = [_choices(part, text) if part.startswith("[") else [part] for part in parts]
        size = len(hosts)
        for choice in choices:
            size = max(size, 1) * len(choice)
        if size > MAX_HOSTS:
            raise _refusal(text, f"more than {MAX_HOSTS} hosts")
        hosts.update(dict.fromkeys(map("".join, product(*choices))))
    return list(hosts)


def _names(text: str) -> Iterator[str]:
    """Yield the names between the commas outside of brackets."""
    parts: list[str] = []
    for part in _SEPARATORS.split(text):
        if part == ",":
            yield "".join(parts)
            parts = []
        else:
            parts.append(part)
    yield "".join(parts)


def _choices(brackets: str, text: str) -> list[str]:
    found: list[str] = []
    for each in brackets[1:-1].split(","):
        match = _RANGE.fullmatch(each)
        if match is None:
            raise _refusal(text, f"{each!r} in {brackets} is not a number or a range")
        first, last = match[1], match[2] or match[1]
        count = int(last) - int(first) + 1
        if count < 1 or count > MAX_HOSTS:
            raise _refusal(text, f"{each!r} in {brackets} is not a range of 1 to {MAX_HOSTS} numbers")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def _refusal(text: str, problem: str) -> UsageError:
    shown = text if len(text) <= 80 else f"{text[:80]}..."
    return UsageError(f"--nodes {shown!r}: {problem}", "Give host names such as gpu[01-04,07],login1")
