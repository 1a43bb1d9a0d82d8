"""Pods from the kubelet's pod-resources API: the containers that it gave devices to, also those without a process.

`v1.PodResourcesLister/List` on a Unix socket that only root may open; it has no uids of pods.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pulsed.attribution.source import Claims
from pulsed.errors import AttributionError
from pulsed.model.owner import Owner

if TYPE_CHECKING:  # most hosts have no cluster
    from pulsed.attribution.pod_resources import PodResources
    from pulsed.kubernetes.device_claims import DeviceClaims


@dataclass(unsafe_hash=True)
class Kubelet:
    """The kubelet of this host.

    Args:
        socket: path of its pod-resources socket. Without its directory the source is absent, which is normal.
        interval: seconds between two looks.
        claims: what the Kubernetes API has of claimed devices; None: their names count.
    """

    socket: str
    interval: float = 10.0
    claims: DeviceClaims | None = None
    name: str = "kubelet"
    _has_assigned: bool = field(default=False, init=False, compare=False)  # then it assigns all GPUs of the host
    _unknown: int = field(default=0, init=False, compare=False)  # GPUs that the last look could not identify

    @property
    def absence(self) -> str:
        """A host without Kubernetes, or a container."""
        return f"there is no kubelet; in a container, mount {Path(self.socket).parent}"

    async def read(self) -> Claims | None:
        """Return the containers with GPUs; None on a host without a kubelet.

        It is complete once there was one: a node may have no GPU that the kubelet assigns.

        Raises:
            AttributionError: the kubelet is stopped, does not answer, or refuses.
        """
        if not self._has_directory():
            return None
        # It loads h2, which hosts without a kubelet do not need.
        from pulsed.attribution.pod_resources import LIST, MAX_BYTES, parse_pod_resources, unary_call

        try:
            response = await unary_call(self.socket, LIST, max_bytes=MAX_BYTES)
        except OSError as error:
            remedy = "check that the kubelet runs, and attribution.kubelet.socket"
            if isinstance(error, PermissionError):
                remedy = "only root may open it: run pulsed as root, or set attribution.kubelet.socket to off"
            raise AttributionError(f"{self.socket} cannot be used: {error.strerror or error}", remedy) from None
        try:
            found = await asyncio.to_thread(parse_pod_resources, response)
        except ValueError as error:
            raise AttributionError(f"the response of {self.socket} is malformed: {error}") from None
        return await self._claims(found)

    async def _claims(self, found: PodResources) -> Claims:
        """Return the owners of devices by their keys, complete if no device may be one of another key."""
        from pulsed.attribution.pod_resources import keys_of_claimed, keys_of_named
        from pulsed.kubernetes.device_claims import PublishedDevice

        devices = {device for _, device in found.claimed}
        known = await self.claims.find(devices) if self.claims is not None and devices else {}
        if self.claims is None or self.claims.error:
            known = {**dict.fromkeys(devices, PublishedDevice()), **known}
        used = [each for each in found.claimed if each[1] in known and not known[each[1]].is_administrative]
        given = [(owner, keys_of_named(name)) for owner, name in found.named]
        given += [(owner, keys_of_claimed(device.device, known[device].attributes)) for owner, device in used]
        owners: dict[str, dict[Owner, None]] = {}
        for owner, keys in given:
            for key in keys.names:
                owners.setdefault(key, {})[owner] = None
        self._has_assigned = self._has_assigned or bool(owners)
        unknown = sum(not keys.names for _, keys in given)
        self._unknown, new = unknown, max(0, unknown - self._unknown)
        is_complete = self._has_assigned and devices <= known.keys() and all(keys.are_certain for _, keys in given)
        rejected = {"unknown_device": new} if new else {}
        return Claims({key: tuple(each) for key, each in owners.items()}, is_complete, rejected)

    def _has_directory(self) -> bool:
        try:
            return Path(self.socket).parent.is_dir()
        except OSError:  # it may not be looked at; opening the socket has the reason
            return True

    async def close(self) -> None:
        """End requests to the Kubernetes API."""
        if self.claims is not None:
            await self.claims.close()
