"""Durations in sentences."""

from __future__ import annotations

import pytest

from pulsed.durations import in_words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(30.0, "30 s"), (60.0, "60 s"), (90.0, "1.5 min"), (3600.0, "60 min"), (9000.0, "2.5 h"), (172800.0, "2 d")],
)
def test_a_duration_has_the_largest_unit_that_it_exceeds(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
