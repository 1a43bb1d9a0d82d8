"""Random sequences with restarts of pulsed: what a restart between two samples must not change."""

from __future__ import annotations

import pytest

from tests.support.examples import SHARE
from tests.support.sequences.restarts import changed_by_restarts

SEQUENCES = 200 // SHARE

FOUND = (
    53,  # an XID that came back with a page that had been blank was counted again after a restart
    147,  # the same XID after a GPU with none in its place
    1154,
    290018274,  # one of two samples that prove that there is no XID was before the restart
)
"""Seeds whose restarts changed a verdict once."""


def test_a_restart_between_two_samples_changes_no_verdict() -> None:
    assert [complaint for seed in range(SEQUENCES) for complaint in changed_by_restarts(seed)] == []


@pytest.mark.parametrize("seed", FOUND)
def test_what_a_restart_changed_once_stays(seed: int) -> None:
    assert list(changed_by_restarts(seed)) == []
