from __future__ import annotations

from pulsed.pauses import Backoff


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    pauses = Backoff(1.0, 60.0, lambda: 0.0)
    assert [pauses.next() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    pauses.reset()
    assert pauses.next() == 1


def test_chance_shortens_a_pause_by_half_at_most() -> None:
    numbers = iter([0.0, 0.5, 0.999])
    pauses = Backoff(4.0, 4.0, lambda: next(numbers))
    assert pauses.next() == 4.0
    assert pauses.next() == 3.0
    assert 2.0 < pauses.next() < 2.01
