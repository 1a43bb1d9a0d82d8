"""Removes GPUs that are not selected from ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.gpu import Device
from pulsed.model.gpu_selection import GpuSelection, SelectableGpu


class DeviceFilter:
    """A selection, applied to the ticks of one source."""

    def __init__(self, selection: GpuSelection) -> None:
        self._selection = selection
        self._all: tuple[Device, ...] = ()
        self._mask: tuple[bool, ...] = ()
        self._devices: tuple[Device, ...] = ()

    @property
    def candidates(self) -> Sequence[SelectableGpu]:
        """The devices of the last tick, before filtering; empty while everything is selected."""
        return [_candidate(device) for device in self._all]

    def selects(self, device: Device) -> bool:
        """Return whether a device would be selected."""
        return self._selection.everything or self._selection.among([_candidate(device)])[0]

    def of(self, tick: CanonicalTick) -> CanonicalTick:
        """Return the tick with the chosen devices only; the same tuple of devices as long as nothing changes."""
        if self._selection.everything:
            return tick
        if tick.devices is not self._all:
            self._all = tick.devices
            self._mask = self._selection.among([_candidate(device) for device in tick.devices])
            self._devices = tuple(compress(tick.devices, self._mask))
        places = {old: new for new, old in enumerate(compress(range(len(self._mask)), self._mask))}
        return replace(
            tick,
            devices=self._devices,
            readings=tuple(compress(tick.readings, self._mask)),
            anomalies={places[old]: found for old, found in tick.anomalies.items() if old in places},
            extras={places[old]: found for old, found in tick.extras.items() if old in places},
        )


def _candidate(device: Device) -> SelectableGpu:
    entity = device.entity
    return SelectableGpu(entity.gpu, entity.uuid, device.mig_uuid, entity.mig_id)
