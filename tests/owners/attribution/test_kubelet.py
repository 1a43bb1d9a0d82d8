from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest

from pulsed.errors import AttributionError
from pulsed.kubernetes import device_claims
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.device_claims import DeviceClaims
from pulsed.model.owner import Owners, pod
from pulsed.owners import attribution as attribution_module
from pulsed.owners.attribution import Attribution
from pulsed.owners.attribution.kubelet import MAX_BYTES, Kubelet
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, ResourcePath
from tests.support.kubernetes.fake_kubelet import container, kubelet, pods
from tests.support.waiting import SECONDS, eventually
from tests.system.deploy.chart import complaints
from tests.system.deploy.install import KUBERNETES

TRAIN = {"name": "train-0", "namespace": "ml", "containers": [container("main", "GPU-aa", "GPU-bb")]}
INFER = {"name": "infer-0", "namespace": "ml", "containers": [container("main", "GPU-cc")]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.fixture
async def attribution() -> AsyncIterator[Attribution]:
    made = Attribution()
    yield made
    await made.stop()


def names(owners: Mapping[str, Owners]) -> Mapping[str, list[str]]:
    return {key: [owner.id for owner in each] for key, each in owners.items()}


async def test_every_form_of_a_device_and_nothing_else(path: Path) -> None:
    sidecar = container("side", resource="nvidia.com/gpu")
    response = pods(
        TRAIN,
        {"name": "mig", "namespace": "ml", "containers": [container("a", "MIG-dd", resource="nvidia.com/mig-1g.5gb")]},
        {"name": "one", "namespace": "ml", "containers": [container("a", "GPU-ee::0", "GPU-ee::1"), sidecar]},
        {"name": "two", "namespace": "ml", "containers": [container("a", "GPU-ee::2", "MIG-ff::7")]},
        {"name": "gke", "namespace": "b", "containers": [container("a", "nvidia0", "nvidia1/gi3", "nvidia2/vgpu1")]},
        {"name": "dra", "namespace": "b", "containers": [container("a", claims=["gpu-5", "gpu-6-mig-1g.5gb-0-1"])]},
        {
            "name": "nic",
            "namespace": "b",
            "containers": [container("a", "0", "mlx5_0", "0000:c3:00.0", resource="x/y")],
        },
        {"name": "web", "namespace": "b", "containers": [{"name": "main"}]},
        {},
    )
    with kubelet(path, lambda _: response):
        source = Kubelet(str(path))
        claims = await source.read()
        assert claims is not None
        assert claims.owners["gpu-aa"] == (pod("ml", "train-0", "main"),)
        assert names(claims.owners) == {
            "gpu-aa": ["ml/train-0/main"],
            "gpu-bb": ["ml/train-0/main"],
            "mig-dd": ["ml/mig/a"],
            "gpu-ee": ["ml/one/a", "ml/two/a"],
            "mig-ff": ["ml/two/a"],
            "nvidia0": ["b/gke/a"],
            "nvidia1/3": ["b/gke/a"],
            "nvidia2": ["b/gke/a"],
            "nvidia5": ["b/dra/a"],
            "nvidia6/1g5gb": ["b/dra/a"],
        }
        assert claims.rejected == {}
        assert not claims.is_complete, "an instance of that profile may be that of the claim"


@pytest.mark.parametrize("has_call", [True, False])
async def test_replicas_of_a_device_are_parts_of_it(path: Path, has_call: bool) -> None:
    """Kubelets before 1.23 do not list the devices that they can assign."""
    response = pods(
        {"name": "two", "namespace": "ml", "containers": [container("a", "GPU-ee::0", "GPU-ee::3")]},
        {"name": "one", "namespace": "ml", "containers": [container("a", "GPU-ee::1", "GPU-aa")]},
    )
    allocatable = [*(f"GPU-ee::{number}" for number in range(4)), "GPU-aa"]
    with kubelet(path, lambda _: response, allocatable=allocatable if has_call else None):
        claims = await Kubelet(str(path)).read()
    assert claims is not None
    parts = {key: [owner.allocated for owner in owners] for key, owners in claims.owners.items()}
    assert parts == {"gpu-ee": [0.5, 0.25] if has_call else [None, None], "gpu-aa": [None]}
    assert names(claims.owners)["gpu-ee"] == ["ml/two/a", "ml/one/a"]


async def test_a_gpu_that_cannot_be_identified_is_counted_once(path: Path) -> None:
    response = pods({"name": "new", "namespace": "b", "containers": [container("a", "GPU-aa", claims=["gpu-next"])]})
    with kubelet(path, lambda _: response):
        source = Kubelet(str(path))
        looks = [await source.read() for _ in range(2)]
        assert [look and (look.rejected, look.is_complete) for look in looks] == [
            ({"unknown_device": 1}, False),
            ({}, False),
        ]


DRA = "gpu.nvidia.com"


def slice_of(generation: int, **devices: Mapping[str, str]) -> dict[str, Any]:
    """Return a ResourceSlice of NVIDIA's DRA driver, with the attributes of these devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"node-a-{DRA}-{generation}"},
        "spec": {
            "driver": DRA,
            "nodeName": "node-a",
            "pool": {"name": "node", "generation": generation, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": name.replace("_", "-"),
                    "attributes": {
                        **{key: {"string": text} for key, text in attributes.items()},
                        "driverVersion": {"version": "580.65.6"},
                        "numa": {"int": 0},
                    },
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for name, attributes in devices.items()
            ],
        },
    }


def claim(name: str, *devices: str, admin: bool = False) -> dict[str, Any]:
    """Return an allocated ResourceClaim."""
    exactly = {"deviceClassName": DRA, "allocationMode": "All", **({"adminAccess": True} if admin else {})}
    result = {"request": "gpu", "driver": DRA, "pool": "node", **({"adminAccess": True} if admin else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": [{**result, "device": device} for device in devices]}},
            "reservedFor": [{"resource": "pods", "name": f"{name}-pod", "uid": f"uid-{name}"}],
        },
    }


ON_DEMAND = "gpu-1-mig-1g10gb-19-0"
"""An instance that the driver creates for its claim: its UUID is not published."""

SLICES = [
    slice_of(2, gpu_0={"type": "gpu", "uuid": "GPU-aa"}),
    slice_of(
        3,
        gpu_0={"type": "gpu", "uuid": "GPU-bb"},
        gpu_1_mig_3g40gb_9_0={"type": "mig", "uuid": "MIG-cc", "parentUUID": "GPU-dd", "profile": "3g.40gb"},
        gpu_1_mig_1g10gb_19_0={"type": "mig", "parentUUID": "GPU-dd", "profile": "1g.10gb"},
    ),
]
CLAIMS = [
    claim("train", "gpu-0"),
    claim("infer", "gpu-1-mig-3g40gb-9-0", ON_DEMAND),
    claim("exporter", "gpu-0", admin=True),
]


class DraCluster:
    """The objects above behind an API server, and the containers that have the claims in a kubelet."""

    def __init__(self, folder: Path) -> None:
        self.fake, self.path = FakeApiServer(folder), folder / "kubelet.sock"
        self.fake.apis.add(("resource.k8s.io", "v1"))
        listed = {"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1", "metadata": {}, "items": SLICES}
        self.fake.objects[ResourcePath("resource.k8s.io", "v1", "", "resourceslices", "")] = listed
        for each in CLAIMS:
            where = ResourcePath("resource.k8s.io", "v1", "ml", "resourceclaims", each["metadata"]["name"])
            self.fake.objects[where] = each

    @staticmethod
    def response() -> bytes:
        """What the kubelet has of the claims."""
        names = [(each["metadata"]["name"], each["status"]["allocation"]["devices"]["results"]) for each in CLAIMS]
        return pods(
            *(
                {
                    "name": name,
                    "namespace": "ml",
                    "containers": [container("a", claims=[each["device"] for each in results], claim=name)],
                }
                for name, results in names
            )
        )

    def requested(self) -> list[str]:
        return [request.path.removeprefix("/apis/resource.k8s.io/v1/") for request in self.fake.requests]


@pytest.fixture
async def dra(tmp_path: Path) -> AsyncIterator[tuple[DraCluster, Kubelet]]:
    cluster = DraCluster(tmp_path)
    with cluster.fake.running() as url, kubelet(cluster.path, lambda _: cluster.response()):
        cluster.fake.url = url
        client = ApiClient(access_to(cluster.fake), limits=())
        source = Kubelet(str(cluster.path), claims=DeviceClaims(client, "node-a", DRA))
        try:
            yield cluster, source
        finally:
            await source.close()
            await client.close()


async def test_claims_are_identified_by_their_slices_and_administrative_ones_use_nothing(
    dra: tuple[DraCluster, Kubelet],
) -> None:
    cluster, source = dra
    claims = await source.read()
    assert claims is not None
    assert names(claims.owners) == {
        "gpu-bb": ["ml/train/a"],
        "mig-cc": ["ml/infer/a"],
        "gpu-dd/3g40gb": ["ml/infer/a"],
        "gpu-dd/1g10gb": ["ml/infer/a"],
    }
    assert (claims.rejected, claims.is_complete) == ({}, False)
    expected = {"resourceslices", *(f"namespaces/ml/resourceclaims/{name}" for name in ("train", "infer", "exporter"))}
    assert sorted(cluster.requested()) == sorted(expected)
    assert cluster.fake.requests[0].query["fieldSelector"] == f"spec.driver={DRA},spec.nodeName=node-a"
    assert await source.read() == claims
    assert len(cluster.requested()) == len(expected), "what is known is not requested again"


@pytest.mark.parametrize("fault", ["denied", "older"])
async def test_without_the_api_the_names_of_claimed_devices_count(fault: str, dra: tuple[DraCluster, Kubelet]) -> None:
    cluster, source = dra
    if fault == "denied":
        cluster.fake.denied = True
    else:
        cluster.fake.apis.remove(("resource.k8s.io", "v1"))
    claims = await source.read()
    assert claims is not None
    assert names(claims.owners) == {
        "nvidia0": ["ml/train/a", "ml/exporter/a"],
        "nvidia1/3g40gb": ["ml/infer/a"],
        "nvidia1/1g10gb": ["ml/infer/a"],
    }
    assert claims.rejected == {}
    before = len(cluster.requested())
    await source.read()
    assert len(cluster.requested()) == before, "requested again after a pause"


async def test_claims_that_are_not_read_yet_leave_owners_unknown(
    dra: tuple[DraCluster, Kubelet], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, source = dra
    monkeypatch.setattr(device_claims, "WAIT_SECONDS", 0.01)
    cluster.fake.delay = 0.3
    claims = await source.read()
    assert claims is not None
    assert (claims.owners, claims.is_complete, claims.rejected) == ({}, False, {})
    cluster.fake.delay = 0.0
    monkeypatch.undo()

    async def is_known() -> bool:
        found = await source.read()
        return found is not None and "gpu-bb" in found.owners

    deadline = asyncio.get_running_loop().time() + SECONDS
    while not await is_known():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("version", KUBERNETES[-1:])
def test_the_objects_of_these_tests_are_those_of_kubernetes(version: str) -> None:
    assert complaints([*SLICES, *CLAIMS], version) == []


async def test_a_node_without_gpu_pods_is_complete_once_it_had_one(path: Path) -> None:
    answers = [pods(), pods(INFER), pods()]
    with kubelet(path, lambda _: answers.pop(0)):
        source = Kubelet(str(path))
        looks = [await source.read() for _ in range(3)]
        assert [look is not None and look.is_complete for look in looks] == [False, True, True]


async def test_a_host_without_a_kubelet(tmp_path: Path) -> None:
    assert await Kubelet(str(tmp_path / "pod-resources" / "kubelet.sock")).read() is None


async def test_a_kubelet_that_is_stopped(path: Path) -> None:
    with pytest.raises(
        AttributionError, match=r"kubelet.sock cannot be used: No such file.*Check that the kubelet runs"
    ):
        await Kubelet(str(path)).read()
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with pytest.raises(AttributionError, match="Connection refused"):
        await Kubelet(str(path)).read()


async def test_a_user_without_rights_gets_the_remedy(path: Path) -> None:
    path.parent.chmod(0o700 if os.geteuid() == 0 else 0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(AttributionError, match=r"Permission denied. Only root may open it.*kubelet.socket to off"):
            await Kubelet(str(path)).read()
    finally:
        os.seteuid(user)
        path.parent.chmod(0o700)


async def test_errors_of_the_server(path: Path) -> None:
    with (
        kubelet(path, lambda _: pods(), method="Get"),
        pytest.raises(AttributionError, match="UNIMPLEMENTED Method not"),
    ):
        await Kubelet(str(path)).read()

    def unavailable(context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "nicht verfügbar: 100 %")

    with kubelet(path, unavailable), pytest.raises(AttributionError, match="UNAVAILABLE nicht verfügbar: 100 %"):
        await Kubelet(str(path)).read()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3, b"", b"\x00\x00\x04\x08\x00" * 4])
async def test_a_server_that_is_not_a_kubelet(path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises(AttributionError, match=r"the call to .*kubelet.sock failed: UNAVAILABLE"):
            await Kubelet(str(path)).read()


async def test_without_the_packages_the_remedy_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kubelet(path, lambda _: pods()), monkeypatch.context() as patch:
        patch.setitem(sys.modules, "google.protobuf.message", None)
        with pytest.raises(AttributionError, match=r"nstall them with pip install 'pulsed\[kubernetes\]'"):
            await Kubelet(str(path)).read()


async def test_a_large_response_is_read_and_one_above_the_limit_refused(path: Path) -> None:
    many = pods(
        *({"name": f"pod-{n}-{'x' * 200}", "namespace": "web", "containers": [{}]} for n in range(25_000)), TRAIN
    )
    assert len(many) > 5 * 1024 * 1024
    with kubelet(path, lambda _: many):
        claims = await Kubelet(str(path)).read()
        assert claims is not None
        assert names(claims.owners) == {"gpu-aa": ["ml/train-0/main"], "gpu-bb": ["ml/train-0/main"]}
    with (
        kubelet(path, lambda _: bytes(MAX_BYTES + 1)),
        pytest.raises(AttributionError, match=f"RESOURCE_EXHAUSTED.*{MAX_BYTES}"),
    ):
        await Kubelet(str(path)).read()


async def test_a_malformed_response(path: Path) -> None:
    with kubelet(path, lambda _: b"\x0a\x05abc"), pytest.raises(AttributionError, match="is malformed"):
        await Kubelet(str(path)).read()


async def test_pods_survive_a_restart_of_the_kubelet(path: Path, attribution: Attribution) -> None:
    def owner(key: str) -> Owners | None:
        return attribution.find([key], None, is_local=True)

    attribution.apply([Kubelet(str(path), 0.01)])
    await eventually(lambda: bool(attribution.states))
    (state,) = attribution.states
    for gone, there, running in (("gpu-cc", "gpu-aa", TRAIN), ("gpu-aa", "gpu-cc", INFER)):
        with kubelet(path, lambda _, running=running: pods(running)):  # type: ignore[misc]
            await eventually(lambda there=there: bool(owner(there)))  # type: ignore[misc]
            assert owner(gone) == ()
            assert state.up
        await eventually(lambda: not state.up)
        assert owner(there)
    assert state.errors.keys() == {"unreadable"}


async def test_a_kubelet_that_hangs_costs_a_look_and_nothing_else(
    path: Path, attribution: Attribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution_module, "READ_SECONDS", 0.2)
    free, hangs = threading.Event(), threading.Event()
    free.set()

    def answer(_: grpc.ServicerContext) -> bytes:
        if not free.is_set():
            hangs.set()
            free.wait()
        return pods(TRAIN)

    with kubelet(path, answer):
        attribution.apply([Kubelet(str(path), 0.01)])
        await eventually(lambda: bool(attribution.states) and attribution.states[0].up)
        free.clear()
        await eventually(lambda: attribution.states[0].errors.get("timeout", 0) > 0)
        assert hangs.is_set()
        assert attribution.find(["gpu-aa"], None, is_local=True)
        free.set()
        await eventually(lambda: attribution.states[0].up)
