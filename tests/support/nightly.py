"""Tests that only `make nightly` runs: permutations of a case that `make test-all` has, and what takes minutes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def nightly_after(count: int, values: Iterable[object]) -> list[ParameterSet]:
    """Return values of one parameter; those after the first ones are for `make nightly`."""
    return nightly_rows_after(count, ((value,) for value in values))


def nightly_rows_after(count: int, rows: Iterable[tuple[object, ...]]) -> list[ParameterSet]:
    """Return rows of values of several parameters; those after the first ones are for `make nightly`."""
    return [
        pytest.param(*row, marks=[pytest.mark.nightly] if number >= count else []) for number, row in enumerate(rows)
    ]
