"""XIDs of GPUs from NVML's event set."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.calls import Handle
from pulsed.reader.nvml.library import ENDED

MOST_EVENTS = 256
"""Of one tick; the others follow with the next."""


class XidEvents:
    """The event set of all GPUs.

    Args:
        handles: by UUID.

    Attributes:
        uuids: the GPUs whose events arrive.
    """

    def __init__(self, nvml: ModuleType, handles: Mapping[str, Handle]) -> None:
        self._nvml = nvml
        self._set: Any = None
        self.uuids: dict[int | None, str] = {}
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            _raise_if_ended(error)
            return
        for uuid, handle in handles.items():
            try:
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._set)
            except nvml.NVMLError as error:  # not supported, or this GPU is gone
                if error.value in ENDED:
                    self.close()
                    raise
                continue
            self.uuids[_address(handle)] = uuid

    def poll(self) -> list[tuple[str, int]]:
        """Return UUID and XID of the events since the last call, oldest first; never waits."""
        events: list[tuple[str, int]] = []
        nvml = self._nvml
        while self.uuids and len(events) < MOST_EVENTS:
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, 0)
            except nvml.NVMLError as error:  # a timeout: there are no more
                _raise_if_ended(error)
                break
            uuid = self.uuids.get(_address(event.device))
            if uuid and event.eventType == nvml.nvmlEventTypeXidCriticalError:
                events.append((uuid, event.eventData))
        return events

    def close(self) -> None:
        """Free the event set. Safe to call twice."""
        event_set, self._set = self._set, None
        self.uuids = {}
        if event_set is not None:
            self._nvml.nvmlEventSetFree(event_set)


def _address(handle: Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _raise_if_ended(error: Exception) -> None:
    if error.value in ENDED:  # type: ignore[attr-defined]  # of NVMLError, whose module has no types
        raise error
