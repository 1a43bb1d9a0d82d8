"""Tests that only `make nightly` runs: permutations of a case that `make test-all` has, and what takes minutes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def nightly_after(count: int, values: Iterable[object]) -> list[ParameterSet]:
    """Return values of a parameter, or tuples of several; those after the first ones are for `make nightly`."""
    return [
        pytest.param(
            *(value if type(value) is tuple else (value,)), marks=[pytest.mark.nightly] if number >= count else []
        )
        for number, value in enumerate(values)
    ]
