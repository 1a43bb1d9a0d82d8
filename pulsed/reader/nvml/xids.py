"""XIDs of GPUs, counted from NVML's events."""

from __future__ import annotations

import contextlib
import ctypes
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.device_list import NvmlDevice
from pulsed.reader.nvml.library import ENDED, TIMEOUT, Handle

MAX_CODES = 256
"""XIDs of a GPU with series; of further ones only the last code has one."""

MAX_EVENTS = 256
"""Of one tick; the others follow with the next."""


class XidCounts:
    """The XIDs of all GPUs since the source began, also those before a new initialization of NVML.

    Attributes:
        revision: changes with the series that `codes` returns.
        has_failed: whether events may be lost, until `listen`.
    """

    def __init__(self) -> None:
        self.revision, self.has_failed = 0, False
        self._nvml: ModuleType | None = None
        self._set: Any = None
        self._uuids: dict[int | None, str] = {}
        self._last: defaultdict[str, int] = defaultdict(int)
        self._totals: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def listen(self, nvml: ModuleType, boards: Iterable[NvmlDevice]) -> None:
        """Register for the events of GPUs, as far as the driver has any. Raises `NVMLError` if the driver is gone."""
        self._nvml, self.has_failed = nvml, False
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            if error.value in ENDED:
                raise
            return
        for board in boards:
            try:
                nvml.nvmlDeviceRegisterEvents(board.board, nvml.nvmlEventTypeXidCriticalError, self._set)
            except nvml.NVMLError as error:
                if error.value in ENDED:
                    raise
            else:
                self._uuids[_address(board.board)] = board.uuid

    def poll(self) -> set[str]:
        """Count the events since the last call, and return the GPUs that have any; never waits.

        Raises:
            NVMLError: the driver is gone.
        """
        nvml = self._nvml
        happened: set[str] = set()
        if nvml is None or not self._uuids:
            return happened
        try:
            for _ in range(MAX_EVENTS):
                event = nvml.nvmlEventSetWait_v2(self._set, 0)
                uuid = self._uuids.get(_address(event.device))
                if uuid and event.eventType == nvml.nvmlEventTypeXidCriticalError:
                    self._add(uuid, event.eventData)
                    happened.add(uuid)
        except nvml.NVMLError as error:
            if error.value in ENDED:
                raise
            if error.value != TIMEOUT:  # which is: there are no more
                self._uuids, self.has_failed = {}, True
                self.revision += 1
        return happened

    def _add(self, uuid: str, code: int) -> None:
        self._last[uuid], totals = code, self._totals[uuid]
        if code in totals or len(totals) < MAX_CODES:
            self.revision += code not in totals
            totals[code] += 1

    def codes(self, uuid: str) -> Sequence[int]:
        """Return the XIDs of a GPU that have a series, first 0 for none; nothing where events do not arrive."""
        return (0, *sorted(self._totals[uuid])) if uuid in self._uuids.values() else ()

    def values(self, uuid: str, codes: Sequence[int]) -> list[float | None]:
        """Return the last XID of a GPU, 0 for none, and how often each of `codes` happened."""
        return [self._last[uuid], *(self._totals[uuid][code] for code in codes)]

    def close(self) -> None:
        """Free the event set. Safe to call twice."""
        event_set, self._set, self._uuids = self._set, None, {}
        if self._nvml is not None and event_set is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(event_set)


def _address(handle: Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
