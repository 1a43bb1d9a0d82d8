"""Pods from the kubelet's pod-resources API: the containers that it gave devices to, also those without a process.

`v1.PodResourcesLister/List` on a Unix socket that only root may open; it has no uids of pods.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pulsed.attribution.protobuf import fields
from pulsed.attribution.source import Claims
from pulsed.errors import AttributionError
from pulsed.model.device_key import device_key
from pulsed.model.owner import Owner, Owners, pod

METHOD = "/v1.PodResourcesLister/List"

MAX_BYTES = 16 * 1024 * 1024
"""A larger response is refused; the kubelet's own client has this limit, too."""

_GPU = re.compile(r"(?:gpu-|mig-|nvidia[0-9])", re.IGNORECASE)
"""How ids of GPUs begin: UUIDs of NVIDIA's device plugin, device files of GKE's. Other plugins use numbers."""

_DRA_DRIVER = "gpu.nvidia.com"
_DRA_GPU = re.compile(r"gpu-([0-9]{1,4})")
"""A whole GPU of NVIDIA's DRA driver, by the number of its device file (k8s-dra-driver-gpu#563). Names of MIG instances
have their placement, from which the number of the instance does not follow."""


@dataclass(eq=False, slots=True)
class _LastLook:
    """Whether the kubelet ever assigned a GPU: then it assigns all of the host. And how many GPUs were unknown."""

    has_assigned: bool = False
    unknown: int = 0


@dataclass(frozen=True)
class Kubelet:
    """The kubelet of this host.

    Args:
        socket: path of its pod-resources socket. Without its directory the source is absent, which is normal.
        interval: seconds between two looks.
    """

    socket: str
    interval: float = 10.0
    _last: _LastLook = field(default_factory=_LastLook, compare=False, repr=False)

    @property
    def name(self) -> str:
        """`kubelet`."""
        return "kubelet"

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
        from pulsed.attribution.grpc_call import unary_call  # loads h2, which hosts without a kubelet do not need

        try:
            response = await unary_call(self.socket, METHOD, max_bytes=MAX_BYTES)
        except OSError as error:
            remedy = "check that the kubelet runs, and attribution.kubelet.socket"
            if isinstance(error, PermissionError):
                remedy = "only root may open it: run pulsed as root, or set attribution.kubelet.socket to off"
            raise AttributionError(f"{self.socket} cannot be used: {error.strerror or error}", remedy) from None
        try:
            owners, unknown = await asyncio.to_thread(parse_pod_resources, response)
        except ValueError as error:
            raise AttributionError(f"the response of {self.socket} is malformed: {error}") from None
        last = self._last
        last.has_assigned = last.has_assigned or bool(owners)
        last.unknown, new = unknown, max(0, unknown - last.unknown)
        return Claims(owners, last.has_assigned, {"unknown_device": new} if new else {})

    def _has_directory(self) -> bool:
        try:
            return Path(self.socket).parent.is_dir()
        except OSError:  # it may not be looked at; opening the socket has the reason
            return True

    async def close(self) -> None:
        """Nothing is open between two looks."""


def parse_pod_resources(response: bytes) -> tuple[dict[str, Owners], int]:
    """Return the owners by device, and the number of GPUs that cannot be identified.

    Args:
        response: a ListPodResourcesResponse.

    Raises:
        ValueError: it is malformed.
    """
    found: dict[str, dict[Owner, None]] = {}
    unknown = 0
    for number, message in fields(memoryview(response)):
        if number != 1:
            continue
        name = namespace = ""
        containers = []
        for part, content in fields(message):
            if part == 1:
                name = _text(content)
            elif part == 2:
                namespace = _text(content)
            elif part == 3:
                containers.append(content)
        for container in containers:
            for device in _devices(container):
                key = device_key(device)
                if key is None:
                    unknown += 1
                else:
                    owner = pod(namespace, name, _name(container))
                    found.setdefault(key, {})[owner] = None
    return {key: tuple(each) for key, each in found.items()}, unknown


def _name(container: memoryview) -> str:
    return ([_text(content) for number, content in fields(container) if number == 1] or [""])[-1]  # the last one counts


def _devices(container: memoryview) -> Iterator[str]:
    """Yield the names of a container's GPUs, from device plugins and from DRA claims."""
    for number, content in fields(container):
        if number == 2:  # ContainerDevices
            for part, id in fields(content):
                if part == 2 and _GPU.match(device := _text(id)):
                    yield device
        elif number == 5:  # DynamicResource
            for part, claim in fields(content):
                if part != 4:  # ClaimResource
                    continue
                values = {key: _text(value) for key, value in fields(claim) if key in (2, 4)}
                if values.get(2) == _DRA_DRIVER:
                    whole = _DRA_GPU.fullmatch(values.get(4, ""))
                    yield f"nvidia{whole[1]}" if whole else "?"


def _text(content: memoryview) -> str:
    return str(content, "utf-8", "replace")
