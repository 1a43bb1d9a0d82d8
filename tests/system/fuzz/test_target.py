from __future__ import annotations

import math
import re
import resource
from collections.abc import Callable

import pytest

from tools.fuzz.target import (
    MAX_GROWTH_BYTES,
    STRETCHED_BYTES,
    STRETCHED_SHARE,
    FuzzTarget,
    LimitExceeded,
    pieces,
    randomness,
    stretched,
)


def target(read: Callable[[bytes], object], seen: list[object] | None = None) -> FuzzTarget:
    outcomes = [] if seen is None else seen
    return FuzzTarget("x", read, (ValueError,), lambda _, outcome: outcomes.append(outcome), lambda: ())


def test_only_refusals_are_no_findings() -> None:
    seen: list[object] = []
    target(len, seen).check(b"abc")
    target(int, seen).check(b"1" * 8 + b"x")
    assert seen[0] == 3
    assert isinstance(seen[1], ValueError)
    with pytest.raises(ZeroDivisionError):
        target(lambda data: 1 // (len(data) - 3)).check(b"abc")


def test_what_is_quadratic_is_a_finding() -> None:
    quadratic = re.compile(rb"a*b")
    data = next(
        data for data in (b"aaaaaaaa%d" % number for number in range(1000)) if is_stretched(data, b"a" * 50_000)
    )
    with pytest.raises(LimitExceeded, match="s of processor time"):
        target(lambda data: quadratic.search(data)).check(data)


def is_stretched(data: bytes, to: bytes) -> bool:
    """Return whether an input is also read stretched, and then contains this."""
    chance = randomness(data)
    return chance.random() < STRETCHED_SHARE and to in stretched(data, chance)


def test_what_takes_much_memory_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz.target.MAX_SECONDS", math.inf)  # a large worker fills more pages than that
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # of the tests before
    with pytest.raises(LimitExceeded, match="bytes of memory"):
        target(lambda _: bytearray(b"x") * (peak + 2 * MAX_GROWTH_BYTES)).check(b"a")


def test_an_input_is_stretched_and_cut_in_the_same_way_each_time() -> None:
    data = bytes(range(200))
    long = stretched(data, randomness(data))
    assert len(long) >= STRETCHED_BYTES
    assert long == stretched(data, randomness(data))
    cut = list(pieces(data, randomness(data)))
    assert b"".join(cut) == data
    assert all(cut)
    assert cut == list(pieces(data, randomness(data)))
    assert len({len(list(pieces(data, randomness(bytes([seed]))))) for seed in range(50)}) > 5
