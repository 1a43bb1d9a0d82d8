"""The processes on a GPU and its MIG instances, with their memory and, where the driver has it, their activity."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType

from pulsed.model.raw_tick import GpuProcess
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.library import ENDED, INSUFFICIENT_SIZE, NOT_SUPPORTED, REFUSALS
from pulsed.reader.nvml.native_call import Handle, native_function

_LISTS = ("Compute", "Graphics", "MPSCompute")

_PROCESS = struct.Struct("IQII")
"""`nvmlProcessInfo_v2_t`: process id, memory, and the ids of its GPU instance and compute instance."""

_UTILIZATION = struct.Struct("IQIIII")
"""`nvmlProcessUtilizationSample_t`: process id, time in microseconds, and percent of SMs, memory, encoder, decoder."""

_ACCOUNT = struct.Struct("IIQ40x")
"""`nvmlAccountingStats_t`: percent of GPU and of memory, most memory, and what is not read."""

_NO_INSTANCE, _NO_MEMORY = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

_ROOM = 128
"""Processes of the first call; more are read with a second one."""

MOST_PROCESSES = 4096
"""Of one GPU; others are left out."""


class ProcessList:
    """The processes of one GPU, listed at an interval.

    Args:
        board: the GPU.
        instances: its MIG instances.
        interval: seconds.
        first: share of the interval, 0..1, after which the second list follows the first.

    Attributes:
        uuid: of the GPU.
        processes: of the last list; None where the driver gives none.
    """

    def __init__(
        self, nvml: ModuleType, board: NvmlDevice, instances: Sequence[NvmlDevice], interval: float, first: float
    ) -> None:
        self._nvml, self._board, self._instances, self.uuid = nvml, board, instances, board.uuid
        self._interval, self._first, self._due = interval, first, -math.inf
        self._lists = [found for name in _LISTS if (found := _running_processes(nvml, name)) is not None]
        self._seen = 0
        self._buffer = ctypes.create_string_buffer(_ROOM * _UTILIZATION.size)
        self.processes: tuple[GpuProcess, ...] | None = None

    def read(self, now: float) -> bool:
        """List the processes if they are due at `now`, seconds of a clock that never steps; return whether they were.

        Raises:
            NVMLError: the driver is gone.
        """
        if now < self._due or not self._lists:
            return False
        self._due = now + self._interval * (self._first if self._due == -math.inf else 1.0)
        self.processes = self._listed()
        return True

    def _listed(self) -> tuple[GpuProcess, ...] | None:
        found = self._of(self._board)
        if self._instances and found is None:  # only root may list all instances at once
            parts = [self._of(instance) for instance in self._instances]
            found = None if None in parts else {key: memory for part in parts for key, memory in (part or {}).items()}
        if found is None:
            return None
        handle = self._board.handle
        active = {} if self._instances else self._utilization(handle)
        accounts = self._accounts(handle, {pid for pid, _ in found})
        board = self._board
        return tuple(
            GpuProcess(pid, str(board.index), board.uuid, mig_id, memory, active.get(pid), *accounts.get(pid, ()))
            for (pid, mig_id), memory in found.items()
        )

    def _of(self, device: NvmlDevice) -> dict[tuple[int, str], int | None] | None:
        """Return the memory by process and MIG instance; None if the driver refuses any of the lists."""
        found: dict[tuple[int, str], int | None] = {}
        is_any = False
        for function in self._lists:
            code, rows = self._rows(_PROCESS, partial(function, device.handle))
            if code == NOT_SUPPORTED:  # such as graphics processes of a MIG instance
                continue
            if code:
                return None
            is_any = True
            for pid, memory, instance, _ in rows:
                key = pid, str(device.instance) if device.instance is not None else _mig_id(instance)
                known, before = None if memory == _NO_MEMORY else memory, found.get(key)
                found[key] = known if before is None else max(before, known or 0)
        return found if is_any else None

    def _rows(self, row: struct.Struct, call: Callable[..., int]) -> tuple[int, Iterator[tuple[int, ...]]]:
        """Call with room for an array; return NVML's code and the rows. Raises if the driver is gone."""
        count = ctypes.c_uint()
        for _ in range(2):
            count.value = len(self._buffer) // row.size
            code = call(ctypes.byref(count), self._buffer)
            if code != INSUFFICIENT_SIZE:
                break
            wanted = max(2 * min(count.value, MOST_PROCESSES) * row.size, len(self._buffer))
            self._buffer = ctypes.create_string_buffer(wanted)
        if code in ENDED:
            raise self._nvml.NVMLError(code)
        size = 0 if code else min(count.value * row.size, len(self._buffer) // row.size * row.size)
        return code, row.iter_unpack(self._buffer.raw[:size])

    def _utilization(self, handle: Handle) -> Mapping[int, float]:
        try:
            function = native_function(self._nvml, "nvmlDeviceGetProcessUtilization")
        except self._nvml.NVMLError:
            return {}
        since = ctypes.c_ulonglong(self._seen)
        _, rows = self._rows(_UTILIZATION, lambda count, buffer: function(handle, buffer, count, since))
        found: dict[int, tuple[int, int]] = {}
        for pid, time, share, *_ in rows:
            self._seen = max(self._seen, time)
            if share <= 100 and time >= found.get(pid, (0, 0))[0]:  # drivers also return entries without a meaning
                found[pid] = time, share
        return {pid: share / 100.0 for pid, (_, share) in found.items()}

    def _accounts(self, handle: Handle, pids: set[int]) -> Mapping[int, tuple[float | None, int | None]]:
        """Return share of time and most memory of each process, if the driver is in accounting mode."""
        nvml, buffer = self._nvml, ctypes.create_string_buffer(_ACCOUNT.size)
        found: dict[int, tuple[float | None, int | None]] = {}
        try:
            if not nvml.nvmlDeviceGetAccountingMode(handle):
                return {}
            function = native_function(nvml, "nvmlDeviceGetAccountingStats")
        except nvml.NVMLError as error:
            if error.value in ENDED:
                raise
            return {}
        for pid in pids:
            code = function(handle, ctypes.c_uint(pid), buffer)
            if code in REFUSALS:
                break
            if code == 0:
                share, _, memory = _ACCOUNT.unpack_from(buffer)
                found[pid] = share / 100.0 if share <= 100 else None, None if memory == _NO_MEMORY else memory
        return found


def _running_processes(nvml: ModuleType, kind: str) -> Callable[..., int] | None:
    for version in ("_v3", "_v2"):
        try:
            return native_function(nvml, f"nvmlDeviceGet{kind}RunningProcesses{version}")
        except nvml.NVMLError:  # noqa: PERF203 - of an older driver
            continue
    return None


def _mig_id(instance: int) -> str:
    return "" if instance == _NO_INSTANCE else str(instance)
