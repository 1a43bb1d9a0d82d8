"""Pods from the kubelet's pod-resources API: the containers that it gave devices to, also those without a process.

`v1.PodResourcesLister/List` on a Unix socket that only root may open; it has no uids of pods.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pulsed.attribution.source import Claims
from pulsed.errors import AttributionError


@dataclass(unsafe_hash=True)
class Kubelet:
    """The kubelet of this host.

    Args:
        socket: path of its pod-resources socket. Without its directory the source is absent, which is normal.
        interval: seconds between two looks.
    """

    socket: str
    interval: float = 10.0
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
            owners, unknown = await asyncio.to_thread(parse_pod_resources, response)
        except ValueError as error:
            raise AttributionError(f"the response of {self.socket} is malformed: {error}") from None
        self._has_assigned = self._has_assigned or bool(owners)
        self._unknown, new = unknown, max(0, unknown - self._unknown)
        return Claims(owners, self._has_assigned, {"unknown_device": new} if new else {})

    def _has_directory(self) -> bool:
        try:
            return Path(self.socket).parent.is_dir()
        except OSError:  # it may not be looked at; opening the socket has the reason
            return True

    async def close(self) -> None:
        """Nothing is open between two looks."""
