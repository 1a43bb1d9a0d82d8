"""XIDs of GPUs from NVML's event set."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.library import ENDED
from pulsed.reader.nvml.native_call import Handle, native_function

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
        self._event = nvml.c_nvmlEventData_t()
        try:
            self._wait = native_function(nvml, "nvmlEventSetWait_v2")
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
        """Return UUID and XID of the events since the last call, oldest first; never waits.

        After an error `uuids` is empty: events may be lost.
        """
        events: list[tuple[str, int]] = []
        if not self.uuids:
            return events
        nvml, event = self._nvml, self._event
        for _ in range(MOST_EVENTS):
            code = self._wait(self._set, ctypes.byref(event), 0)
            if code in ENDED:
                raise nvml.NVMLError(code)
            if code == nvml.NVML_ERROR_TIMEOUT:  # there are no more
                break
            if code:
                self.uuids = {}
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
