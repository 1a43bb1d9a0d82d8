"""The running feeds of a daemon, which follow the configuration: started, changed and stopped as one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pulsed.collector.collector import Collector, Observe, Pipeline
from pulsed.collector.source_factory import boot_id_of, node_name, open_sources, selection_of, target_of
from pulsed.collector.state_file import SavedHealth
from pulsed.collector.target_store import Target, TargetStore
from pulsed.compute.health.judge import HealthEvaluator
from pulsed.compute.tick import ComputedTick
from pulsed.config import Config
from pulsed.reader.tick import Source


@dataclass(slots=True)
class _Running:
    """One feed: its source and place on the board, what it remembers, and the task that reads."""

    source: Source
    target: Target
    pipeline: Pipeline
    task: asyncio.Task[None]

    async def end(self) -> None:
        """Stop reading and close the source, also if the feed never came to run."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.source.close()


class CollectorPool:
    """All feeds of the daemon.

    Args:
        board: what the feeds write; its targets are replaced by `follow`.
        observe: takes the seconds that each layer spends.
        also: called with every tick that was put on the board.
        latches: what was kept of the health of every target; None: nothing is.
    """

    def __init__(
        self,
        board: TargetStore,
        observe: Observe,
        also: Callable[[ComputedTick], None],
        latches: SavedHealth | None = None,
    ) -> None:
        self._board, self._observe, self._also, self._latches = board, observe, also, latches
        self._config: Config | None = None
        self._running: dict[tuple[str, str], _Running] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, config: Config) -> None:
        """Read and compute what the configuration says from now on.

        Counters and all that is remembered of a target stay as long as the configuration names it. Sources whose
        section is as before go on undisturbed.

        Raises:
            ConfigError: a source cannot be made; then nothing has changed.
        """
        before, settings, selection = self._config, config.compute_settings(), selection_of(config, {})
        if before is None or (before.source, before.node) != (config.source, config.node):
            self._replace(config, open_sources(config))
        for running in self._running.values():
            running.pipeline.reconfigure(settings, selection)
        self._config = config

    @property
    def judges(self) -> Mapping[str, HealthEvaluator]:
        """The judges of health by the name of their target."""
        return {" ".join(key): running.pipeline.judge for key, running in self._running.items()}

    async def stop(self) -> None:
        """End all feeds and close their sources."""
        for running in self._running.values():
            self._end(running)
        self._running.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _replace(self, config: Config, sources: Sequence[Source]) -> None:
        node, settings, selection = node_name(config), config.compute_settings(), selection_of(config, {})
        same_node = self._board.node == node
        known, self._running = self._running, {}
        for source in sources:
            key = (source.kind, source.target)
            target, old = target_of(source, config), known.pop(key, None)
            pipeline = Pipeline(settings, node, self._observe, selection, boot_id_of(config))
            closing: asyncio.Task[None] | None = None
            if old is not None:
                closing = self._end(old)
                if same_node:
                    pipeline = old.pipeline
                    target.succeed(old.target)
            if self._latches is not None and (old is None or pipeline is not old.pipeline):
                self._latches.restore(" ".join(key), pipeline.judge, time.time())
            feed = Collector(source, pipeline, target, self._also)
            task = asyncio.create_task(_run(feed, closing), name=target.name)
            self._running[key] = _Running(source, target, pipeline, task)
        for gone in known.values():
            self._end(gone)
        self._board.node = node
        self._board.replace([running.target for running in self._running.values()])

    def _end(self, running: _Running) -> asyncio.Task[None]:
        closing = asyncio.create_task(running.end())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing


async def _run(feed: Collector, before: asyncio.Task[None] | None) -> None:
    """Wait for the end of the feed that this one replaces: what it reads may be there only once (a child, a file)."""
    if before is not None:
        await asyncio.wait([before])
    await feed.run()
