"""The groups of fields that are asked for."""

from __future__ import annotations

from pulsed.translate.fields import GROUPS, fields_to_watch
from tests.translate.field_table import WATCHED

TEXTS = {1, 54}  # the driver's version and the UUIDs, also those of MIG instances


def test_the_groups_watch_what_the_table_records() -> None:
    watched = {
        id_: f"{name} {speed}"
        for name, group in GROUPS.items()
        for speed, ids in (("fast", group.fast), ("slow", group.slow))
        for id_ in ids
    }
    assert watched == dict.fromkeys(TEXTS, "core slow") | {id_: group for id_, group in WATCHED.items() if group}


def test_no_field_is_in_two_places() -> None:
    ids = [field for group in GROUPS.values() for field in (*group.fast, *group.slow)]
    assert len(ids) == len(set(ids))


def test_own_fields_come_behind_the_groups_and_make_slow_ones_fast() -> None:
    fast, slow = fields_to_watch(["nvlink"], [409, 1011, 1017])
    assert fast == (1011, 1012, 449, 409, 1017)
    assert 409 not in slow
    assert 419 in slow


def test_the_default_is_light_enough_for_ten_times_a_second() -> None:
    fast, _ = fields_to_watch(GROUPS)
    assert len(fast) <= 40
