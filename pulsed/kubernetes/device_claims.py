"""ResourceClaims and ResourceSlices (`resource.k8s.io/v1`): data that a DRA driver publishes about claimed devices.

Claims and the slices of the node are requested once, when a claim is first seen: claimed devices do not change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from pulsed.kubernetes.api_client import ApiClient, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import JsonObject, mapping, mappings, text

log = logging.getLogger(__name__)

API = "/apis/resource.k8s.io/v1"

RETRY_SECONDS = 60.0
"""Pause after a request that failed."""

WAIT_SECONDS = 5.0
"""Timeout of `find` in seconds; the requests continue after it."""


class ClaimedDevice(NamedTuple):
    """A device of a ResourceClaim, which is named by `namespace` and `claim`."""

    namespace: str
    claim: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """Published data about a claimed device.

    Attributes:
        attributes: the attributes of its ResourceSlice that are texts, by name.
        is_administrative: whether the claim has `adminAccess`, which does not use the device.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    is_administrative: bool = False


class DeviceClaims:
    """The claimed devices of one driver on one node.

    Attributes:
        node: whose ResourceSlices are read.
        error: why the last requests failed; empty if they did not.
    """

    def __init__(self, client: ApiClient, node: str, driver: str) -> None:
        self.node = node
        self._client, self._driver = client, driver
        self._known: dict[ClaimedDevice, PublishedDevice] = {}
        self._retry = 0.0
        self._task: asyncio.Task[None] | None = None
        self.error = ""

    async def find(self, devices: Collection[ClaimedDevice]) -> Mapping[ClaimedDevice, PublishedDevice]:
        """Return what is known of devices; those that are left out become known later, unless there is an `error`."""
        self._known = {device: attributes for device, attributes in self._known.items() if device in devices}
        missing = [device for device in devices if device not in self._known]
        if missing and self._task is None and time.monotonic() >= self._retry:
            self._task = asyncio.create_task(self._request(missing), name="claims of devices")
        if missing and self._task is not None:
            await asyncio.wait({self._task}, timeout=WAIT_SECONDS)
        return self._known

    async def close(self) -> None:
        """End requests."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _request(self, devices: Collection[ClaimedDevice]) -> None:
        try:
            published = await self._published()
            for claim in dict.fromkeys((device.namespace, device.claim) for device in devices):
                administered = await self._administered(*claim)
                for device in devices:
                    if (device.namespace, device.claim) == claim:
                        name = (device.pool, device.device)
                        self._known[device] = PublishedDevice(published.get(name, {}), name in administered)
            self.error = ""
        except KubernetesError as error:
            if str(error) != self.error:
                log.warning("cannot read ResourceClaims, using device names", extra={"error": str(error)})
            self.error, self._retry = str(error), time.monotonic() + RETRY_SECONDS
        finally:
            self._task = None

    async def _published(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """Return the attributes of the node's devices by pool and name."""
        devices: dict[tuple[str, str], Mapping[str, str]] = {}
        slices: list[JsonObject] = []
        query = {"fieldSelector": f"spec.driver={self._driver},spec.nodeName={self.node}"}
        await self._client.list(f"{API}/resourceslices", query, lambda item: slices.append(mapping(item.get("spec"))))
        for spec in sorted(slices, key=_generation):  # the newest of a pool counts
            pool = text(mapping(spec.get("pool")).get("name"))
            for device in mappings(spec.get("devices")):
                attributes = mapping(device.get("attributes"))
                texts = {name: text(mapping(value).get("string")) for name, value in attributes.items()}
                devices[pool, text(device.get("name"))] = {name: value for name, value in texts.items() if value}
        return devices

    async def _administered(self, namespace: str, claim: str) -> Collection[tuple[str, str]]:
        """Return pools and names of the devices to which a claim has `adminAccess`; none if it does not exist."""
        path = f"{API}/namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(claim, safe='')}"
        try:
            item = await self._client.get(path)
        except ResourceNotFound:
            return ()
        allocation = mapping(mapping(item.get("status")).get("allocation"))
        results = mappings(mapping(allocation.get("devices")).get("results"))
        return {
            (text(each.get("pool")), text(each.get("device")))
            for each in results
            if each.get("driver") == self._driver and each.get("adminAccess") is True
        }


def _generation(spec: JsonObject) -> int:
    generation = mapping(spec.get("pool")).get("generation")
    return generation if isinstance(generation, int) else 0
