from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.owners.report.sums import added, mean_of, ratio_of

NUMBER = st.integers(-1000, 1000)
COUNTERS = st.dictionaries(st.sampled_from("abc"), st.none() | NUMBER, max_size=3)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([], None),
        ([None, None], None),
        ([None, 1.0, 2.0], 3.0),
        ([{"a": None}, {"a": None}], {"a": None}),
        ([{"a": 1.0}, {"b": {"x": 2.0}}, {"b": {"x": 1.0, "y": None}}], {"a": 1.0, "b": {"x": 3.0, "y": None}}),
    ],
)
def test_a_sum_leaves_out_what_is_not_known(values: list[Any], total: Any) -> None:
    assert added(values) == total


@given(st.lists(COUNTERS), st.lists(COUNTERS))
def test_the_order_and_grouping_of_a_sum_do_not_matter(first: list[Any], second: list[Any]) -> None:
    assert added([*first, *second]) == added([added(first), added(second)])
    assert added([*first, *second]) == added([*second, *first])


def test_a_mean_is_of_the_known_time() -> None:
    counters = {"sm_active_seconds": 3.0, "sm_active_unknown_seconds": 4.0}
    assert mean_of("sm_active", counters, 10.0) == 0.5
    assert mean_of("sm_active", counters, 4.0) is None
    assert mean_of("dram_active", counters, 10.0) is None
    assert (ratio_of(1.0, 2.0), ratio_of(3.0, 2.0), ratio_of(0.0, 0.0)) == (0.5, 1.0, None)
