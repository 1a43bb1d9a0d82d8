"""Health of this node's GPUs as conditions of the node on Kubernetes, beside all else that the daemon does.

What is off is not imported. An API server that fails has no effect on the daemon.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
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
    """The writer of conditions, if the configuration requires one."""

    def __init__(self, store: TargetStore) -> None:
        self._store, self._begin = store, time.monotonic()
        self._of: object = None
        self._target: ConditionTarget | None = None
        self._writer: ConditionWriter | None = None
        self._is_needed = asyncio.Event()

    @property
    def is_up(self) -> bool | None:
        """Whether the last report succeeded; None before the first."""
        if self._writer is None or self._writer.is_failing is None:
            return None
        return not self._writer.is_failing

    def prepare(self, config: Config) -> Callable[[], None]:
        """Return what puts a configuration in force. Raises `ConfigError` if it cannot be."""
        of = config.kubernetes, config.node, config.source
        target = self._target if of == self._of else condition_target(config)  # has a client

        def apply() -> None:
            self._of, self._target = of, target
            if target is not None and self._writer is None:
                from pulsed.kubernetes.node_conditions import ConditionWriter
                from pulsed.present.node_conditions import node_conditions

                self._writer = ConditionWriter(lambda: node_conditions(rows) if (rows := self._rows()) else ())
            if self._writer is not None:
                self._writer.configure(target)
                self._is_needed.set()

        return apply

    async def run(self) -> None:
        """Report until cancelled."""
        await self._is_needed.wait()
        assert self._writer is not None
        await self._writer.run()

    def _rows(self) -> Sequence[Row]:
        """Return what `/health/gpus` has now; nothing while a source has not begun."""
        from pulsed.present.api.documents import health_document

        now, targets = time.monotonic(), self._store.targets
        if now < self._begin + START_SECONDS and any(each.tick is None and not each.error for each in targets):
            return ()
        return health_document(self._store, now)
