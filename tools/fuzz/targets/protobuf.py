"""The response of the kubelet: the wire format of Protocol Buffers, held against Google's parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from pulsed.owners.attribution.kubelet import parse_pod_resources
from tests.support.kubernetes.fake_kubelet import container, normalized, pods
from tools.fuzz.target import FuzzTarget


def _read(data: bytes) -> object:
    return parse_pod_resources(data)


def _verify(data: bytes, outcome: Any) -> None:
    try:
        expected = parse_pod_resources(normalized(data))
    except DecodeError:
        return
    if isinstance(outcome, ValueError):  # Google's parser skips groups, which proto3 does not have
        assert "wire type" in str(outcome), outcome
    else:
        assert outcome == expected, f"{outcome} instead of {expected}"


def _seeds() -> Iterator[bytes]:
    gpu = container("train", "GPU-5f0c9a1e-0000-0000-0000-000000000000", "nvidia0", claims=("gpu-0",))
    part = container("infer", "MIG-GPU-5f0c9a1e/7/0", "MIG-5f0c9a1e", "nvidia0/gi1", claims=("gpu-1-mig-9-0-4", "x"))
    yield pods({"name": "job", "namespace": "ml", "containers": [gpu]})
    yield pods({"name": "a", "namespace": "b", "containers": [part, gpu]}, {"name": "c", "containers": []})
    yield b""


PROTOBUF = FuzzTarget(
    "protobuf", _read, (ValueError,), _verify, _seeds, (b"gpu.nvidia.com", b"GPU-", b"MIG-", b"nvidia0", b"gpu-0")
)
