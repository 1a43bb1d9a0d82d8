"""Collects one source: its ticks pass through Translate, the filter of GPUs and Compute, and go to its target."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from itertools import compress
from socket import gethostname
from typing import NamedTuple

from pulsed.background_tasks import aligned_sleep
from pulsed.collector.this_host import HostEpoch
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.layer import ComputeLayer
from pulsed.errors import NoGpus, SourceEnded, SourceError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device
from pulsed.model.gpu_selection import EVERYTHING, GpuSelection, SelectableGpu
from pulsed.model.host import HostFacts
from pulsed.model.raw_tick import MAX_GPUS, KernelEvent, Layout, RawTick
from pulsed.model.target_store import Target
from pulsed.model.tick import Tick
from pulsed.owners.attribution import Attribution, OwnerLookup
from pulsed.reader.kernel_log import KMSG
from pulsed.reader.kernel_log.log_reader import KernelLogReader
from pulsed.reader.source import Source, SourceLog, internal_error
from pulsed.translate.identity import is_same_host
from pulsed.translate.translator import Translator

log = logging.getLogger(__name__)

NO_GPUS_REMEDY = "Run nvidia-smi -L on its node, and restart the exporter or the host engine if that lists GPUs"

NO_SERIES = Layout("exporter", ())

MIN_LOG_SECONDS = 1.0
"""Shortest time between two reads of the kernel log of a source that delivers nothing."""

BALANCED = (
    "the pages of this address name other hosts in turns, so that some GPUs are always missing: give each exporter an"
    " address of its own in source.exporter.targets, or run a daemon per node"
)
"""Log message for an address behind which several exporters take turns."""

NO_LOG_SECONDS = 60.0
"""Time between two looks whether a reload has added a kernel log."""

Observe = Callable[[str, float], None]
"""Takes a layer's name and the seconds that it spent on a tick."""


class PipelineSettings(NamedTuple):
    """What a source's ticks are made of.

    Attributes:
        selection: the GPUs to show.
        max_gpus: most GPUs and MIG instances of a tick; more of them are an error.
        exporter_pods: patterns of pods that own nothing.
        kernel_log: path of the kernel log of that node; empty: it is not read.
    """

    selection: GpuSelection = EVERYTHING
    max_gpus: int = MAX_GPUS
    exporter_pods: Sequence[str] = ()
    kernel_log: str = ""


EVERY_GPU = PipelineSettings()


class Pipeline:
    """Translate and Compute for one source; keeps what they remember between ticks.

    Args:
        table: the states of all GPUs of the process.
        node: the host of GPUs whose source does not name a host.
        observe: takes the seconds that each layer spends.
        settings: as for `configure`.
        host_epoch: of this host, if the source is on it; it counts only for GPUs whose source names this host or none.
        attribution: of this host; None: only the owners that the source itself names.
        host: returns the last look at this host.

    Attributes:
        computer: Compute for this source.
    """

    def __init__(
        self,
        table: GpuTable,
        node: str,
        observe: Observe = lambda layer, seconds: None,
        settings: PipelineSettings = EVERY_GPU,
        host_epoch: HostEpoch | None = None,
        attribution: Attribution | None = None,
        host: Callable[[], HostFacts | None] = lambda: None,
    ) -> None:
        self.computer = ComputeLayer(table, node)
        self._host_epoch, self._names = host_epoch, (node, gethostname())
        self._host = host
        self._nodes: set[str] = set()
        self._is_here = True
        self._translator = Translator(node)
        self._attribution = attribution or Attribution()
        self._owners = OwnerLookup(self._attribution, node)
        self._observe = observe
        self._kernel_path = ""
        self._kernel_log: KernelLogReader | None = None
        self.configure(settings)

    def configure(self, settings: PipelineSettings) -> None:
        """Process ticks by these settings from the next one on; counters continue."""
        self._translator.configure(settings.max_gpus, settings.exporter_pods)
        self._chosen = DeviceFilter(settings.selection)
        self.computer.watch(self._chosen.selects)
        self._set_kernel_log(settings.kernel_log)

    @property
    def health_evaluator(self) -> HealthEvaluator:
        """The evaluator of health, whose latches outlive a restart."""
        return self.computer.health_evaluator

    @property
    def candidates(self) -> Sequence[SelectableGpu]:
        """The devices of the last tick, before filtering; empty while everything is selected."""
        return self._chosen.candidates

    @property
    def kernel_log_error(self) -> str | None:
        """Why the kernel log cannot be read; empty while it is read, None where it is not to be read."""
        return None if self._kernel_log is None else self._kernel_log.error

    async def read_kernel_log(self) -> None:
        """Read a kernel log that is a file in a thread, for the next tick."""
        if self._kernel_log is not None:
            await self._kernel_log.read()

    def close(self) -> None:
        """Close the kernel log."""
        self._set_kernel_log("")

    def forget(self) -> None:
        """Close the kernel log, and let other targets continue the GPUs of this one."""
        self.close()
        self.computer.close()

    def _set_kernel_log(self, path: str) -> None:
        if path == self._kernel_path:
            return
        if self._kernel_log is not None:
            self._kernel_log.close()
        self._kernel_path, self._kernel_log = path, KernelLogReader(path) if path else None

    def process_kernel_log(self, target: str, interval: float, *, is_shown: bool) -> Tick | None:
        """Return a tick without samples for a source that delivers none: with the GPUs that the kernel log names.

        Args:
            target: name of the source's target.
            interval: of the source, in seconds.
            is_shown: whether the newest tick is also one of the kernel log, which must be continued.

        Returns:
            None if the kernel log has nothing about GPUs that the source had.
        """
        now = Unix(time.time())
        events = None if self._kernel_log is None else self._kernel_events(self._kernel_log, Unix(now - 2.0 * interval))
        if events is None or not (is_shown or self.health_evaluator.concern(events)):
            self.health_evaluator.defer(events or ())
            return None
        raw = RawTick(target, now, Monotonic(time.monotonic()), interval, NO_SERIES, ())
        try:
            return self.process(raw, events)
        except NoGpus:
            return None

    def process(self, raw: RawTick, kernel_events: tuple[KernelEvent, ...] | None = None) -> Tick:
        """Take a tick through both layers.

        Args:
            kernel_events: of the kernel log since the last tick; None to read the log, if present.

        Raises:
            NoGpus: it has no GPU, and none that it had before is known to be lost.
        """
        if kernel_events is None and self._kernel_log is not None:
            kernel_events = self._kernel_events(self._kernel_log, Unix(raw.time - 2.0 * raw.interval))
        if raw.read_seconds:
            self._observe("read", raw.read_seconds)
        if raw.processes is not None:
            self._attribution.gpu_processes.update(raw.processes)
        start = time.perf_counter()
        tick = self._translator.translate(raw, kernel_events)
        self._chosen.apply(tick)
        self._owners.add_owners(tick)
        translated = time.perf_counter()
        if self._host_epoch is not None and self._are_here(tick):
            tick.epoch, tick.host = self._host_epoch.completed(raw.epoch), self._host()
        self.computer.compute(tick)
        self._observe("translate", translated - start)
        self._observe("compute", time.perf_counter() - translated)
        if not tick.lists_gpus and not tick.gpus:
            raise NoGpus(f"{raw.target}: lists no GPU", NO_GPUS_REMEDY)
        return tick

    def _are_here(self, tick: Tick) -> bool:
        """Return whether all GPUs of a tick are in this host."""
        nodes = {row.device.entity.node for row in tick.gpus}
        if nodes != self._nodes:
            self._nodes = nodes
            self._is_here = all(any(is_same_host(node, name) for name in self._names) for node in nodes)
        return self._is_here

    @staticmethod
    def _kernel_events(kernel_log: KernelLogReader, since: Unix) -> tuple[KernelEvent, ...] | None:
        """Return what the kernel log has had since the last tick; None where it cannot be read.

        Errors of NVSwitches since a time in Unix seconds are logged: they belong to no single GPU.
        """
        events = kernel_log.poll()
        for event in events or ():
            if event.kind == "sxid" and event.time >= since:
                level = logging.ERROR if event.is_fatal else logging.WARNING
                extra = {"sxid": event.code, "pci_bus_id": event.pci_bus_id, "text": event.text}
                log.log(level, "NVSwitch error", extra=extra)
        return events


class Collector:
    """Reads one source and stores what it delivers in its target.

    A source that fails affects its own target only.

    Args:
        until: evaluated after every attempt; true ends the collector. By default it runs until the source ends.
        is_logged: whether failures and the end of the source are logged.
    """

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        target: Target,
        on_tick: Callable[[Tick], None] = lambda tick: None,
        until: Callable[[Target], bool] = lambda target: False,
        *,
        is_logged: bool = True,
    ) -> None:
        self._source, self._pipeline, self._target = source, pipeline, target
        self._on_tick, self._until, self._is_logged = on_tick, until, is_logged
        self._log = SourceLog(is_logged=is_logged)
        self._restarts = target.restarts
        self._sharing = frozenset[str](), False

    async def run(self) -> None:
        """Collect until the source ends, `until` is true, or the task is cancelled."""
        following = asyncio.create_task(self._follow_kernel_log())
        try:
            async with self._source as source:
                async for outcome in source:
                    if isinstance(outcome, SourceError):
                        self._fail(outcome)
                    else:
                        await self._pipeline.read_kernel_log()
                        self._process(outcome)
                    if self._until(self._target):
                        return
        finally:
            following.cancel()

    async def _follow_kernel_log(self) -> None:
        """Read the kernel log of this machine, if present, even while the source delivers nothing."""
        while True:
            has_log = self._pipeline.kernel_log_error is not None
            await aligned_sleep(max(self._target.interval, MIN_LOG_SECONDS if has_log else NO_LOG_SECONDS))
            if has_log and not self._target.delivers(Monotonic(time.monotonic())):
                await self._pipeline.read_kernel_log()
                self._take_kernel_log()

    def _take_kernel_log(self) -> None:
        """Show the GPUs of a source without samples that the kernel log names, with their health."""
        target = self._target
        try:
            tick = self._pipeline.process_kernel_log(target.name, target.interval, is_shown=not target.is_sampled)
        except Exception as error:  # noqa: BLE001 (logged with its traceback)
            internal_error(error, target.name)
            return
        self._note_kernel_log(self._pipeline.kernel_log_error)
        if tick is not None:
            target.show(tick, Monotonic(time.monotonic()))
            self._on_tick(tick)

    def _process(self, raw: RawTick) -> None:
        """Process a tick and store the result. An error costs this tick only."""
        source, target = self._source, self._target
        target.set_source(source.kind, source.target, source.interval, self._restarts + source.restarts)
        try:
            tick = self._pipeline.process(raw)
            self._note_kernel_log(self._pipeline.kernel_log_error)
        except SourceError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 (logged with its traceback)
            self._fail(internal_error(error, source.target))
        else:
            self._log.worked(raw, is_empty=not tick.gpus)
            self._note_sharing(tick)
            target.accept(tick, Monotonic(time.monotonic()))
            self._on_tick(tick)

    def _note_sharing(self, tick: Tick) -> None:
        """Log when other targets have GPUs of this one, and when an address leads to several exporters."""
        others, hosts = frozenset(tick.duplicates), tick.alternating_hosts
        before, self._sharing = self._sharing, (others, bool(hosts))
        if not self._is_logged:
            return
        for other in sorted(others - before[0]):
            log.warning(
                "two targets have the same GPUs; the first one that delivers them is read, remove the other",
                extra={"target": other, "other_target": tick.target, "gpus": tick.duplicates[other]},
            )
        if hosts and not before[1]:
            log.warning(BALANCED, extra={"target": tick.target, "hosts": ", ".join(hosts)})

    def _fail(self, error: SourceError) -> None:
        self._log.failed(self._source.target, error)
        if isinstance(error, SourceEnded):
            self._target.end(str(error))
        else:
            self._target.fail(error.reason, str(error))

    def _note_kernel_log(self, error: str | None) -> None:
        """Store why the kernel log cannot be used, and log when that begins and ends."""
        before, self._target.kernel_log_error = self._target.kernel_log_error, error
        if not self._is_logged or bool(error) == bool(before):
            return
        if error:
            is_expected = error.startswith(KMSG)  # `auto` reads it where that is allowed
            log.log(
                logging.INFO if is_expected else logging.WARNING,
                "XIDs are not read from the kernel log",
                extra={"target": self._target.name, "error": error},
            )
        else:
            log.info("XIDs are read from the kernel log again", extra={"target": self._target.name})


class DeviceFilter:
    """A selection, applied to the ticks of one source."""

    def __init__(self, selection: GpuSelection) -> None:
        self._selection = selection
        self._all: Sequence[Device] = ()
        self._mask: tuple[bool, ...] = ()

    @property
    def candidates(self) -> Sequence[SelectableGpu]:
        """The devices of the last tick, before filtering; empty while everything is selected."""
        return [_candidate(device) for device in self._all]

    def selects(self, device: Device) -> bool:
        """Return whether a device would be selected."""
        return self._selection.everything or self._selection.among([_candidate(device)])[0]

    def apply(self, tick: Tick) -> None:
        """Take the devices that are not chosen out of a tick."""
        if self._selection.everything:
            return
        if (devices := tick.devices) != self._all:
            self._all = devices
            self._mask = self._selection.among([_candidate(device) for device in devices])
        tick.gpus = list(compress(tick.gpus, self._mask))


def _candidate(device: Device) -> SelectableGpu:
    entity = device.entity
    return SelectableGpu(entity.gpu, entity.uuid, device.mig_uuid, entity.mig_id)
