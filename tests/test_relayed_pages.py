"""Pages behind relays: no false statement, at most less known."""

from __future__ import annotations

import pytest

from tests.support.nightly import nightly_after
from tests.support.sequences.relays import CHANGES, false_statements


@pytest.mark.parametrize("seed", nightly_after(12, range(40)))
def test_whatever_a_relay_changes_verdicts_classes_and_owners_are_those_of_the_good_page(seed: int) -> None:
    assert list(false_statements(seed)) == []


@pytest.mark.parametrize("seed", nightly_after(1, range(4)))
@pytest.mark.parametrize("change", CHANGES)
def test_one_change_alone_makes_no_false_statement(change: str, seed: int) -> None:
    assert list(false_statements(seed, changes=(change,))) == []
