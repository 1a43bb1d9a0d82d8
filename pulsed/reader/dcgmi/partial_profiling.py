"""The profiling fields of the GPUs that have them, on a node where one GPU has none.

The engine then refuses these fields for all GPUs together, so that they need a stream of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pulsed.background_tasks import Backoff
from pulsed.errors import SourceError
from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import Layout, RawValue
from pulsed.reader.dcgmi.stream import DmonStream
from pulsed.reader.dcgmi.watch import SlowWatch, Watch, open_stream

log = logging.getLogger(__name__)


class PartialProfiling:
    """Finds the GPUs with profiling fields, and reads these.

    Args:
        interval: seconds between two ticks.
        patience: seconds without a tick after which a child counts as hung.
        make: starts a stream of fields of some GPUs.
        pauses: returns the pauses before a stream that failed is started again.
        on_start: called when the stream has started.
    """

    def __init__(
        self,
        interval: float,
        patience: float,
        make: Callable[[Sequence[int], Sequence[str]], DmonStream],
        pauses: Callable[[], Backoff],
        sleep: Callable[[float], Awaitable[object]],
        on_start: Callable[[], None],
    ) -> None:
        self._interval, self._patience, self._make = interval, patience, make
        self._pauses, self._sleep, self._on_start = pauses, sleep, on_start
        self._search: asyncio.Task[None] | None = None
        self._watch: SlowWatch | None = None

    @property
    def is_found(self) -> bool:
        """Whether some GPUs have the fields."""
        return self._watch is not None

    def search(self, gpus: Sequence[str], fields: Sequence[int]) -> None:
        """Begin to look for GPUs with the fields, in the background."""
        self._search = asyncio.create_task(self._find(gpus, fields), name="dcgmi: profiling")

    def latest(self, now: Monotonic) -> tuple[Layout | None, Sequence[RawValue]]:
        """Return the newest layout and values, as `SlowWatch` does; without a layout if no GPU has the fields."""
        if self._search is not None and self._search.done():
            self._search.result()  # re-raise an error of pulsed itself
        return (None, ()) if self._watch is None else self._watch.latest(now)

    async def stop(self) -> None:
        """End the search and the stream, and forget both."""
        search, self._search = self._search, None
        if search is not None:
            search.cancel()
            await asyncio.wait({search})
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.stop()

    async def _find(self, gpus: Sequence[str], fields: Sequence[int]) -> None:
        able = [gpu for gpu in gpus if await self._has(gpu, fields)]
        if able:
            log.info("profiling fields are read from some GPUs only", extra={"gpus": " ".join(able)})
            self._watch = SlowWatch(
                Watch(fields),
                self._interval,
                self._patience,
                lambda attempt: self._make(attempt, able),
                self._pauses(),
                self._sleep,
                self._on_start,
            )
            self._watch.start()

    async def _has(self, gpu: str, fields: Sequence[int]) -> bool:
        try:
            stream, _ = await open_stream(
                Watch(fields), lambda attempt: self._make(attempt, [gpu]), self._patience, self._sleep
            )
        except SourceError as error:
            log.debug("a GPU without profiling fields", extra={"gpu": gpu, "error": str(error)})
            return False
        await stream.end_now()
        return True
