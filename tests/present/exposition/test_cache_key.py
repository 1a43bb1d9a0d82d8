from __future__ import annotations

from pulsed.present.exposition.page import REFRESH_SECONDS, CacheKey
from tests.present.boards import gpu, store_of, target, tick


def test_the_first_call_has_expired_even_for_an_empty_board() -> None:
    key = CacheKey()
    assert key.expired(store_of(), 0.0)
    assert not key.expired(store_of(), 0.5)


def test_every_change_of_the_board_ends_it() -> None:
    made = store_of(target("a", tick([gpu(0)])))
    key = CacheKey()
    key.expired(made, 100.0)
    made.targets[0].fail("bad_page", "no")
    assert key.expired(made, 100.1)
    made.targets.append(target("b"))
    assert key.expired(made, 100.2)
    assert not key.expired(made, 100.3)


def test_age_ends_it() -> None:
    key = CacheKey()
    key.expired(store_of(), 100.0)
    assert not key.expired(store_of(), 100.0 + REFRESH_SECONDS - 0.01)
    assert key.expired(store_of(), 100.0 + REFRESH_SECONDS)


def test_the_moment_in_which_a_target_turns_stale_ends_it() -> None:
    made = store_of(target("a", tick([gpu(0)]), arrived=100.0), target("b", tick([gpu(1)]), arrived=109.0))
    key = CacheKey()
    turn = 100.0 + made.targets[0].stale_after
    key.expired(made, turn - 0.1)
    assert not key.expired(made, turn - 0.01)
    assert key.expired(made, turn + 0.01)
    assert not key.expired(made, turn + 0.02)
