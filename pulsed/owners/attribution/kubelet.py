"""Pods from the kubelet's pod-resources API: the containers that it gave devices to, also those without a process.

`v1.PodResourcesLister/List` is a gRPC call on a Unix socket that only root may open; it has no uids of pods.
`GetAllocatableResources` has the replicas of devices that are advertised several times (time slicing, MPS). Needs the
extra `pulsed[kubernetes]`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pulsed.daemon_thread import FileReads, FileSystemHangs
from pulsed.errors import AttributionError
from pulsed.model.gpu import device_key, is_replica, profile_key
from pulsed.model.owner import Owner, pod
from pulsed.owners.attribution.source import Claims

if TYPE_CHECKING:  # most hosts have no cluster
    from pulsed.kubernetes.device_claims import ClaimedDevice, DeviceClaims
    from pulsed.owners.attribution.pod_resources_pb2 import AllocatableResourcesResponse, ListPodResourcesResponse


SERVICE = "/v1.PodResourcesLister"

log = logging.getLogger(__name__)

MAX_BYTES = 16 * 1024 * 1024
"""Limit of a response; the kubelet's own client has the same limit."""

_GPU = re.compile(r"(?:gpu-|mig-|nvidia[0-9])", re.IGNORECASE)
"""How ids of GPUs begin: UUIDs of NVIDIA's device plugin, device files of GKE's. Other plugins use numbers."""

DRA_DRIVER = "gpu.nvidia.com"
"""The name of NVIDIA's DRA driver."""

_DRA_GPU = re.compile(r"gpu-([0-9]{1,4})(?:-mig-([0-9a-z.-]{1,40})-[0-9]{1,4}-[0-9]{1,4})?")
"""A device of that driver: the number of the GPU's device file (k8s-dra-driver-gpu#563); of a MIG instance also its
profile, the profile's number, and placement, from which the number of the instance does not follow."""


class PodResources(NamedTuple):
    """What the kubelet has assigned to containers: owner and name of each GPU of a device plugin, and owner and device
    of each ResourceClaim on GPUs.
    """

    named: list[tuple[Owner, str]]
    claimed: list[tuple[Owner, ClaimedDevice]]


def pod_resources(response: ListPodResourcesResponse) -> PodResources:
    """Return what is assigned to containers."""
    from pulsed.kubernetes.device_claims import ClaimedDevice

    assigned = PodResources([], [])
    for resources in response.pod_resources:
        for container in resources.containers:
            owner = pod(resources.namespace, resources.name, container.name)
            assigned.named.extend(
                (owner, name) for devices in container.devices for name in devices.device_ids if _GPU.match(name)
            )
            assigned.claimed.extend(
                (owner, ClaimedDevice(claim.claim_namespace, claim.claim_name, each.pool_name, each.device_name))
                for claim in container.dynamic_resources
                for each in claim.claim_resources
                if each.driver_name == DRA_DRIVER
            )
    return assigned


class KubeletResponse(NamedTuple):
    """What the kubelet has assigned, and what it can assign; the latter is None unless replicas are assigned."""

    assigned: ListPodResourcesResponse
    allocatable: AllocatableResourcesResponse | None = None


async def list_pod_resources(socket: str) -> KubeletResponse:
    """Return the response of the kubelet.

    Raises:
        OSError: the socket cannot be connected to.
        AttributionError: gRPC is not installed, the call failed, or its response is malformed.
    """
    _, writer = await asyncio.open_unix_connection(socket)  # its error has the reason
    writer.close()
    try:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # otherwise it writes to standard error, not to the log
        import grpc  # most hosts have no kubelet
        from google.protobuf.message import DecodeError

        from pulsed.owners.attribution import pod_resources_pb2 as messages
    except ImportError:
        raise AttributionError(
            "the Python packages grpcio and protobuf are not installed",
            "install them with pip install 'pulsed[kubernetes]', or set attribution.kubelet.socket to off",
        ) from None
    try:
        limit = [("grpc.max_receive_message_length", MAX_BYTES)]
        async with grpc.aio.insecure_channel(f"unix:{socket}", limit) as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}/List")
            response = await call(messages.ListPodResourcesRequest().SerializeToString())
            assigned = await asyncio.to_thread(messages.ListPodResourcesResponse.FromString, response)
            if not any(is_replica(name) for _, name in pod_resources(assigned).named):
                return KubeletResponse(assigned)
            call = channel.unary_unary(f"{SERVICE}/GetAllocatableResources")
            try:
                response = await call(messages.AllocatableResourcesRequest().SerializeToString())
            except grpc.aio.AioRpcError as error:  # kubelets before 1.23 refuse it
                log.debug("the replicas of devices are not known", extra={"error": error.details()})
                return KubeletResponse(assigned)
        return KubeletResponse(assigned, messages.AllocatableResourcesResponse.FromString(response))
    except DecodeError as error:
        raise AttributionError(f"the response of {socket} is malformed: {error}") from None
    except grpc.aio.AioRpcError as error:
        raise AttributionError(f"the call to {socket} failed: {error.code().name} {error.details()}") from None


def replicas_of(response: AllocatableResourcesResponse | None) -> Mapping[str, int]:
    """Return how often each device is advertised that is so several times, by its key."""
    names = [name for devices in response.devices for name in devices.device_ids] if response is not None else []
    return Counter(key for name in names if is_replica(name) and (key := device_key(name)) is not None)


class DeviceKeys(NamedTuple):
    """The keys of a GPU that is assigned, none if it cannot be identified, and whether every source of readings finds
    it by them.
    """

    names: tuple[str, ...]
    are_certain: bool


def keys_of_claimed(device: str, attributes: Mapping[str, str]) -> DeviceKeys:
    """Return the keys of a device of NVIDIA's DRA driver.

    A MIG instance also has the key of its profile on its board: not every source has UUIDs of instances, and the driver
    publishes none of those that it creates on demand.

    Args:
        device: its name in the pool.
        attributes: of its ResourceSlice; empty if they are unknown.
    """
    name = _DRA_GPU.fullmatch(device)
    board = attributes.get("parentUUID", "") or (f"nvidia{name[1]}" if name else "")
    profile = attributes.get("profile", "") or (name[2] or "" if name else "")
    own = device_key(attributes.get("uuid", "") or ("" if profile else board))
    shared = profile_key(key, profile) if profile and (key := device_key(board)) else None
    return DeviceKeys(tuple(filter(None, (own, shared))), own is not None and not profile)


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
    _files: FileReads = field(default_factory=FileReads, init=False, compare=False)
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
        try:
            if not await self._files.read(self.socket, self._has_directory):
                return None
        except FileSystemHangs as error:
            remedy = "check the file system of attribution.kubelet.socket"
            raise AttributionError(f"{self.socket}: {error.strerror}", remedy) from None
        try:
            response = await list_pod_resources(self.socket)
            replicas = replicas_of(response.allocatable)
        except OSError as error:
            remedy = "check that the kubelet runs, and attribution.kubelet.socket"
            if isinstance(error, PermissionError):
                remedy = "only root may open it: run pulsed as root, or set attribution.kubelet.socket to off"
            raise AttributionError(f"{self.socket} cannot be used: {error.strerror or error}", remedy) from None
        return await self._claims(pod_resources(response.assigned), replicas)

    async def _claims(self, assigned: PodResources, replicas: Mapping[str, int]) -> Claims:
        """Return the owners of devices by their keys, complete if no device may be one of another key.

        Args:
            replicas: how often each device is advertised, by its key.
        """
        from pulsed.kubernetes.device_claims import PublishedDevice

        devices = {device for _, device in assigned.claimed}
        published = await self.claims.find(devices) if self.claims is not None and devices else {}
        if self.claims is None or self.claims.error:
            published = {**dict.fromkeys(devices, PublishedDevice()), **published}
        used = [each for each in assigned.claimed if each[1] in published and not published[each[1]].is_administrative]
        named = [(owner, device_key(name)) for owner, name in assigned.named]
        parts = {
            (owner, key): count / replicas[key]
            for (owner, key), count in Counter(named).items()
            if key is not None and key in replicas
        }
        owner_keys = [(owner, DeviceKeys((key,) if key else (), key is not None)) for owner, key in named]
        owner_keys += [(owner, keys_of_claimed(device.device, published[device].attributes)) for owner, device in used]
        owners: dict[str, dict[Owner, None]] = {}
        for owner, keys in owner_keys:
            for key in keys.names:
                owners.setdefault(key, {})[replace(owner, allocated=parts.get((owner, key)))] = None
        self._has_assigned = self._has_assigned or bool(owners)
        unknown = sum(not keys.names for _, keys in owner_keys)
        self._unknown, new = unknown, max(0, unknown - self._unknown)
        is_complete = (
            self._has_assigned and devices <= published.keys() and all(keys.are_certain for _, keys in owner_keys)
        )
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
