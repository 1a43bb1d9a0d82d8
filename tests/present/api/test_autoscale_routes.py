"""`/autoscale/v1/...` of boards made by hand: when there is a number, 0, 404 or 503."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pulsed.model.computed_tick import RealUtilization
from pulsed.model.owner import Owner, pod
from pulsed.model.target_store import Target
from pulsed.present.api.json_response import Failure
from pulsed.present.api.routes.autoscale import POD_GPUS, ScaleNumber, autoscale_router
from tests.present.api.client import Answer, ask, parts, routes
from tests.present.boards import SETTLED, TIME, Gpu, gpu, mig, store_of, target, tick
from tests.support.documents import has_shape

INFER = {"workload": "infer", "workload_kind": "Deployment"}
FIELD = "real_utilization_ratio"
HOWS = ("sum", "avg", "max", "min")


def of(name: str, container: str = "main", **workload: str) -> Owner:
    return replace(pod("ml", name, container), **workload)  # type: ignore[arg-type] # texts only


def held(given: Gpu, *owners: Owner, ratio: float | None = None) -> Gpu:
    known = SETTLED if ratio is None else SETTLED._replace(real_utilization=RealUtilization(ratio, ratio, ratio, 1, ()))
    return given._replace(device=replace(given.device, owners=owners), result=known)


def current(*gpus: Gpu, age: float = 0.0) -> Target:
    return target(f"target {age}", tick(gpus), arrived=time.monotonic() - age)


async def get(path: str, *targets: Target) -> Answer:
    return await ask(routes(autoscale_router(parts(store_of(*targets)))), f"/autoscale/v1/{path}")


def path(how: str, workload: str = "Deployment/infer", metric: str = "real_utilization", namespace: str = "ml") -> str:
    return f"{how}/{namespace}/{workload}/{metric}"


TWO = (held(gpu(0), of("a", **INFER), ratio=0.9), held(gpu(1), of("b", **INFER), ratio=0.0))


@pytest.mark.parametrize(("how", "value"), [("sum", 0.9), ("avg", 0.45), ("max", 0.9), ("min", 0.0)])
async def test_an_idle_pod_counts_as_0(how: str, value: float) -> None:
    status, document, _ = await get(path(how), current(*TWO, gpu(2)))
    assert status == 200
    assert has_shape(ScaleNumber, document)
    expected = {"gpus": 2, "pods": 2, "shares": 2.0, "timestamp": "2026-01-01T00:00:00.100Z", "stale": False}
    assert document == {"value": pytest.approx(value), **expected}


@pytest.mark.parametrize(
    ("workload", "metric", "value"),
    [
        ("Pod/a", "real_utilization", 0.9),
        ("Pod/a", "real_utilization_ratio", 0.9),
        ("Deployment/infer", "power_watts", 300.0),
    ],
)
async def test_names(workload: str, metric: str, value: float) -> None:
    gpus = [each._replace(reading=each.reading._replace(power_watts=150.0)) for each in TWO]
    assert (await get(path("sum", workload, metric), current(*gpus)))[1]["value"] == pytest.approx(value)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "workload", ["Deployment/other", "StatefulSet/infer", "Pod/infer", "deployment/infer", "Deployment/a"]
)
async def test_a_workload_that_is_not_here_is_0_in_a_sum_and_else_not_found(how: str, workload: str) -> None:
    status, document, _ = await get(path(how, workload), current(*TWO))
    assert status == (200 if how == "sum" else 404)
    if how == "sum":
        assert (document["value"], document["gpus"], document["pods"], document["stale"]) == (0.0, 0, 0, False)
    else:
        assert "has no GPU on node here" in Failure.model_validate(document, strict=True).model_dump()["error"]


@pytest.mark.parametrize("how", HOWS)
async def test_stale_data_is_unavailable(how: str) -> None:
    status, document, headers = await get(path(how), current(*TWO, age=60.0))
    assert (status, headers["retry-after"]) == (503, "5")
    expected = "target 60.0 has no current data"
    assert document == {
        "error": expected if how == "sum" else f"{FIELD}: 2 of 2 GPUs are stale, 0 have no value; pods: a, b"
    }


async def test_a_sum_needs_every_gpu_and_a_mean_takes_those_that_are_current() -> None:
    targets = current(TWO[0]), current(TWO[1], age=60.0)
    assert (await get(path("sum"), *targets))[0] == 503
    status, document, _ = await get(path("avg"), *targets)
    assert (status, document["value"], document["gpus"], document["stale"]) == (200, pytest.approx(0.9), 1, True)


@pytest.mark.parametrize("how", HOWS)
async def test_absence_is_not_certain_without_data(how: str) -> None:
    never = target("http://a:9400/metrics")
    never.fail("timeout", "no answer")
    status, document, _ = await get(path(how), never)
    assert (status, document["error"]) == (503, "http://a:9400/metrics has no current data: no answer")
    assert (await get(path(how, "Deployment/other"), current(*TWO), never))[0] == 503


@pytest.mark.parametrize("how", HOWS)
async def test_absence_is_not_certain_while_the_workload_of_a_pod_is_not_known(how: str) -> None:
    unresolved = current(held(gpu(0), of("c")))
    status, document, _ = await get(path(how), unresolved)
    assert (status, "the workload of pod ml/c is not known" in document["error"]) == (503, True)
    status = 200 if how == "sum" else 404
    assert (await get(path(how, namespace="other"), unresolved))[0] == status
    beside = current(*TWO, held(gpu(2), of("c")))
    assert (await get(path(how), beside))[0] == (503 if how == "sum" else 200), "the pod may be one of the workload"
    assert (await get(path(how, "Pod/x"), unresolved))[0] == status


@pytest.mark.parametrize(("how", "value"), [("sum", 0.8), ("avg", 0.8), ("max", 0.8)])
async def test_a_shared_gpu_counts_once(how: str, value: float) -> None:
    shared = held(gpu(0), of("a", **INFER), of("b", **INFER), of("a", "side", **INFER), ratio=0.8)
    _, document, _ = await get(path(how), current(shared))
    assert (document["value"], document["gpus"], document["pods"]) == (pytest.approx(value), 1, 2)


async def test_a_gpu_that_others_share_counts_by_its_share() -> None:
    shared = held(gpu(0), of("a", **INFER), of("c", workload="other", workload_kind="Deployment"), ratio=0.8)
    assert (await get(path("sum"), current(shared)))[1]["value"] == pytest.approx(0.4)
    assert (await get(path("avg"), current(shared)))[1]["value"] == pytest.approx(0.8)


async def test_instances_count_and_not_their_board() -> None:
    owner = of("a", **INFER)
    instance = mig(0, 7)
    whole = held(gpu(0), owner, ratio=0.1)
    status, document, _ = await get(path("sum"), current(whole, held(instance, owner, ratio=0.6)))
    assert (status, document["value"], document["gpus"]) == (200, pytest.approx(0.6), 1)


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
