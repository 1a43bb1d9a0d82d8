"""Typed access to fields of JSON objects: what is missing or has another type counts as not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def mapping(value: object) -> Mapping[str, object]:
    """Return an object; empty if the value is none."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> Sequence[Mapping[str, object]]:
    """Return the objects of a list; empty if the value is none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text; empty if the value is none."""
    return value if isinstance(value, str) else ""
