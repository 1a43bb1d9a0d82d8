"""Short names of nodes: without the domain that all of them share."""

from __future__ import annotations

from collections.abc import Iterable


def shared_domain(nodes: Iterable[str]) -> str:
    """Return the domain that all names of nodes end with, with its dot; empty if they share none, or are addresses.

    >>> shared_domain(["gpu01.a.example.com", "gpu02.b.example.com"])
    '.example.com'
    """
    names = [name.split(".") for name in set(nodes)]
    if not names or any(parts[-1].isdecimal() or ":" in parts[-1] for parts in names):
        return ""
    shared = 0
    while all(len(parts) > shared + 1 for parts in names) and len({parts[-1 - shared] for parts in names}) == 1:
        shared += 1
    return f".{'.'.join(names[0][-shared:])}" if shared else ""
