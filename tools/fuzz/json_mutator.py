"""Mutations of JSON that stay JSON: bytes that are changed at random seldom reach what is behind the parser."""

from __future__ import annotations

import json
import random
from typing import Any

_VALUES: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e-320, 1e18, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "a", "nan", "1", "\x00", "\ud800", "x" * 2000),
    *([], {}, [[]], [None], [1, 2], {"": None}, {"a": {}}),
)


def mutate_json(data: bytes, chance: random.Random) -> bytes | None:
    """Return lines of JSON of which one has another value, key or length at a random place; None if none is JSON."""
    lines = data.split(b"\n")
    for _ in range(4):
        at = chance.randrange(len(lines))
        try:
            document = json.loads(lines[at])
        except (ValueError, RecursionError):
            continue
        lines[at] = json.dumps(_changed(document, chance), separators=(",", ":")).encode()
        return b"\n".join(lines)
    return None


def _changed(document: Any, chance: random.Random) -> Any:
    """Return a document with a change at a random place, which is changed in place."""
    root = [document]
    places: list[tuple[Any, Any]] = [(root, 0)]
    for parent, key in places:
        value = parent[key]
        if isinstance(value, (dict, list)):
            places += [(value, each) for each in (value if isinstance(value, dict) else range(len(value)))]
    parent, key = chance.choice(places)
    other, name = chance.choice(places)
    kind = chance.randrange(5)
    if kind == 0 and parent is not root:
        del parent[key]
    elif kind == 1:
        parent[key] = json.loads(json.dumps(other[name]))
    elif kind == 2 and isinstance(parent, list):
        parent.append(json.loads(json.dumps(parent[key])))
    elif kind == 3 and isinstance(parent, dict):
        parent[chance.choice([*parent, "", "x", str(chance.choice(_VALUES))])] = parent[key]
    else:
        parent[key] = chance.choice(_VALUES)
    return root[0]
