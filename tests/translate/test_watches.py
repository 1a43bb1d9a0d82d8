"""The groups of fields that are asked for."""

from __future__ import annotations

from pulsed.translate.fields import FIELDS
from pulsed.translate.watches import GROUPS, fields_to_watch

TEXTS = {1, 54}  # the driver's version and the UUIDs, also those of MIG instances


def test_every_field_of_a_group_says_something() -> None:
    known = {field.id for field in FIELDS} | TEXTS
    for name, group in GROUPS.items():
        assert set(group.fast) | set(group.slow) <= known, name


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
