"""Documents in JSON with one value that was changed, as by hand or a failing disk."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

_Place = tuple[str | int, ...]

_REMOVED = object()
_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "\ud800", "a" * 1000, [], {}, [1], [[]], {"a": 1}, [None], ["a", "b"]),
    *(0, -1, 1, 1e308, -1e308, 10**400, 2**63, -(2**63), 1e-320, float("inf"), float("-inf"), float("nan"), _REMOVED),
)


def tampered(document: Any, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield changed documents as JSON, each with a description of its change."""
    rng = random.Random(seed)
    places = list(_places(document))[1:]
    for _ in range(count):
        found, place, value = copy.deepcopy(document), rng.choice(places), rng.choice(_VALUES)
        parent = found
        for name in place[:-1]:
            parent = parent[name]
        if value is _REMOVED:
            del parent[place[-1]]
        else:
            parent[place[-1]] = value
        yield json.dumps(found), f"{place}: {'removed' if value is _REMOVED else repr(value)[:40]}"


def _places(document: Any, place: _Place = ()) -> Iterator[_Place]:
    yield place
    if isinstance(document, (dict, list)):
        for name, member in document.items() if isinstance(document, dict) else enumerate(document):
            yield from _places(member, (*place, name))
