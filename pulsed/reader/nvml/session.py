"""The GPUs of this machine between NVML's initialization and shutdown, read one tick after the other.

Runs in the thread that owns NVML. Handles and samples never outlive the session that they came from.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import ModuleType
from typing import NamedTuple

from pulsed.errors import DriverReleased, NvmlError, SourceError, TooManyGpus
from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import GpuProcess, Layout, RawValue, Series
from pulsed.reader.nvml import NvmlSettings
from pulsed.reader.nvml.calls import RARE
from pulsed.reader.nvml.device import DeviceReader
from pulsed.reader.nvml.device_list import NvmlDevice, list_devices
from pulsed.reader.nvml.library import GONE, RESET_REQUIRED, load_nvml, source_error
from pulsed.reader.nvml.processes import ProcessList
from pulsed.reader.nvml.xids import XidCounts

TARGET = "libnvidia-ml.so.1"

NO_GPUS = 1
"""Flag of `nvmlInitWithFlags`: a machine without a GPU is not an error."""

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 10.0, 300.0
"""Pauses before NVML is initialized again because a GPU does not answer; every second one doubles."""

RELEASE_SECONDS = 0.9
"""Least time between two looks for the release file: with each of ten ticks a second, they would cost as many calls."""

READ_SECONDS = 0.11
"""Least time between two reads of the driver: samples of profiling counters must be more than 0.1 s apart (nvml.h).

At up to 9 Hz it is read with every tick, at 10 Hz with every second one. The tick between repeats the whole previous
sample: old activity with a new clock would count as a new measurement. All time is covered once; counters lose nothing.
"""

XID, _XID_TOTAL = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_TOTAL"
_RECOVERY_ACTION, _RESET = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 1.0


class Sample(NamedTuple):
    """The values of a tick, and processes and lost GPUs as in `RawTick`."""

    layout: Layout
    values: list[RawValue]
    processes: tuple[GpuProcess, ...] | None = None
    lost: frozenset[str] = frozenset()


class _Block(NamedTuple):
    """The series of one device: metrics of its reader and links, then metrics of the XIDs, where it has any."""

    reader: DeviceReader
    names: Sequence[str]
    links: Sequence[str]
    codes: Sequence[int]


class DriverSession:
    """NVML, initialized when the first tick is read, and again after an error.

    Args:
        clock: seconds of a clock that never steps.

    Attributes:
        is_open: whether NVML is initialized and its GPUs are listed; the next tick can be quick. Any thread may read
            it.
        profiling_errors: why GPUs had no profiling counters in the last tick: messages by reason. Any thread may read
            it.
    """

    def __init__(self, settings: NvmlSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._nvml: ModuleType | None = None
        self.is_open = False
        self._devices: list[NvmlDevice] = []
        self._readers: list[DeviceReader] = []
        self._process_lists: list[ProcessList] = []
        self._processes: tuple[GpuProcess, ...] | None = None
        self._xids = XidCounts()
        self._layout: Layout | None = None
        self._blocks: list[_Block] = []
        self._sample: Sample | None = None
        self._sampled = 0.0
        self._laid_out: object = None
        self._list_due = self._release_due = self._places_due = 0.0
        self._lost: frozenset[str] = frozenset()
        self._retry_at: Monotonic | None = None
        self._pause = FIRST_RETRY_SECONDS
        self.profiling_errors: Mapping[str, str] = {}

    def tick(self) -> Sample:
        """Read all GPUs, or return the last sample again, see `READ_SECONDS`.

        Raises:
            SourceError: NVML cannot be used; the next call initializes it again.
            DriverReleased: the release file exists.
            TooManyGpus: there are more than `max_gpus`.
        """
        now = Monotonic(self._clock())
        if now >= self._release_due:
            self._check_release(now)
        if self._sample is not None and now - self._sampled < READ_SECONDS:
            return self._sample
        if self._retry_at is not None and now >= self._retry_at:
            self._pause = min(2.0 * self._pause, MAX_RETRY_SECONDS)
            self.close()
        nvml = self._nvml or load_nvml()
        try:
            if self._nvml is None:
                nvml.nvmlInitWithFlags(NO_GPUS)
                self._nvml = nvml
            self._sample, self._sampled = self._read(nvml, now), now
            return self._sample
        except nvml.NVMLError as error:
            self.close()
            raise source_error(error.value) from error
        except SourceError:
            self.close()
            raise

    def _check_release(self, now: Monotonic) -> None:
        if (file := self._settings.release_file) and os.path.exists(file):
            self.close()
            raise DriverReleased(
                f"the driver is released, because {file} exists", "pulsed reads again when the file is removed"
            )
        self._release_due = now + RELEASE_SECONDS

    def close(self) -> None:
        """Free everything and shut NVML down. Safe to call twice."""
        nvml, self._nvml = self._nvml, None
        if nvml is None:
            return
        self._release(nvml)
        self._devices, self._list_due, self._retry_at = [], 0.0, None
        with contextlib.suppress(nvml.NVMLError):  # the driver may be gone already
            nvml.nvmlShutdown()

    def _read(self, nvml: ModuleType, now: Monotonic) -> Sample:
        if now >= self._list_due:
            self._list(nvml, now)
        for reader in self._readers:
            if not reader.gone:
                reader.read(now)
        errors = [reader.profiling_error for reader in self._readers if reader.profiling_error is not None]
        self.profiling_errors = {error.reason: str(error) for error in errors}
        self._list_processes(now)
        with_xids = self._xids.poll()
        self._handle_gone(now)
        layout = self._updated_layout()
        values: list[RawValue] = []
        for reader, names, links, codes in self._blocks:
            values += map(reader.values.__getitem__, names)
            if links and reader.links is not None:
                values += [None if reader.gone else reader.links.values.get(name) for name in links]
            if codes:
                is_shown = not reader.gone or reader.device.uuid in with_xids
                values += self._xids.values(reader.device.uuid, codes) if is_shown else [None] * (1 + len(codes))
        if self._readers and not any(reader.gone or reader.has_values for reader in self._readers):
            raise NvmlError("NVML answers no call for any GPU", "Check nvidia-smi and dmesg")
        answering = {reader.device.uuid for reader in self._readers if not reader.gone}
        self._lost = (self._lost | {device.uuid for device in self._devices}) - answering
        return Sample(layout, values, self._processes, self._lost)

    def _list(self, nvml: ModuleType, now: Monotonic) -> None:
        """List GPUs and MIG instances; reopen them if any came or went, or if events may be lost."""
        self._list_due = now + self._settings.slow_interval
        is_due = now >= self._places_due
        self._places_due = now + RARE if is_due else self._places_due
        devices, is_any_gone = list_devices(nvml, self._devices, rereads_place=is_due)
        if len(devices) > self._settings.max_gpus:
            raise TooManyGpus(self._settings.max_gpus, TARGET)
        if is_any_gone:
            self._retry(now)
        else:
            self._lost = frozenset()
        if devices == self._devices and self._readers and not self._xids.has_failed:
            return
        self._release(nvml)
        boards = [device for device in devices if device.is_board]
        instances = [device for device in devices if not device.is_board]
        split = {device.uuid for device in instances}
        for place, device in enumerate(devices, 1):
            is_split, offset = device.uuid in split, place / len(devices)
            try:
                reader = DeviceReader(nvml, device, settings=self._settings, is_split=is_split, offset=offset)
            except nvml.NVMLError as error:  # of one GPU
                if error.value not in GONE:
                    raise
                self._retry(now)
            else:
                self._readers.append(reader)
        self._devices = devices
        self._xids.listen(nvml, boards)
        for place, board in enumerate(boards, 1):
            own = [instance for instance in instances if instance.uuid == board.uuid]
            first = place / len(boards)
            self._process_lists.append(ProcessList(nvml, board, own, self._settings.slow_interval, first))
        self.is_open = True

    def _list_processes(self, now: Monotonic) -> None:
        """List the processes of the GPUs that are due; unknown as long as a GPU has no list."""
        gone = {reader.device.uuid for reader in self._readers if reader.gone}
        remaining = [each for each in self._process_lists if each.uuid not in gone]
        has_fewer, self._process_lists = len(remaining) < len(self._process_lists), remaining
        is_new = [each.read(now) for each in remaining]
        if has_fewer or any(is_new):
            lists = [each.processes for each in remaining]
            self._processes = None if None in lists else tuple(chain.from_iterable(part or () for part in lists))

    def _release(self, nvml: ModuleType) -> None:
        """Free what was made from the list of devices."""
        for reader in self._readers:
            with contextlib.suppress(nvml.NVMLError):
                reader.close()
        self._xids.close()
        self._readers, self._blocks, self._layout, self.is_open = [], [], None, False
        self._sample = None
        self._process_lists, self._processes = [], None

    def _handle_gone(self, now: Monotonic) -> None:
        gone = [reader for reader in self._readers if reader.gone]
        if gone:
            self._retry(now)
        elif self._retry_at is None:
            self._pause = FIRST_RETRY_SECONDS
        for reader in gone:
            if reader.gone == RESET_REQUIRED and reader.device.is_board:
                reader.values[_RECOVERY_ACTION] = _RESET

    def _retry(self, now: Monotonic) -> None:
        if self._retry_at is None:
            self._retry_at = Monotonic(now + self._pause)

    def _updated_layout(self) -> Layout:
        """Return the layout; a new one if there are new XIDs, or if the driver has refused profiling counters."""
        state = (
            self._xids.revision,
            [(reader.counters, reader.links and reader.links.names) for reader in self._readers],
        )
        if self._layout is not None and state == self._laid_out:
            return self._layout
        series: list[Series] = []
        self._laid_out, self._blocks = state, []
        for reader in self._readers:
            device, names = reader.device, reader.names
            series += [Series(name, device.labels) for name in names]
            links = reader.links.names if reader.links is not None else ()
            series += [Series(*reader.links.labels(name)) for name in links if reader.links is not None]
            codes = self._xids.codes(device.uuid) if device.is_board else ()
            if codes:
                series.append(Series(XID, device.labels))
            for code in codes:  # 0 has no label: no XID so far
                labels = (*device.labels, ("xid", str(code))) if code else device.labels
                series.append(Series(_XID_TOTAL, labels))
            self._blocks.append(_Block(reader, names, links, codes))
        self._layout = Layout("exporter", tuple(series))
        return self._layout
