"""What a fuzz target is, and the check of one input.

Every input is held against the same limits: only typed errors of the module, a bound of memory and a bound of
processor time. Inputs are small, so some of them are also read with a slice of them repeated to `STRETCHED_BYTES`,
where what is quadratic shows. What a target verifies beyond that is its own.
"""

from __future__ import annotations

import random
import resource
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 4096
"""Size of an input."""

STRETCHED_BYTES = 64 * 1024
STRETCHED_SHARE = 1 / 16

MAX_SECONDS = 1.0
"""Processor time of one read: 64 KiB take some 50 ms, 100 ms while they are fuzzed, and a quadratic pattern seconds."""

MAX_GROWTH_BYTES = 64 * 2**20
"""Memory by which the process may grow with one input."""

MAX_PEAK_BYTES = 16 * 2**20
"""Memory that Python may have allocated at once for one input; measured where cases are replayed."""


class LimitExceeded(AssertionError):
    """An input takes more time or memory than any input of its size may take."""


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """Code that reads bytes from outside.

    Attributes:
        name: of its folders.
        read: the code under test.
        refusals: the errors that `read` may raise.
        verify: asserts what holds for an input and its outcome: what `read` returned, or the refusal that it raised.
        seeds: yields inputs to start from.
        tokens: words of the format, which the fuzzer inserts.
        mutate: returns another input of the format, beside those that the fuzzer makes; None if it has none.
    """

    name: str
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    verify: Callable[[bytes, Any], None]
    seeds: Callable[[], Iterable[bytes]]
    tokens: tuple[bytes, ...] = ()
    mutate: Callable[[bytes, random.Random], bytes | None] = lambda data, chance: None

    def check(self, data: bytes) -> None:
        """Check one input.

        Raises:
            Exception: it is a finding.
        """
        self.verify(data, self._limited(data))
        chance = randomness(data)
        if data and chance.random() < STRETCHED_SHARE:
            self._limited(stretched(data, chance))

    def outcome(self, read: Callable[[], object]) -> object:
        """Return what a function returned, or the refusal that it raised."""
        try:
            return read()
        except self.refusals as error:
            return error

    def _limited(self, data: bytes) -> object:
        size, begin = _peak_rss(), time.thread_time()
        found = self.outcome(lambda: self.read(data))
        seconds, growth = time.thread_time() - begin, _peak_rss() - size
        if seconds > MAX_SECONDS:  # the first input of a process also pays for imports
            begin = time.thread_time()
            found = self.outcome(lambda: self.read(data))
            seconds = time.thread_time() - begin
        if seconds > MAX_SECONDS:
            raise LimitExceeded(f"{len(data)} bytes took {seconds:.1f} s of processor time")
        if growth > MAX_GROWTH_BYTES:
            raise LimitExceeded(f"{len(data)} bytes took {growth} bytes of memory")
        return found


def randomness(data: bytes) -> random.Random:
    """Return a source of randomness that an input determines, so that it can be replayed."""
    return random.Random(zlib.crc32(data))


def stretched(data: bytes, chance: random.Random) -> bytes:
    """Return an input in which a random slice is repeated up to `STRETCHED_BYTES`."""
    begin = chance.randrange(len(data))
    end = min(len(data), begin + 1 + int(len(data) ** chance.random()))
    return data[:begin] + data[begin:end] * (STRETCHED_BYTES // (end - begin)) + data[end:]


def pieces(data: bytes, chance: random.Random, most: int = 8) -> Iterator[bytes]:
    """Yield an input cut at random places."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(most)))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if begin < end:
            yield data[begin:end]


def _peak_rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
