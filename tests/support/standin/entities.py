"""Which rows a run of dmon has: what `-i` and `-g` select, and in which order a version prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from tests.support.standin.board import Row, mig_uuid_of, uuid_of
from tests.support.standin.scenario import Scenario

SLICES = 7
"""DCGM numbers MIG instances `GPU * 7 + place`."""

ALL_GPUS, ALL_SWITCHES = 0, 1

_TYPED = re.compile(r"(gpu|g|instance|i|compute_instance|ci):(\d+|\*|\{\d+-\d+\})$")
_TYPES = {
    "gpu": "GPU",
    "g": "GPU",
    "instance": "GPU-I",
    "i": "GPU-I",
    "compute_instance": "GPU-CI",
    "ci": "GPU-CI",
}


class NoSuchEntity(Exception):
    """`-i` names what is not there.

    Attributes:
        label: DCGM's word for the kind, and the number.
    """

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.label = label


class NoSuchGroup(Exception):
    """`-g` names a group that is not there."""


def all_rows(scenario: Scenario) -> list[Row]:
    """Every GPU, GPU instance and compute instance, by GPU, instance and compute instance."""
    rows = []
    for index, gpu in enumerate(scenario.gpus):
        rows.append(Row(f"GPU {index}", index, gpu))
        next_compute = index * SLICES
        of_instance: dict[int, list[Row]] = {}
        for place, instance in enumerate(gpu.instances):
            entity = instance.entity if instance.entity >= 0 else index * SLICES + place
            first = instance.entity if instance.entity >= 0 else next_compute
            next_compute += len(instance.computes)
            of_instance[instance.id] = [Row(f"GPU-I {entity}", index, gpu, instance)] + [
                Row(f"GPU-CI {first + number}", index, gpu, instance, compute)
                for number, compute in enumerate(instance.computes)
            ]
        rows += [row for number in sorted(of_instance) for row in of_instance[number]]
    return rows


def selected(scenario: Scenario, entities: str, group: str) -> list[Row]:
    """The rows that `-i` or `-g` select, `-1` meaning not given, in the version's order.

    Raises:
        NoSuchEntity: an entity is not there.
        NoSuchGroup: the group is not there.
        ValueError: the group is not a number.
    """
    rows = all_rows(scenario)
    if entities != "-1":
        wanted = set(_labels(rows, entities))
    elif group in ("-1", "all_gpus"):
        wanted = {row.label for row in rows if not row.is_mig}
    else:
        wanted = set(_group(scenario, rows, group))
    return _ordered(scenario, [row for row in rows if row.label in wanted])


def _group(scenario: Scenario, rows: Sequence[Row], group: str) -> Iterable[str]:
    number = ALL_SWITCHES if group == "all_nvswitches" else int(group)
    if number in scenario.groups:
        return scenario.groups[number]
    if number == ALL_GPUS:
        return [row.label for row in rows if not row.is_mig]
    if number == ALL_SWITCHES:
        return []
    raise NoSuchGroup(group)


def _labels(rows: Sequence[Row], entities: str) -> Iterable[str]:
    for part in entities.split(","):
        found = [row.label for row in rows if _matcher(part)(row)]
        if not found and "*" not in part:
            typed = _TYPED.match(part)
            raise NoSuchEntity(f"{_TYPES[typed[1]]} {typed[2]}" if typed else f"GPU {part}")
        yield from found


def _matcher(part: str) -> Callable[[Row], bool]:
    """What a part of `-i` means: `1`, `{0-3}`, `*`, `0/*`, `*/*/*`, an UUID, or a typed form such as `instance:3`."""
    if part.startswith(("GPU-", "MIG-")):
        return lambda row: part == _uuid(row)
    if typed := _TYPED.match(part):
        return lambda row: row.label.split()[0] == _TYPES[typed[1]] and _fits(typed[2], int(row.label.split()[1]))
    path = part.split("/")

    def matches(row: Row) -> bool:
        place: list[int] = [row.index]
        if row.instance is not None:
            place.append(row.instance.id)
        if row.compute is not None:
            place.append(row.compute)
        return len(place) == len(path) and all(_fits(text, number) for text, number in zip(path, place, strict=True))

    return matches


def _uuid(row: Row) -> str:
    if row.instance is None:
        return uuid_of(row.gpu, row.index)
    return "" if row.compute is None else mig_uuid_of(row.gpu, row.index, row.instance, row.compute)


def _fits(text: str, number: int) -> bool:
    if text == "*":
        return True
    if spread := re.fullmatch(r"\{(\d+)-(\d+)\}", text):
        return int(spread[1]) <= number <= int(spread[2])
    return text.isdigit() and int(text) == number


def _ordered(scenario: Scenario, rows: list[Row]) -> list[Row]:
    """Era A prints by kind and entity id; B a hash's order, in captures descending, but sorted under MIG; C sorts."""
    if scenario.era == "B" and not any(gpu.instances for gpu in scenario.gpus):
        return rows[::-1]
    if scenario.era == "A":
        kinds = ("GPU", "GPU-I", "GPU-CI")
        return sorted(rows, key=lambda row: (kinds.index(row.label.split()[0]), int(row.label.split()[1])))
    return rows
