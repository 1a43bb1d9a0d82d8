"""The GPUs of this machine between NVML's initialization and shutdown, read one tick after the other.

Runs in the thread that owns NVML. Handles and samples never outlive the session that they came from.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from types import ModuleType
from typing import NamedTuple

from pulsed.errors import DriverReleased, NvmlError, SourceError, TooManyGpus
from pulsed.model.raw_tick import GpuProcess, Layout, RawValue, Series
from pulsed.reader.nvml.device import DeviceReader
from pulsed.reader.nvml.device_list import NvmlDevice, list_devices
from pulsed.reader.nvml.library import GONE, RESET_REQUIRED, load_nvml, source_error
from pulsed.reader.nvml.native_call import call_all
from pulsed.reader.nvml.process_list import ProcessList
from pulsed.reader.nvml.settings import NvmlSettings
from pulsed.reader.nvml.xid_events import XidEvents

TARGET = "libnvidia-ml.so.1"

NO_GPUS = 1
"""Flag of `nvmlInitWithFlags`: a machine without a GPU is not an error."""

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 10.0, 300.0
"""Pauses before NVML is initialized again because a GPU does not answer; every second one doubles."""

RELEASE_SECONDS = 0.9
"""Least time between two looks for the release file: with each of ten ticks a second, they would cost as many calls."""

XID, _XID_TOTAL = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_TOTAL"
_RECOVERY_ACTION, _RESET = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 1.0


class Sample(NamedTuple):
    """The values of a tick, and the processes as in `RawTick`."""

    layout: Layout
    values: list[RawValue]
    processes: tuple[GpuProcess, ...] | None = None


MOST_CODES = 256
"""XIDs of a GPU with series; of further ones only the last code has one."""


class _XidCounts:
    """The XIDs of one GPU since the source began: the last one, and how often each happened."""

    def __init__(self) -> None:
        self.last = 0
        self.totals: dict[int, int] = {}

    def add(self, code: int) -> bool:
        """Count an XID; return whether its code has a new series."""
        self.last = code
        is_new = code not in self.totals
        if is_new and len(self.totals) >= MOST_CODES:
            return False
        self.totals[code] = self.totals.get(code, 0) + 1
        return is_new

    def values(self, codes: tuple[int, ...]) -> list[RawValue]:
        return [self.last, *(self.totals.get(code, 0) for code in codes)]


class _Block(NamedTuple):
    """The series of one device: metrics of its reader, then those of the XIDs, where it has any.

    Attributes:
        shown: picks the reader's values that have a series.
    """

    uuid: str
    reader: DeviceReader
    shown: Callable[[Sequence[RawValue]], Sequence[RawValue]]
    codes: tuple[int, ...]


class DriverSession:
    """NVML, initialized when the first tick is read, and again after an error.

    Args:
        clock: seconds of a clock that never steps.

    Attributes:
        profiling_errors: why GPUs had no profiling counters in the last tick: messages by reason. Any thread may read
            it.
    """

    def __init__(self, settings: NvmlSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._nvml: ModuleType | None = None
        self._devices: list[NvmlDevice] = []
        self._readers: list[DeviceReader] = []
        self._events: XidEvents | None = None
        self._events_failed = False
        self._process_lists: list[ProcessList] = []
        self._processes: tuple[GpuProcess, ...] | None = None
        self._xids: dict[str, _XidCounts] = {}
        self._layout: Layout | None = None
        self._blocks: list[_Block] = []
        self._list_due = self._release_due = 0.0
        self._retry_at: float | None = None
        self._pause = FIRST_RETRY_SECONDS
        self.profiling_errors: Mapping[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether NVML is initialized and its GPUs are listed; the next tick can be quick. Any thread may read it."""
        return self._events is not None

    def tick(self) -> Sample:
        """Read all GPUs.

        Raises:
            SourceError: NVML cannot be used; the next call initializes it again.
            DriverReleased: the release file exists.
            TooManyGpus: there are more than `max_gpus`.
        """
        now = self._clock()
        if now >= self._release_due:
            self._check_release(now)
        if self._retry_at is not None and now >= self._retry_at:
            self._pause = min(2.0 * self._pause, LONGEST_RETRY_SECONDS)
            self.close()
        nvml = self._nvml or load_nvml()
        try:
            if self._nvml is None:
                nvml.nvmlInitWithFlags(NO_GPUS)
                self._nvml = nvml
            return self._tick(nvml, now)
        except nvml.NVMLError as error:
            self.close()
            raise source_error(error.value) from error
        except SourceError:
            self.close()
            raise

    def _check_release(self, now: float) -> None:
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

    def _tick(self, nvml: ModuleType, now: float) -> Sample:
        if now >= self._list_due:
            self._list(nvml, now)
        self._read(now)
        errors = [reader.profiling_error for reader in self._readers if reader.profiling_error is not None]
        self.profiling_errors = {error.reason: str(error) for error in errors}
        self._list_processes(now)
        happened = self._poll_xids()
        self._handle_gone(now)
        narrowed = [reader for reader in self._readers if reader.was_narrowed()]
        if narrowed:
            self._layout = None
        if self._layout is None:
            self._layout = self._lay_out()
        values: list[RawValue] = []
        for uuid, reader, shown, codes in self._blocks:
            values += shown(reader.values)
            if codes:
                is_shown = not reader.gone or uuid in happened
                values += self._xids[uuid].values(codes) if is_shown else [None] * (1 + len(codes))
        if self._readers and not any(reader.gone or reader.has_values for reader in self._readers):
            raise NvmlError("NVML answers no call for any GPU", "See whether nvidia-smi works, and dmesg")
        return Sample(self._layout, values, self._processes)

    def _read(self, now: float) -> None:
        """Read all GPUs, call by call and not GPU by GPU: see `LongCall`."""
        readers = [reader for reader in self._readers if not reader.gone]
        call_all([call for reader in readers if (call := reader.prepare_sample(now)) is not None])
        call_all([call for reader in readers if (call := reader.prepare_comparison()) is not None])
        call_all([call for reader in readers for call in reader.prepare_fields(now)])
        for reader in readers:
            reader.read()

    def _list(self, nvml: ModuleType, now: float) -> None:
        """List GPUs and MIG instances; read them anew if any came or went."""
        self._list_due = now + self._settings.slow_interval
        devices, is_any_gone = list_devices(nvml, self._devices)
        if len(devices) > self._settings.max_gpus:
            raise TooManyGpus(self._settings.max_gpus, TARGET)
        if is_any_gone:
            self._retry(now)
        if devices == self._devices and self._readers and not self._events_failed:
            return
        self._release(nvml)
        split = {device.uuid for device in devices if device.instance is not None}
        for place, device in enumerate(devices):
            try:
                self._readers.append(
                    DeviceReader(
                        nvml,
                        device,
                        is_split=device.uuid in split,
                        settings=self._settings,
                        offset=(place + 1) / len(devices),
                    )
                )
            except nvml.NVMLError as error:  # noqa: PERF203 - of one GPU
                if error.value not in GONE:
                    raise
                self._retry(now)
        self._devices = devices
        boards = {device.uuid: device.board for device in devices}
        self._events, self._events_failed = XidEvents(nvml, boards), False
        whole = [device for device in devices if device.instance is None]
        self._process_lists = [
            ProcessList(
                nvml,
                board,
                [device for device in devices if device.uuid == board.uuid and device.instance is not None],
                self._settings.slow_interval,
                (place + 1) / len(whole),
            )
            for place, board in enumerate(whole)
        ]
        for uuid in self._events.uuids.values():
            self._xids.setdefault(uuid, _XidCounts())

    def _list_processes(self, now: float) -> None:
        """List the processes of the GPUs that are due; unknown as long as a GPU has no list."""
        gone = {reader.device.uuid for reader in self._readers if reader.gone}
        before, self._process_lists = (
            self._process_lists,
            [each for each in self._process_lists if each.uuid not in gone],
        )
        is_new = [each.read(now) for each in self._process_lists]
        if any(is_new) or len(before) > len(is_new):
            known = [each.processes for each in self._process_lists]
            self._processes = None if None in known else tuple(chain.from_iterable(part or () for part in known))

    def _release(self, nvml: ModuleType) -> None:
        parts: list[DeviceReader | XidEvents] = [*self._readers, *([self._events] if self._events is not None else [])]
        self._readers, self._blocks, self._events, self._layout = [], [], None, None
        self._process_lists, self._processes = [], None
        for part in parts:
            with contextlib.suppress(nvml.NVMLError):
                part.close()

    def _poll_xids(self) -> set[str]:
        """Count new XIDs; return the GPUs that have any."""
        if self._events is None:
            return set()
        before = len(self._events.uuids)
        events = self._events.poll()
        if len(self._events.uuids) < before:  # codes are missing until the next list of GPUs
            self._layout, self._events_failed = None, True
        for uuid, code in events:
            if self._xids[uuid].add(code):
                self._layout = None
        return {uuid for uuid, _ in events}

    def _handle_gone(self, now: float) -> None:
        gone = [reader for reader in self._readers if reader.gone]
        if gone:
            self._retry(now)
        elif self._retry_at is None:
            self._pause = FIRST_RETRY_SECONDS
        for reader in gone:
            if reader.gone == RESET_REQUIRED and reader.device.instance is None:
                reader.replace(_RECOVERY_ACTION, _RESET)

    def _retry(self, now: float) -> None:
        if self._retry_at is None:
            self._retry_at = now + self._pause

    def _lay_out(self) -> Layout:
        series: list[Series] = []
        self._blocks = []
        with_events = set(self._events.uuids.values()) if self._events is not None else set()
        for reader in self._readers:
            uuid, labels, names = reader.device.uuid, reader.device.labels, reader.names
            codes: tuple[int, ...] = ()
            places = [place for place, name in enumerate(reader.all_names) if name in names]
            series += [Series(reader.all_names[place], labels) for place in places]
            if uuid in with_events and reader.device.instance is None:
                codes = (0, *sorted(self._xids[uuid].totals))  # 0 has no label: no XID so far
                series.append(Series(XID, labels))
                series += [Series(_XID_TOTAL, (*labels, ("xid", str(code))) if code else labels) for code in codes]
            self._blocks.append(_Block(uuid, reader, _picker(places), codes))
        return Layout("exporter", tuple(series))


def _picker(places: Sequence[int]) -> Callable[[Sequence[RawValue]], Sequence[RawValue]]:
    """Return a function of values that returns those in some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: [values[place] for place in places]
