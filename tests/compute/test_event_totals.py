"""Events of a GPU that several targets show."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.compute.event_totals import EventTotals
from pulsed.model.health import CheckState, Health


def health(xids: int, events: int = 0) -> Health:
    return Health("ok", 1.0, (), (("xid_warning", events),), ((48, xids),))


ROWS: list[tuple[str, list[tuple[str, int, bool]], list[int]]] = [
    ("one source", [("a", 0, True), ("a", 1, True), ("a", 3, True)], [0, 1, 3]),
    ("both see the same", [("a", 1, True), ("b", 1, False), ("a", 2, True), ("b", 2, False)], [1, 1, 2, 2]),
    ("one came later and goes on", [("a", 5, True), ("b", 0, False), ("b", 0, True), ("b", 1, True)], [5, 5, 5, 6]),
    ("it has seen one since", [("a", 5, True), ("b", 1, False), ("a", 5, True), ("b", 2, True)], [5, 5, 5, 6]),
    (
        "the first returns",
        [("a", 5, True), ("b", 0, False), ("b", 1, True), ("a", 6, False), ("a", 6, True)],
        [5, 5, 6, 6, 6],
    ),
    ("a new source", [("a", 5, True), ("b", 0, True), ("b", 2, True)], [5, 5, 7]),
]
"""What targets count, whether their samples are counted, and the totals."""


@pytest.mark.parametrize(("samples", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_events_are_counted_once_and_never_fall(samples: list[tuple[str, int, bool]], expected: list[int]) -> None:
    totals = EventTotals()
    found = [totals.apply(source, health(count), is_counted=is_counted) for source, count, is_counted in samples]
    assert [dict(each.xid_events)[48] for each in found] == expected


def test_the_object_stays_the_same_while_nothing_changes() -> None:
    totals, first, second = EventTotals(), health(1), health(0)
    assert totals.apply("a", first, is_counted=True) is first
    shown = totals.apply("b", second, is_counted=False)
    totals.apply("a", first, is_counted=True)
    assert totals.apply("b", second, is_counted=False) is shown
    totals.apply("a", health(2), is_counted=True)
    kept = totals.apply("b", second, is_counted=False, is_new=False)
    assert kept.xid_events == ((48, 2),)
    assert totals.apply("b", second, is_counted=False, is_new=False) is kept


def test_an_event_after_a_sample_that_shows_none_is_another_one() -> None:
    totals, seen, idle = EventTotals(), [], health(0)
    for source, found, is_counted, is_new in (
        ("a", health(0), True, True),
        ("b", idle, False, True),
        ("a", health(1), True, True),
        ("b", idle, False, False),
        ("b", idle, False, True),
        ("b", health(1), True, True),
    ):
        seen.append(dict(totals.apply(source, found, is_counted=is_counted, is_new=is_new).xid_events)[48])
    assert seen == [0, 0, 1, 1, 1, 2]


def test_an_event_that_a_blank_input_shows_late_counts_once() -> None:
    def counted(xids: int, is_covered: bool) -> Health:
        return Health("ok", 1.0, (CheckState("xid_critical", "ok", covered=is_covered),), (), ((48, xids),))

    totals, seen = EventTotals(), []
    for first, second, is_covered in ((0, 0, True), (1, 0, False), (1, 0, False), (1, 1, True), (2, 2, True)):
        totals.apply("a", counted(first, True), is_counted=False)
        seen.append(dict(totals.apply("b", counted(second, is_covered), is_counted=True).xid_events)[48])
    assert seen == [0, 0, 0, 1, 2]


def test_a_code_that_a_blank_input_shows_late_for_the_first_time_counts_once() -> None:
    def counted(codes: Mapping[int, int], is_covered: bool) -> Health:
        return Health("ok", 1.0, (CheckState("xid_critical", "ok", covered=is_covered),), (), tuple(codes.items()))

    totals, seen = EventTotals(), []
    for first, second, is_blank in (
        ({}, {}, False),
        ({43: 1}, {}, True),
        ({43: 1}, {}, True),
        ({43: 1}, {43: 1}, False),
    ):
        totals.apply("a", counted(first, True), is_counted=is_blank)
        seen.append(
            dict(totals.apply("b", counted(second, not is_blank), is_counted=not is_blank).xid_events).get(43, 0)
        )
    assert seen == [0, 1, 1, 1]
