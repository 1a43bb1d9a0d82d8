"""One source through the layers onto the board, for as long as the daemon lives."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from pulsed.collector.device_filter import DeviceFilter
from pulsed.collector.target_store import Target
from pulsed.compute.derive import ComputeSettings
from pulsed.compute.health.judge import HealthEvaluator
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.tick import ComputedTick
from pulsed.config.gpu_selection import EVERYTHING, GpuSelection
from pulsed.errors import SourceEnded, SourceError
from pulsed.reader.tick import RawTick, Source
from pulsed.translate.translator import Translator

log = logging.getLogger(__name__)

Observe = Callable[[str, float], None]
"""Takes a layer's name and the seconds that it spent on a tick."""

RETRY_SECONDS = 1.0
"""A failed attempt is never followed by the next one sooner than this, or than the source's interval if less."""


class Pipeline:
    """Translate and Compute for one source; keeps what they remember between ticks.

    Args:
        settings: for Compute.
        node: the host of GPUs whose source does not say where they are.
        observe: takes the seconds that each layer spends.
        selection: the GPUs to compute; the others are left out.
        boot_id: of the node that all GPUs are in, if they are.
    """

    def __init__(
        self,
        settings: ComputeSettings,
        node: str,
        observe: Observe = lambda layer, seconds: None,
        selection: GpuSelection = EVERYTHING,
        boot_id: str = "",
    ) -> None:
        self._chosen = DeviceFilter(selection)
        self._computer = ComputeLayer(settings, boot_id)
        self._translator = Translator(node)
        self._observe = observe

    def reconfigure(self, settings: ComputeSettings, selection: GpuSelection) -> None:
        """Compute so, and these GPUs, from the next tick on; what was counted stays."""
        self._chosen = DeviceFilter(selection)
        self._computer.reconfigure(settings)

    @property
    def judge(self) -> HealthEvaluator:
        """The judge of health, whose latches outlive a restart."""
        return self._computer.judge

    def process(self, raw: RawTick) -> ComputedTick:
        """Take a tick through both layers."""
        if raw.read_seconds:
            self._observe("read", raw.read_seconds)
        start = time.perf_counter()
        canonical = self._chosen.of(self._translator.translate(raw))
        translated = time.perf_counter()
        computed = self._computer.compute(canonical)
        self._observe("translate", translated - start)
        self._observe("compute", time.perf_counter() - translated)
        return computed


class Collector:
    """Reads one source without end and puts what comes onto its place on the board.

    A failing source costs its own target only, and a tick that pulsed itself cannot digest is a failure of that tick.

    Args:
        source: what to read; closed when the feed ends.
        pipeline: takes its ticks through the layers.
        target: its place on the board.
        also: called with every tick that was put there.
        patient: try again for ever; false ends the feed when the very first attempt fails.
    """

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        target: Target,
        also: Callable[[ComputedTick], None] = lambda tick: None,
        *,
        patient: bool = True,
    ) -> None:
        self._source = source
        self._pipeline = pipeline
        self._target = target
        self._also = also
        self._patient = patient
        self._restarts = target.restarts
        self._reported = ""
        self._rejected: set[str] = set()

    async def run(self) -> None:
        """Feed until the source ends or the task is cancelled."""
        try:
            while await self._once():
                pass
        finally:
            await self._source.close()

    async def _once(self) -> bool:
        started = time.monotonic()
        try:
            raw = await self._source.read()
            self._target.restarts = self._restarts + self._source.restarts
            self._target.follow(self._source.kind, self._source.target, self._source.interval)
            tick = self._pipeline.process(raw)
        except SourceEnded as end:
            self._target.end(str(end))
            log.info("source ended", extra={"target": self._target.name, "reason": str(end)})
            return False
        except SourceError as error:
            self._failed(error.reason, str(error))
        except Exception as error:
            log.exception("pulsed could not digest a tick; please report this", extra={"target": self._target.name})
            self._failed("internal", f"internal error: {error!r}")
        else:
            self._target.accept(tick, time.monotonic())
            self._worked(raw)
            self._also(tick)
            await asyncio.sleep(0)  # a source that never waits must not keep the others from running
            return True
        if not self._patient and not self._target.samples:
            return False
        pause = min(RETRY_SECONDS, self._source.interval) - (time.monotonic() - started)
        await asyncio.sleep(max(0.0, pause))
        return True

    def _failed(self, reason: str, message: str) -> None:
        self._target.fail(reason, message)
        if message != self._reported:
            log.warning("source failed", extra={"target": self._target.name, "reason": reason, "error": message})
            self._reported = message

    def _worked(self, raw: RawTick) -> None:
        if self._reported:
            log.info("source works again", extra={"target": self._target.name})
            self._reported = ""
        for reason in raw.rejected.keys() - self._rejected:
            self._rejected.add(reason)
            log.warning(
                "rows were left out; said once for each reason, counted in pulsed_source_rejected_rows_total",
                extra={"target": self._target.name, "reason": reason, "rows": raw.rejected[reason]},
            )
