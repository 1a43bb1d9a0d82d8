"""A kubelet's pod-resources API: a real gRPC server on a Unix socket, with messages of Google's Protocol Buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

# The fields that Kubernetes' api.proto has beside those that pulsed reads are there to be skipped.
_SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources*")},
    "AllocatableResourcesResponse": {"devices": (1, "ContainerDevices*")},
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "ContainerResources*"),
        "cpu_ids": (4, "int64*"),
    },
    "ContainerResources": {
        "name": (1, "string"),
        "devices": (2, "ContainerDevices*"),
        "cpu_ids": (3, "int64*"),
        "memory": (4, "ContainerMemory*"),
        "dynamic_resources": (5, "DynamicResource*"),
    },
    "ContainerMemory": {"memory_type": (1, "string"), "size_": (2, "uint64")},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "string*"), "topology": (3, "Topology")},
    "Topology": {"id": (1, "int64")},
    "DynamicResource": {
        "claim_name": (1, "string"),
        "claim_namespace": (2, "string"),
        "claim_resources": (4, "ClaimResource*"),
    },
    "ClaimResource": {"driver_name": (2, "string"), "pool_name": (3, "string"), "device_name": (4, "string")},
}
_TYPES = {"string": Field.TYPE_STRING, "bool": Field.TYPE_BOOL, "int32": Field.TYPE_INT32, "int64": Field.TYPE_INT64}
_TYPES |= {"uint32": Field.TYPE_UINT32, "uint64": Field.TYPE_UINT64}


def message_class(schema: Mapping[str, Mapping[str, tuple[int, str]]], package: str, name: str) -> Any:
    """Return the class of a message, by the numbers and types of its fields."""
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for message_name, members in schema.items():
        message = file.message_type.add(name=message_name)
        for member, (number, kind) in members.items():
            label = Field.LABEL_REPEATED if kind.endswith("*") else Field.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            field = message.field.add(name=member, number=number, label=label)
            field.type = _TYPES.get(kind, Field.TYPE_MESSAGE)
            if field.type == Field.TYPE_MESSAGE:
                field.type_name = f".{package}.{kind}"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


_Response: Any = message_class(_SCHEMA, "v1", "ListPodResourcesResponse")
_Allocatable: Any = message_class(_SCHEMA, "v1", "AllocatableResourcesResponse")


def container(
    name: str, *ids: str, resource: str = "nvidia.com/gpu", claims: Sequence[str] = (), claim: str = "gpu"
) -> dict[str, Any]:
    """Return a container with these devices, and a ResourceClaim with the devices of these names."""
    claimed = [{"driver_name": "gpu.nvidia.com", "pool_name": "node", "device_name": each} for each in claims]
    return {
        "name": name,
        "devices": [{"resource_name": resource, "device_ids": ids, "topology": {"id": 1}}],
        "cpu_ids": [0, 1, 300],
        "memory": [{"memory_type": "memory", "size_": 1 << 40}],
        "dynamic_resources": [{"claim_name": claim, "claim_namespace": "ml", "claim_resources": claimed}],
    }


def pods(*each: dict[str, Any]) -> bytes:
    """Return the response for these pods: dictionaries with the keys `name`, `namespace` and `containers`."""
    message: bytes = _Response(pod_resources=each).SerializeToString()
    return message


@contextlib.contextmanager
def kubelet(
    socket: Path,
    answer: Callable[[grpc.ServicerContext], bytes],
    method: str = "List",
    allocatable: Sequence[str] | None = None,
) -> Iterator[None]:
    """Serve `v1.PodResourcesLister`; the socket vanishes at the end, as that of a kubelet that stops.

    Args:
        allocatable: the devices that it can assign; None: it does not implement that call.
    """
    server = grpc.server(ThreadPoolExecutor(4))
    handlers: dict[str, Any] = {method: grpc.unary_unary_rpc_method_handler(lambda _, context: answer(context))}
    if allocatable is not None:
        devices = _Allocatable(devices=[{"device_ids": allocatable}]).SerializeToString()
        handlers["GetAllocatableResources"] = grpc.unary_unary_rpc_method_handler(lambda _, context: devices)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)])
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()
        socket.unlink(missing_ok=True)
