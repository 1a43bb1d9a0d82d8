"""Laws of results over random sequences: sources die, restart, repeat and go blank, GPUs swap, clocks step, owners
come and go.
"""

from __future__ import annotations

import pytest

from tests.support.examples import SHARE
from tests.support.sequences.laws import broken_laws

SEQUENCES = 500 // SHARE
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_results_keep_all_laws(part: int) -> None:
    seeds = range(part, SEQUENCES, PARTS)
    assert [complaint for seed in seeds for complaint in broken_laws(seed)] == []
