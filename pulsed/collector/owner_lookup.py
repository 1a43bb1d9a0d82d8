"""Adds the owners of this host's attribution sources to the devices of ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pulsed.model.canonical_tick import CanonicalTick
from pulsed.model.gpu import Device, board_keys, profile_key
from pulsed.model.owner import Owner, Owners
from pulsed.owners.attribution.attribution import Attribution

_NOT_PASSING: Mapping[int, Owners] = {}


class OwnerLookup:
    """The lookup for the ticks of one target; a tick without changes costs two comparisons.

    Args:
        attribution: the sources.
        node: this host; devices of other hosts are found by UUID only.
    """

    def __init__(self, attribution: Attribution, node: str) -> None:
        self._attribution, self._node = attribution, node
        self._tick_devices: tuple[Device, ...] = ()
        self._version = 0
        self._departed = attribution.departed
        self._owned_devices: tuple[Device, ...] = ()
        self._labelled = 0
        self._profiles: Counter[tuple[tuple[str, str], str]] = Counter()

    def add_owners(self, tick: CanonicalTick) -> CanonicalTick:
        """Return the tick with the owners of its devices."""
        attribution, version = self._attribution, self._attribution.version
        before, passing = self._owned_devices, _NOT_PASSING
        if tick.devices != self._tick_devices or version != self._version:
            self._tick_devices, self._version = tick.devices, version
            self._labelled = sum(bool(device.owners) for device in tick.devices)
            instances = (device.entity for device in tick.devices if device.entity.mig_profile)
            self._profiles = Counter((entity.board, entity.mig_profile) for entity in instances)
            self._owned_devices = tuple(self._owned(tick.devices)) if version else tick.devices
            if attribution.departed != self._departed:
                passing = self._passing(tick.devices, before)
        if self._labelled:
            attribution.note_labels()
        if self._owned_devices == tick.devices and not passing:
            return tick
        return replace(tick, devices=self._owned_devices, passing=passing)

    def _passing(self, devices: tuple[Device, ...], before: tuple[Device, ...]) -> Mapping[int, Owners]:
        """Return by position the owners that had a device since the tick before, and in neither of both."""
        departures = self._attribution.departures_after(self._departed)
        self._departed = self._attribution.departed
        owners_before = {device.entity: device.owners or () for device in before}
        passing_owners: dict[int, Owners] = {}
        for position, (device, now) in enumerate(zip(devices, self._owned_devices, strict=True)):
            keys, seen = self._keys(device), (*owners_before.get(device.entity, ()), *(now.owners or ()))
            owners = dict.fromkeys(each.owner for each in departures if each.key in keys)
            if passing := tuple([owner for owner in owners if not any(owner.continues(each) for each in seen)]):
                passing_owners[position] = passing
        return passing_owners

    def _owned(self, devices: tuple[Device, ...]) -> Iterator[Device]:
        all_owners = [  # a part without owners of its own has those of its board
            self._attribution.find(self._keys(device), device.owners, is_local=self._is_local(device))
            for device in devices
        ]
        of_parts: dict[tuple[str, str], dict[tuple[str, str], Owner]] = {}
        for device, owners in zip(devices, all_owners, strict=True):
            if device.entity.kind != "gpu":
                of_parts.setdefault(device.entity.board, {}).update((owner.key, owner) for owner in owners or ())
        for device, owners in zip(devices, all_owners, strict=True):
            if device.entity.kind == "gpu" and (parts := of_parts.get(device.entity.board)):
                owners = tuple(({owner.key: owner for owner in owners or ()} | parts).values())
            yield device if owners == device.owners else replace(device, owners=owners)

    def _is_local(self, device: Device) -> bool:
        return device.entity.node in ("", self._node)

    def _keys(self, device: Device) -> tuple[str, ...]:
        """Return the keys of a device, the most certain first."""
        entity = device.entity
        keys = board_keys(entity.uuid, device.pci_bus_id, device.device, entity.gpu, is_local=self._is_local(device))
        if entity.kind == "vgpu":
            keys = ()
        elif entity.kind == "mig":
            own = [f"{key}/{entity.mig_id}" for key in keys]
            if self._profiles[entity.board, entity.mig_profile] == 1:
                own += [profile_key(key, entity.mig_profile) for key in keys]
            keys = (*([device.mig_uuid.lower()] if device.mig_uuid else ()), *own, *keys)
        return keys
