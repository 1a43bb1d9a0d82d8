"""The source `dcgmi`: ticks of a supervised `dcgmi dmon`, merged with the slow fields and the identity of the GPUs.

A stream that fails is an error of this `read`; the next one starts it again after a pause. Background work (the slow
fields, checks for changes) does not delay a tick, and its failures affect only its own results.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pulsed.background_tasks import Backoff
from pulsed.errors import (
    CommandMissing,
    ConfigError,
    HostEngineHung,
    HostEngineUnavailable,
    ProfilingHeld,
    ProfilingUnavailable,
    SourceError,
    StreamBroke,
    StreamHung,
    TooManyGpus,
    WatchRefused,
)
from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch, Labels, Layout, RawTick, RawValue
from pulsed.reader.dcgmi import MIN_INTERVAL, DcgmiSettings
from pulsed.reader.dcgmi.child import find
from pulsed.reader.dcgmi.discovery import (
    NOTHING_KNOWN,
    PROC,
    Topology,
    accepts_connections,
    discover,
    engine_epoch,
    is_outdated,
    merged_layout,
)
from pulsed.reader.dcgmi.partial_profiling import PartialProfiling
from pulsed.reader.dcgmi.stream import DmonStream
from pulsed.reader.dcgmi.watch import SlowWatch, Watch, open_stream
from pulsed.reader.source import Source, SourceRequest
from pulsed.translate.fields import COLUMNS, fields_to_watch, is_profiling, superchip_fields

log = logging.getLogger(__name__)

_ALL_WITH_INSTANCES = "*,*/*"

_NAMELESS_SECONDS = 30.0
"""When to look again if nothing is known of the GPUs, or if a GPU may get MIG instances at any time."""

_MIG_MODE = COLUMNS[67]

_MIN_UPKEEP_SECONDS = 5.0
"""Minimum time between two looks for changes, even where entities come and go all the time."""


class DcgmiSource(Source):
    """The GPUs of one host engine, read by `dcgmi dmon`; `starts` counts successful starts of the fast fields' stream.

    Raises `ConfigError` if no field is requested.
    """

    kind = "dcgmi"
    failures: tuple[type[SourceError], ...] = (
        CommandMissing,
        HostEngineUnavailable,
        HostEngineHung,
        StreamBroke,
        StreamHung,
        TooManyGpus,
        *WatchRefused.__subclasses__(),
    )

    def __init__(
        self,
        settings: DcgmiSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
        proc: Path = PROC,
    ) -> None:
        if not settings.fast:
            raise ConfigError("the source dcgmi has no field to read", "Choose at least one group of fields")
        self._settings, self._clock, self._sleep = settings, clock, sleep
        self.interval = max(settings.interval, MIN_INTERVAL)
        if settings.interval < MIN_INTERVAL:
            log.warning(
                "the interval is too short for DCGM and was raised",
                extra={"asked": settings.interval, "interval": MIN_INTERVAL},
            )
        self.target = settings.host or "localhost"
        self.starts = 0
        self._path = settings.path
        self._patience = settings.patience
        self._pauses = Backoff(settings.first_pause, settings.longest_pause, random)
        self._due = clock()
        self._watch = Watch(settings.fast)
        self._slow_watch = Watch(field for field in settings.slow if field not in settings.fast)
        self._slow = SlowWatch(
            self._slow_watch,
            settings.slow_interval,
            settings.slow_patience,
            lambda fields: self._make(fields, settings.slow_interval),
            Backoff(settings.first_pause, settings.longest_pause, random),
            sleep,
            self._log_lost,
        )
        self._partial = PartialProfiling(
            self.interval,
            self._patience,
            lambda fields, gpus: self._make(fields, self.interval, self._selection_of(gpus)),
            lambda: Backoff(settings.first_pause, settings.longest_pause, random),
            sleep,
            self._log_lost,
        )
        self._stream: DmonStream | None = None
        self._began = 0.0
        self._topology = NOTHING_KNOWN
        self._watches_instances = True
        self._parts: tuple[Layout | None, Layout | None, Topology] = (None, None, NOTHING_KNOWN)
        self._layout: Layout | None = None
        self._entities: frozenset[Labels] = frozenset()
        self._listed: frozenset[Labels] = frozenset()
        self._kept: Sequence[int] | None = None
        self._mig_positions: Sequence[int] = ()
        self._mig_modes: Sequence[RawValue] = ()
        self._upkeep: asyncio.Task[None] | None = None
        self._upkeep_at = self._last_upkeep = 0.0
        self._must_restart = self._is_silent = False
        self._logged_lost: Mapping[str, tuple[int, ...]] = {}
        self._is_closed = False
        self._proc, self._epoch = proc, UNKNOWN_EPOCH

    @property
    def restarts(self) -> int:
        """How often the stream of the fast fields was started again."""
        return max(0, self.starts - 1)

    @property
    def lost(self) -> Mapping[str, tuple[int, ...]]:
        """Requested fields that are unavailable now, by the reason of their error."""
        lost = dict(self._watch.lost)
        if self._partial.is_found:
            lost.pop(ProfilingUnavailable.reason, None)
        for reason, fields in self._slow_watch.lost.items():
            lost[reason] = (*lost.get(reason, ()), *fields)
        return lost

    @property
    def requested(self) -> frozenset[int]:
        """All fields that it requests from these GPUs."""
        return frozenset((*self._watch.requested, *self._slow_watch.requested))

    @property
    def pending(self) -> Collection[int]:
        """Requested fields whose first values have not come yet."""
        unavailable = {field for fields in self._slow_watch.lost.values() for field in fields}
        return () if self._slow.has_values else [f for f in self._slow_watch.requested if f not in unavailable]

    @property
    def is_limited(self) -> bool:
        """Whether another process, most likely a dcgm-exporter, holds the profiling hardware."""
        return ProfilingHeld.reason in self.lost

    @property
    def why(self) -> Mapping[str, str]:
        """By reason, the text of the last refusal, with its remedy."""
        return dict(self._slow_watch.why) | dict(self._watch.why)

    @property
    def pid(self) -> int | None:
        """Process id of the running dmon."""
        return self._stream.pid if self._stream else None

    async def read(self) -> RawTick:
        """Wait for the next tick; starts dcgmi if none runs, after a pause if it failed before.

        Ticks that come at once have waited for pulsed, and are given one by one, each with the time at which it was
        printed. Where that is unknown they are left out, and the time is a gap in the accounting.
        """
        if self._is_closed:
            raise StreamBroke(f"{self.target} is closed", "Create a new source")
        if self._must_restart:
            self._must_restart = False
            await self._stop()
        try:
            arrival = await (self._begin() if self._stream is None else self._stream.next(self._patience))
        except SourceError as error:
            if self._stream is not None:
                await self._stop(in_order=False)
                self._watch.reset()  # whatever comes back may be another engine
                self._slow_watch.reset()
            self._due = self._clock() + self._pauses.next()
            if isinstance(error, StreamHung) and self._is_silent and await accepts_connections(self.target):
                raise HostEngineHung(
                    f"the host engine at {self.target} accepts connections but does not answer: {error.args[0]}",
                    "Restart it (systemctl restart nvidia-dcgm); if it cannot be ended, the driver hangs: drain the "
                    "node and restart it",
                ) from None
            raise
        return self._tick(arrival)

    async def close(self) -> None:
        """End all children. Safe to call twice."""
        self._is_closed = True
        await self._stop()

    async def _begin(self) -> RawTick:
        while (delay := self._due - self._clock()) > 0:
            await self._sleep(delay)
        self._path = find(self._settings.path)
        self._is_silent = False
        before, self._topology = self._topology, await self._identify()
        if before.labels and before != self._topology:
            self._slow.forget()
        if (fields := self._fields()) != self._watch.requested:
            self._watch = Watch(fields)
        while True:
            try:
                self._stream, arrival = await open_stream(
                    self._watch, lambda fields: self._make(fields, self.interval), self._patience, self._sleep
                )
                break
            except WatchRefused as error:
                if type(error) is not WatchRefused or not self._selection():
                    raise
                if self._settings.entities or not self._watches_instances:
                    raise
                log.warning("MIG instances cannot be watched, only whole GPUs", extra={"error": str(error)})
                self._watches_instances = False
                self._watch.reset()
        if self._settings.host is None:  # a dmon ends with its host engine
            engine = await asyncio.to_thread(engine_epoch, self._proc)
            self._epoch = Epoch(engine=engine)
        self.starts += 1
        self._began = self._clock()
        self._schedule_upkeep(Monotonic(self._began))
        self._entities = _entities(arrival.layout)
        self._log_lost()
        self._slow.start()
        gpus = [id_ for entity, id_ in self._topology.labels if entity == "GPU"]
        refused = self._watch.lost.get(ProfilingUnavailable.reason, ())
        if len(gpus) > 1 and any(map(is_profiling, refused)) and not self._settings.entities:
            self._partial.search(gpus, refused)
        return arrival

    async def _identify(self) -> Topology:
        """Return the identity of the GPUs before the first tick; empty if dcgmi fails.

        Raises `CommandMissing` and `HostEngineUnavailable`: retrying would not help.
        """
        try:
            return await self._discover()
        except (CommandMissing, HostEngineUnavailable):
            raise
        except SourceError as error:
            self._is_silent = isinstance(error, StreamHung)
            log.warning("the GPUs have no names and UUIDs", extra={"target": self.target, "error": str(error)})
            return NOTHING_KNOWN

    def _fields(self) -> tuple[int, ...]:
        """Return the fields to request with every tick from the GPUs that are known now."""
        chosen = dict.fromkeys(self._settings.fast)
        for pattern, fields in self._settings.by_model.items():
            if any(re.search(pattern, model) for model in self._topology.models):
                chosen |= dict.fromkeys(fields)
        return tuple(chosen)

    async def _discover(self) -> Topology:
        return await discover((self._path, *self._settings.options()), self._settings.discovery_timeout)

    def _schedule_upkeep(self, now: Monotonic) -> None:
        seconds = self._settings.upkeep_interval
        is_short = not self._topology.labels or any(self._mig_modes)
        self._last_upkeep = now
        self._upkeep_at = now + (min(seconds, _NAMELESS_SECONDS) if is_short else seconds)

    def _make(self, fields: Sequence[int], interval: float, selection: str = "") -> DmonStream:
        selection = selection or self._selection()
        command = (
            self._path,
            "dmon",
            *self._settings.options(),
            *(("-i", selection) if selection else ()),
            "-e",
            ",".join(map(str, fields)),
            "-d",
            str(round(interval * 1000)),
        )
        return DmonStream(command, interval, self._settings.max_gpus, self._clock, time.time, fields)

    def _selection(self) -> str:
        if self._settings.entities:
            return self._settings.entities
        return _ALL_WITH_INSTANCES if self._watches_instances and self._topology.has_instances else ""

    def _selection_of(self, gpus: Sequence[str]) -> str:
        """Return the selection of some GPUs, and of their MIG instances if these are watched."""
        return ",".join((*gpus, *[f"{gpu}/*" for gpu in gpus if self._selection()]))

    def _tick(self, arrival: RawTick) -> RawTick:
        slow_layout, slow_values = self._latest(arrival.clock)
        parts = arrival.layout, slow_layout, self._topology
        if self._layout is None or parts != self._parts:
            self._layout = merged_layout(
                arrival.layout, self._without_gone(arrival.layout, slow_layout), self._topology
            )
            if (entities := _entities(arrival.layout)) != self._entities:  # look for changes of the GPUs soon
                self._entities = entities
                self._upkeep_at = min(self._upkeep_at, self._last_upkeep + _MIN_UPKEEP_SECONDS)
        if parts[0] != self._parts[0]:
            series = enumerate(arrival.layout.series)
            self._mig_positions = [position for position, each in series if each.name == _MIG_MODE]
        self._parts = parts
        modes = [value for position in self._mig_positions if (value := arrival.values[position]) is not None]
        if modes != self._mig_modes:
            self._upkeep_at = self._clock() if self._mig_modes else self._upkeep_at
            self._mig_modes = modes
        self._maintain()
        if self._kept is not None:
            slow_values = [slow_values[position] for position in self._kept]
        values = arrival.values if slow_layout is None else [*arrival.values, *slow_values]
        return replace(arrival, target=self.target, layout=self._layout, values=values, epoch=self._epoch)

    def _latest(self, now: Monotonic) -> tuple[Layout | None, Sequence[RawValue]]:
        """Return the newest values of the other streams, with their layout."""
        slow, slow_values = self._slow.latest(now)
        profiling, values = self._partial.latest(now)
        if slow is None or profiling is None:
            return slow or profiling, [*values, *slow_values]
        return replace(slow, series=(*profiling.series, *slow.series)), [*values, *slow_values]

    def _without_gone(self, layout: Layout, slow: Layout | None) -> Layout | None:
        """Return the slow layout without GPUs that the fast stream listed before and no longer does.

        Their slow values are of before, and would make them GPUs that are listed and do not answer.
        """
        listed = _entities(layout)
        self._listed |= listed
        gone, self._kept = self._listed - listed, None
        if slow is None or not gone:
            return slow
        self._kept = [position for position, each in enumerate(slow.series) if each.labels not in gone]
        return replace(slow, series=tuple(slow.series[position] for position in self._kept))

    def _maintain(self) -> None:
        """Do the background work that is due: reset the pauses, and check for changes of the GPUs."""
        now = Monotonic(self._clock())
        if now - self._began >= self._settings.good_after:
            self._pauses.reset()
        if self._upkeep is not None and self._upkeep.done():
            self._upkeep.result()
            self._upkeep = None
        if now >= self._upkeep_at and self._upkeep is None:
            self._schedule_upkeep(now)
            self._upkeep = asyncio.create_task(self._check_devices(), name="dcgmi: upkeep")

    async def _check_devices(self) -> None:
        """Check whether the GPUs are still the same, and whether lost profiling fields are available again."""
        try:
            before, self._topology = self._topology, await self._discover()
            changed = not self._settings.entities and is_outdated(before, self._topology)
            if changed or self._fields() != self._watch.requested:
                self._must_restart = True
        except SourceError as error:
            log.debug("the GPUs cannot be looked up at the moment", extra={"error": str(error)})
        if not (missed := self._watch.lost_profiling):
            return
        probe = Watch(missed)
        try:
            stream, _ = await open_stream(
                probe, lambda fields: self._make(fields, self.interval), self._patience, self._sleep
            )
        except SourceError as error:
            log.debug("profiling is still unavailable", extra={"error": str(error)})
            return
        await stream.end_now()
        self._watch.restore(probe.attempt())
        self._must_restart = True

    def _log_lost(self) -> None:
        lost = self.lost
        if lost == self._logged_lost:
            return
        self._logged_lost = lost
        if not lost:
            log.info("all fields are available again", extra={"target": self.target})
            return
        log.warning(
            "some fields are unavailable and left out",
            extra={
                "target": self.target,
                "fields": "; ".join(f"{reason}: {' '.join(map(str, fields))}" for reason, fields in lost.items()),
                "why": "; ".join(self.why.values()),
            },
        )

    async def _stop(self, *, in_order: bool = True) -> None:
        """End all children and the background work."""
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            upkeep.cancel()
            await asyncio.wait({upkeep})
        stream, self._stream = self._stream, None
        ends = [self._slow.stop(), self._partial.stop()]
        if stream is not None:
            ends.append(stream.end() if in_order else stream.end_now())
        await asyncio.gather(*ends)


def _entities(layout: Layout) -> frozenset[Labels]:
    return frozenset(series.labels for series in layout.series)


def open_sources(settings: DcgmiSettings, request: SourceRequest) -> Sequence[DcgmiSource]:
    """Return the source, as `SourceSection` describes, with the fields to watch."""
    fast, slow = fields_to_watch(settings.groups, settings.fields)
    by_model = dict.fromkeys(request.superchips, superchip_fields(settings.groups))
    return [DcgmiSource(replace(settings, fast=fast, by_model=by_model, slow=slow))]
