"""`/autoscale/v1/gpus` of boards made by hand."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pulsed.model.computed_tick import RealUtilization
from pulsed.model.owner import Owner, pod
from pulsed.model.target_store import Target
from pulsed.present.api.routes.autoscale import POD_GPUS, autoscale_router
from tests.present.api.client import Answer, ask, parts, routes
from tests.present.boards import SETTLED, TIME, Gpu, gpu, mig, store_of, target, tick
from tests.support.documents import has_shape

INFER = {"workload": "infer", "workload_kind": "Deployment"}
FIELD = "real_utilization_ratio"


def of(name: str, container: str = "main", **workload: str) -> Owner:
    return replace(pod("ml", name, container), **workload)  # type: ignore[arg-type] # texts only


def held(given: Gpu, *owners: Owner, ratio: float | None = None) -> Gpu:
    known = SETTLED if ratio is None else SETTLED._replace(real_utilization=RealUtilization(ratio, ratio, ratio, 1, ()))
    return given._replace(owners=owners, result=known)


def current(*gpus: Gpu, age: float = 0.0) -> Target:
    return target(f"target {age}", tick(gpus), arrived=time.monotonic() - age)


async def get(path: str, *targets: Target) -> Answer:
    return await ask(routes(autoscale_router(parts(store_of(*targets)))), f"/autoscale/v1/{path}")


TWO = (held(gpu(0), of("a", **INFER), ratio=0.9), held(gpu(1), of("b", **INFER), ratio=0.0))


async def test_instances_count_and_not_their_board() -> None:
    owner = of("a", **INFER)
    _, document, _ = await get("gpus", current(held(gpu(0), owner, ratio=0.1), held(mig(0, 7), owner, ratio=0.6)))
    (row,) = document["gpus"]
    assert row["values"][FIELD] == pytest.approx(0.6)


async def test_containers_that_share_a_gpu_have_equal_shares() -> None:
    shared = held(gpu(0), of("a", **INFER), of("b", **INFER), of("a", "side", **INFER), ratio=0.8)
    _, document, _ = await get("gpus", current(shared))
    assert [row["share"] for row in document["gpus"]] == [pytest.approx(1 / 3)] * 3
    assert {row["gpu"] for row in document["gpus"]} == {"node1/GPU-node1-0000"}


async def test_rows() -> None:
    status, document, _ = await get("gpus?fields=real_utilization_ratio,power_watts", current(*TWO, gpu(2)))
    assert status == 200
    assert has_shape(POD_GPUS, document)
    first = {
        "namespace": "ml", "pod": "a", "container": "main", **INFER, "gpu": "node1/GPU-node1-0000", "share": 1.0,
        "time": round(TIME, 3), "stale": False, "values": {"real_utilization_ratio": 0.9, "power_watts": None},
    }  # fmt: skip
    assert document["gpus"][0] == first
    assert [row["pod"] for row in document["gpus"]] == ["a", "b"]
    _, document, _ = await get("gpus", current(*TWO, age=60.0))
    assert [row["stale"] for row in document["gpus"]] == [True, True]
