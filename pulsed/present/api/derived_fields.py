"""Derived values in the GPU document: keys, functions and types, from their declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pulsed.compute.declaration import DerivedDetail, DerivedNumber, DerivedState, DerivedValue, DerivedVector
from pulsed.compute.derived_results import DERIVED_VALUES, ordered
from pulsed.model.computed_tick import Result
from pulsed.model.vocabulary import Reading
from pulsed.present.time_text import rfc3339_or_none

FIRST_SECTIONS = ("real_utilization", "saturation", "workload", "health")
"""Sections whose order in the document is fixed; later ones follow in the order of their table."""


class JsonField(NamedTuple):
    """A key of a section of the GPU document; `get` is None for one that depends on the configuration."""

    key: str
    type: Any
    help: str
    get: Callable[[Reading, Result], object] | None


def _fields(value: DerivedValue) -> Iterator[tuple[str, JsonField]]:
    section, _, key = value.json.partition(".")
    if isinstance(value, DerivedVector):
        type_ = float if value.always else float | None
        for position, name in enumerate(value.keys):
            yield section, JsonField(key.format(name), type_, value.help, value.element(position))
    elif isinstance(value, DerivedState):
        yield section, JsonField(key, str, value.help, value.get)
    elif isinstance(value, DerivedNumber):
        number: Any = int if value.integer else float
        yield section, JsonField(key, number if value.always else number | None, value.help, value.get)
    else:
        yield section, _detail(key, value)


def _detail(key: str, value: DerivedDetail) -> JsonField:
    get = cast("Callable[[Reading, Result], Any]", value.get)
    kinds: Mapping[str, tuple[Any, Callable[[Reading, Result], object] | None]] = {
        "ratio": (float | None, get),
        "ratios": (dict[str, float | None], lambda reading, result: dict(get(reading, result))),
        "names": (list[str], lambda reading, result: list(get(reading, result))),
        "time": (str | None, lambda reading, result: rfc3339_or_none(get(reading, result))),
        "setting": (str, None),
    }
    type_, converted = kinds[value.kind]
    return JsonField(key, type_, value.help, converted)


def _sections() -> Mapping[str, Sequence[JsonField]]:
    found: dict[str, list[JsonField]] = {}
    for value in DERIVED_VALUES:
        if value.json:
            for section, field in _fields(value):
                found.setdefault(section, []).append(field)
    return {section: found[section] for section in ordered(found, FIRST_SECTIONS)}


SECTIONS: Mapping[str, Sequence[JsonField]] = _sections()
"""Fields of every section of derived values, in the order of the document."""

_GETTERS = [(section, [(field.key, field.get) for field in fields]) for section, fields in SECTIONS.items()]


def derived_sections(reading: Reading, result: Result, settings: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return all sections of a GPU; `settings` are the values of the keys that depend on the configuration."""
    return {
        section: {key: get(reading, result) if get is not None else settings[key] for key, get in getters}
        for section, getters in _GETTERS
    }
