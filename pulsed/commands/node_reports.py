"""Health of this node's GPUs, reported where others act on it, beside all else that the daemon does.

What is off is not imported. A receiver that fails has no effect on the daemon.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pulsed.collector.connections import condition_target, nvsentinel_target
from pulsed.configuration import Config
from pulsed.model.target_store import TargetStore

if TYPE_CHECKING:
    from pulsed.kubernetes.node_conditions import ConditionTarget, ConditionWriter
    from pulsed.kubernetes.nvsentinel import NvsentinelMonitor
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
        self._nvsentinel: NvsentinelMonitor | None = None
        self._is_changed = asyncio.Event()

    @property
    def states(self) -> Mapping[str, bool]:
        """Whether the last report succeeded, by receiver, from the first on."""
        reporters = {"kubernetes": self._conditions, "nvsentinel": self._nvsentinel}
        failing = {name: each.is_failing for name, each in reporters.items() if each is not None}
        return {name: not is_failing for name, is_failing in failing.items() if is_failing is not None}

    def prepare(self, config: Config) -> Callable[[], None]:
        """Return what puts a configuration in force. Raises `ConfigError` if it cannot be."""
        of = config.kubernetes, config.node, config.source
        target = self._target if of == self._of else condition_target(config)  # has a client
        connector = nvsentinel_target(config)

        def apply() -> None:
            self._of, self._target = of, target
            if target is not None and self._conditions is None:
                from pulsed.kubernetes.node_conditions import ConditionWriter
                from pulsed.present.node_conditions import node_conditions

                self._conditions = ConditionWriter(lambda: node_conditions(rows) if (rows := self._rows()) else ())
            if connector is not None and self._nvsentinel is None:
                from pulsed.kubernetes.nvsentinel import NvsentinelMonitor
                from pulsed.present.nvsentinel_faults import CHECK_NAMES, OTHER_NAMES, health_faults

                read = lambda: health_faults(rows) if (rows := self._rows()) else None  # noqa: E731
                self._nvsentinel = NvsentinelMonitor(read, CHECK_NAMES, OTHER_NAMES)
            if self._conditions is not None:
                self._conditions.configure(target)
            if self._nvsentinel is not None:
                self._nvsentinel.configure(connector)
            self._is_changed.set()

        return apply

    async def run(self) -> None:
        """Report until cancelled."""
        running: dict[object, asyncio.Task[None]] = {}
        try:
            while True:
                self._is_changed.clear()
                for each in (self._conditions, self._nvsentinel):
                    if each is not None and each not in running:
                        running[each] = asyncio.create_task(each.run())
                await self._is_changed.wait()
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)

    def _rows(self) -> Sequence[Row]:
        """Return what `/health/gpus` has now; nothing while a source has not begun."""
        from pulsed.present.api.documents import health_document

        now, targets = time.monotonic(), self._store.targets
        if now < self._begin + START_SECONDS and any(each.tick is None and not each.error for each in targets):
            return ()
        return health_document(self._store, now)
