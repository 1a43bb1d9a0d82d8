"""The processes on a GPU and its MIG instances, with their memory and, where the driver has it, their activity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import GpuProcess
from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.library import ENDED, FUNCTION_NOT_FOUND, NOT_SUPPORTED, REFUSALS, call

_LISTS = ("Compute", "Graphics", "MPSCompute")

_NO_INSTANCE = 0xFFFFFFFF

MAX_PROCESSES = 4096
"""Of one list of a GPU; others are left out."""


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
        self._seen = 0
        self.processes: tuple[GpuProcess, ...] | None = None

    def read(self, now: Monotonic) -> bool:
        """List the processes if they are due at `now`, seconds of a clock that never steps; return whether they were.

        Raises:
            NVMLError: the driver is gone.
        """
        if now < self._due:
            return False
        self._due = now + self._interval * (self._first if self._due == -math.inf else 1.0)
        self.processes = self._listed()
        return True

    def _listed(self) -> tuple[GpuProcess, ...] | None:
        board = self._board
        memory = self._memory(board)
        if self._instances and memory is None:  # only root may list all instances at once
            parts = [self._memory(instance) for instance in self._instances]
            memory = None if None in parts else {key: used for part in parts for key, used in (part or {}).items()}
        if memory is None:
            return None
        active = {} if self._instances else self._utilization()
        accounts = self._accounts({pid for pid, _ in memory})
        return tuple(
            GpuProcess(pid, str(board.index), board.uuid, mig_id, used, active.get(pid), *accounts.get(pid, ()))
            for (pid, mig_id), used in memory.items()
        )

    def _memory(self, device: NvmlDevice) -> dict[tuple[int, str], int | None] | None:
        """Return the memory by process and MIG instance; None if the driver refuses any of the lists."""
        memory: dict[tuple[int, str], int | None] = {}
        is_any = False
        for kind in _LISTS:
            code, processes = self._running(kind, device)
            if code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):  # such as graphics processes of a MIG instance
                continue
            if code:
                return None
            is_any = True
            for process in processes[:MAX_PROCESSES]:
                instance = process.gpuInstanceId if device.is_board else device.instance
                key = process.pid, "" if instance == _NO_INSTANCE else str(instance)
                used, before = process.usedGpuMemory, memory.get(key)
                memory[key] = used if before is None else max(before, used or 0)
        return memory if is_any else None

    def _running(self, kind: str, device: NvmlDevice) -> tuple[int, Any]:
        """Return NVML's code and the processes, of the newest version that the driver has."""
        for version in ("_v3", "_v2"):
            code, processes = self._answer(f"nvmlDeviceGet{kind}RunningProcesses{version}", device.handle)
            if code != FUNCTION_NOT_FOUND:
                break
        return code, processes

    def _utilization(self) -> Mapping[int, float]:
        _, samples = self._answer("nvmlDeviceGetProcessUtilization", self._board.handle, self._seen)
        latest: dict[int, tuple[int, int]] = {}
        for sample in samples or ():
            self._seen = max(self._seen, sample.timeStamp)
            # Drivers also return entries without a meaning.
            if sample.smUtil <= 100 and sample.timeStamp >= latest.get(sample.pid, (0, 0))[0]:
                latest[sample.pid] = sample.timeStamp, sample.smUtil
        return {pid: share / 100.0 for pid, (_, share) in latest.items()}

    def _accounts(self, pids: set[int]) -> Mapping[int, tuple[float | None, int | None]]:
        """Return share of time and most memory of each process, if the driver is in accounting mode."""
        accounts: dict[int, tuple[float | None, int | None]] = {}
        _, is_on = self._answer("nvmlDeviceGetAccountingMode", self._board.handle)
        for pid in pids if is_on else ():
            code, account = self._answer("nvmlDeviceGetAccountingStats", self._board.handle, pid)
            if code in REFUSALS:
                break
            if code == 0:
                share = account.gpuUtilization
                accounts[pid] = share / 100.0 if share <= 100 else None, account.maxMemoryUsage
        return accounts

    def _answer(self, function: str, *arguments: object) -> tuple[int, Any]:
        """Return NVML's code and what the function returns. Raises `NVMLError` if the driver is gone."""
        try:
            return 0, call(self._nvml, function, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in ENDED:
                raise
            return error.value, None
