"""Health of this node's GPUs, written where others act on it, beside all else that the daemon does.

What is off is not imported. A receiver that fails is logged by its reporter, and has no effect on the daemon.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pulsed.collector.connections import condition_target
from pulsed.configuration import Config
from pulsed.model.target_store import TargetStore

if TYPE_CHECKING:
    from pulsed.kubernetes.node_conditions import ConditionTarget, ConditionWriter
    from pulsed.present.health_report import Row

START_SECONDS = 60.0
"""How long after the start nothing is reported while a source has neither delivered nor failed."""


class NodeReports:
    """The reporters that the configuration requires."""

    def __init__(self, store: TargetStore) -> None:
        self._store, self._begin = store, time.monotonic()
        self._of: object = None
        self._target: ConditionTarget | None = None
        self._conditions: ConditionWriter | None = None
        self._is_changed = asyncio.Event()

    @property
    def states(self) -> Mapping[str, bool]:
        """Whether the last report succeeded, by receiver; those that are off are left out."""
        writer = self._conditions
        return {} if writer is None or writer.is_failing is None else {"kubernetes": not writer.is_failing}

    def prepare(self, config: Config) -> Callable[[], None]:
        """Return what puts a configuration in force. Raises `ConfigError` if it cannot be."""
        of = config.kubernetes, config.node, config.source
        target = self._target if of == self._of else condition_target(config)  # with a client, if any

        def apply() -> None:
            self._of, self._target = of, target
            if self._conditions is None and target is not None:
                from pulsed.kubernetes.node_conditions import ConditionWriter
                from pulsed.present.node_conditions import node_conditions

                self._conditions = ConditionWriter(lambda: node_conditions(rows) if (rows := self._rows()) else ())
            if self._conditions is not None:
                self._conditions.configure(target)
            self._is_changed.set()

        return apply

    async def run(self) -> None:
        """Report until cancelled."""
        running: list[asyncio.Task[None]] = []
        try:
            while True:
                self._is_changed.clear()
                if self._conditions is not None and not running:
                    running.append(asyncio.create_task(self._conditions.run()))
                await self._is_changed.wait()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _rows(self) -> Sequence[Row]:
        """Return what `/health/gpus` has now; nothing while a source has not begun."""
        from pulsed.present.api.documents import health_document

        now, targets = time.monotonic(), self._store.targets
        if now < self._begin + START_SECONDS and any(each.tick is None and not each.error for each in targets):
            return ()
        return health_document(self._store, now)
