"""The demo source: eight simulated GPUs that do recognisable things, without a GPU, a driver or a network.

It produces a dcgm-exporter's series, so that every later step treats it as real data, and every series states that
it is a demo (model, UUIDs, pods).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from pulsed.errors import ConfigError
from pulsed.model.raw_tick import RawTick
from pulsed.reader.demo import DemoSettings
from pulsed.reader.demo.scenes import SCENES
from pulsed.reader.demo.simulated_gpu import SimulatedGpu, demo_layout, demo_values, owner_labels
from pulsed.reader.source import Source, SourceRequest


class Node:
    """The simulated machine: every value at any instant, as a pure function of the seed and the time."""

    def __init__(self, seed: int = 0) -> None:
        self._gpus = tuple(SimulatedGpu(scene, f"{seed}/{index}") for index, scene in enumerate(SCENES))

    def sample(self, t: float) -> list[float]:
        """Read all GPUs `t` seconds (0 or more) after the start, in the order of `demo_layout`."""
        return demo_values([gpu.read(t) for gpu in self._gpus])


class DemoSource(Source):
    """Delivers the demo's ticks, one per interval; tick `n` shows the story at `n * interval` seconds.

    A reader that comes late gets the tick that is due; those it missed are skipped, never delivered in a burst.

    Args:
        node: the host name on the page.
        start: Unix time of the first tick, from which all others count; None takes the wall clock.
        pace: wait for each tick's time; False delivers them as fast as they are read, stamped as if it had waited.

    Raises:
        ConfigError: the interval is not a positive number of seconds.
    """

    kind = "demo"
    target = "demo"

    def __init__(
        self,
        seed: int = 0,
        interval: float = 1.0,
        node: str = "demo",
        *,
        start: float | None = None,
        pace: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        if not 0.0 < interval < math.inf:
            raise ConfigError(f"source.interval is {interval!r}", "Give a number of seconds above 0, such as 1.")
        self.interval = interval
        self._node = Node(seed)
        self._seed, self._name = seed, node
        self._owners = owner_labels(0.0, seed)
        self._layout = demo_layout(node, self._owners)
        self._start = start
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        self._wall = wall
        self._origin: float | None = None
        self._last = -1

    async def read(self) -> RawTick:
        """Wait for the next tick: the first one at once, each other at its time."""
        if self._origin is None:
            self._origin = self._clock() if self._pace else 0.0
            if self._start is None and not self._pace:
                self._start = self._wall()
        number = self._last + 1
        if self._pace:
            number = max(number, math.floor((self._clock() - self._origin) / self.interval))
        elapsed = number * self.interval
        due = self._origin + elapsed
        # Sleeps even when nothing is to be waited for: other tasks get their turn between any two ticks.
        await self._sleep(max(0.0, due - self._clock()) if self._pace else 0.0)
        self._last = number
        # A tick delivered late is still stamped with the instant that it shows.
        when = self._wall() - (self._clock() - due) if self._start is None else self._start + elapsed
        if (owners := owner_labels(elapsed, self._seed)) != self._owners:
            self._owners, self._layout = owners, demo_layout(self._name, owners)
        return RawTick(self.target, when, due, self.interval, self._layout, self._node.sample(elapsed))


def open_sources(settings: DemoSettings, request: SourceRequest) -> Sequence[DemoSource]:
    """Return the source, as `SourceSection` describes."""
    return [DemoSource(settings.seed, settings.interval, request.node)]
