"""Derived values in the GPU document: the shapes of its sections, from the declarations of the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pulsed.compute.declaration import DerivedNumber, DerivedState, DerivedValue, DerivedVector
from pulsed.compute.derived_results import DERIVED_VALUES, ordered
from pulsed.model.computed_tick import Result
from pulsed.model.vocabulary import Reading
from pulsed.present.api.schema import TIME_OR_NULL, Member, Shape, ValueKind

FIRST_SECTIONS = ("real_utilization", "saturation", "workload", "health")
"""Sections whose order in the document is fixed; later ones follow in the order of their table."""


class Derived(NamedTuple):
    """What has the derived values of a GPU; `preset` is the name of the weights of real utilization."""

    reading: Reading
    result: Result
    preset: str


def _members(value: DerivedValue) -> Iterator[Member]:
    key = value.json.partition(".")[2]
    if isinstance(value, DerivedVector):
        for position, name in enumerate(value.keys):
            yield _member(key.format(name), float if value.always else float | None, value, value.element(position))
    elif isinstance(value, DerivedNumber):
        number: Any = int if value.integer else float
        yield _member(key, number if value.always else number | None, value, value.get)
    elif isinstance(value, DerivedState):
        yield _member(key, str, value, value.get)
    elif value.kind == "setting":
        yield Member(key, str, value.help, "preset")
    else:
        yield _member(key, _DETAILS[value.kind], value, value.get)


def _member(name: str, kind: Any, value: DerivedValue, get: Callable[[Reading, Result], object]) -> Member:
    return Member(name, kind, value.help, lambda derived: get(derived[0], derived[1]))


_DETAILS: Mapping[str, Any] = {
    "ratio": float | None,
    "ratios": ValueKind(lambda: dict[str, float | None], dict),
    "names": ValueKind(lambda: list[str], list),
    "time": TIME_OR_NULL,
    "flag": bool | None,
}
"""Kinds of details in JSON."""


def _sections() -> Mapping[str, Shape]:
    members: dict[str, list[Member]] = {}
    for value in DERIVED_VALUES:
        if value.json:
            members.setdefault(value.json.partition(".")[0], []).extend(_members(value))
    return {name: Shape(f"{_title(name)}Shape", *members[name]) for name in ordered(members, FIRST_SECTIONS)}


def _title(section: str) -> str:
    return "".join(word.capitalize() for word in section.split("_"))


SECTIONS: Mapping[str, Shape] = _sections()
"""The shapes of all sections of derived values, in the order of the document."""
