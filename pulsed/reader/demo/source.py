"""The demo source: simulated GPUs that do recognisable things, without a GPU, a driver or a network.

It produces a dcgm-exporter's series, so that every later step treats it as real data, and every series states that
it is a demo (model, UUIDs, pods).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from pulsed.errors import ConfigError, ScrapeFailed
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Labels, RawTick
from pulsed.reader.demo import DemoSettings
from pulsed.reader.demo.cluster import GPUS_PER_NODE, NODES, SILENT_AFTER, SILENT_NODE, scenes_of
from pulsed.reader.demo.scenes import SCENES, Scene
from pulsed.reader.demo.simulated_gpu import SimulatedGpu, demo_layout, demo_values, gpu_labels
from pulsed.reader.source import Source, SourceRequest


class Node:
    """A simulated machine: every value at any instant, as a pure function of the seed and the time.

    Args:
        seed: of the noise.
        name: the host name on the page.
        scenes: what its GPUs do.
        first: number of its first GPU among the GPUs of all nodes.
    """

    def __init__(self, seed: int = 0, name: str = "demo", scenes: Sequence[Scene] = SCENES, first: int = 0) -> None:
        self.name, self.scenes = name, scenes
        self._seed, self._first = seed, first
        self._gpus = tuple(SimulatedGpu(scene, f"{seed}/{first + index}") for index, scene in enumerate(scenes))

    def sample(self, t: float) -> list[float]:
        """Read all GPUs `t` seconds (0 or more) after the start, in the order of `demo_layout`."""
        return demo_values([row for gpu in self._gpus for row in gpu.read_rows(t)])

    def labels(self, t: float = 0.0) -> tuple[Labels, ...]:
        """Return the labels of each row at `t` seconds: of GPU, instance and owner."""
        return tuple(
            (*gpu_labels(index, self.name, self._first), *own)
            for index, scene in enumerate(self.scenes)
            for own in scene.row_labels(t, f"{self._seed}/{index}")
        )


class DemoSource(Source):
    """Delivers the demo's ticks, one per interval; tick `n` shows the story at `n * interval` seconds.

    A reader that comes late gets the tick that is due; those it missed are skipped, never delivered in a burst.

    Args:
        seed: of the demo's single machine, as is `node`, its host name.
        machine: another one, by whose name the target is called.
        silent_after: seconds after the start from which it no longer answers.
        start: Unix time of the first tick, from which all others count; None takes the wall clock.
        pace: wait for each tick's time; False delivers them as fast as they are read, stamped as if it had waited.

    Raises:
        ConfigError: the interval is not a positive number of seconds.
    """

    kind = "demo"
    target = "demo"
    failures = (ScrapeFailed,)

    def __init__(
        self,
        seed: int = 0,
        interval: float = 1.0,
        node: str = "demo",
        *,
        machine: Node | None = None,
        silent_after: float = math.inf,
        start: float | None = None,
        pace: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        if not 0.0 < interval < math.inf:
            raise ConfigError(f"source.interval is {interval!r}", "Give a number of seconds above 0, such as 1.")
        self.interval = interval
        if machine is not None:
            self.target = machine.name
        self._node = machine or Node(seed, node)
        self._labels = self._node.labels()
        self._layout = demo_layout(self._labels)
        self._silent_after = silent_after
        self._start = start
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        self._wall = wall
        self._origin: float | None = None
        self._last = -1

    async def read(self) -> RawTick:
        """Wait for the next tick: the first one at once, each other at its time.

        Raises:
            ScrapeFailed: the machine no longer answers.
        """
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
        if elapsed >= self._silent_after:
            raise ScrapeFailed("no answer within 10 s", "Check that the node and its exporter run")
        # A tick delivered late is still stamped with the instant that it shows.
        when = self._wall() - (self._clock() - due) if self._start is None else self._start + elapsed
        if (labels := self._node.labels(elapsed)) != self._labels:
            self._labels, self._layout = labels, demo_layout(labels)
        return RawTick(self.target, Unix(when), Monotonic(due), self.interval, self._layout, self._node.sample(elapsed))


def open_sources(settings: DemoSettings, request: SourceRequest) -> Sequence[DemoSource]:
    """Return one source per node, as `SourceSection` describes."""
    if settings.scene == "node":
        return [DemoSource(settings.seed, settings.interval, request.node)]
    return [
        DemoSource(
            interval=settings.interval,
            machine=Node(settings.seed, name, scenes_of(at), GPUS_PER_NODE * at),
            silent_after=SILENT_AFTER if name == SILENT_NODE else math.inf,
        )
        for at, name in enumerate(NODES)
    ]
