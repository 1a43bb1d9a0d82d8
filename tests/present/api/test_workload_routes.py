"""`/workloads`: rows of pods, workloads, jobs and users with the values of their metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pulsed.model.clocks import Monotonic
from pulsed.model.owner import Owner, Owners, pod
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.owners.report.owner_totals import WorkloadTotals
from pulsed.present.api.account_lookup import Accounts
from pulsed.present.api.routes.owners import WorkloadsShape, owner_router
from tests.compute.streams import activity
from tests.owners.accounting.streams import Node
from tests.present.api.client import ask, routes
from tests.support.documents import has_shape

WORKS = Reading(**activity(0.6), memory_used_bytes=40e9, power_watts=500.0)
RESTS = Reading(**activity(0.0), memory_used_bytes=10e9, power_watts=100.0)
ANN = Owner("slurm_job", "4711", user="ann", account="lab", partition="gpu")


def web(name: str) -> Owner:
    return replace(pod("ml", name, "main"), workload="web", workload_kind="Deployment")


async def get(query: str, gpus: Sequence[tuple[Owners | None, Reading]], age: float = 0.0) -> Any:
    node = Node()
    for _ in range(3):
        node.sees(*gpus)
    assert node.tick is not None
    target = Target("exporter", "test", 1.0, 10.0)
    target.accept(node.tick, Monotonic(time.monotonic() - age))
    accounts = Accounts(node.accounting, EndedAccounts(), workloads=WorkloadTotals())
    store = TargetStore("here", [target])
    app = routes(owner_router(store, accounts))
    status, document, _ = await ask(app, f"/workloads{query}")
    assert status == 200
    assert has_shape(WorkloadsShape, document)
    assert document["node"] == "here"
    return document["workloads"]


async def test_a_workload_is_a_row() -> None:
    (row,) = await get("", [((web("a"),), WORKS), ((web("b"),), RESTS)])
    assert {name: row[name] for name in ("namespace", "workload", "workload_kind")} == {
        "namespace": "ml",
        "workload": "web",
        "workload_kind": "Deployment",
    }
    assert (row["gpus"], row["pods"]) == (2, 2)
    assert row["real_utilization_ratio"] == pytest.approx(0.3)
    assert row["real_utilization_ratio_sum"] == pytest.approx(0.6)
    assert sum(row["classes"].values()) == 2
    assert row["classes"]["idle"] == 1
    assert (row["memory_used_bytes"], row["power_watts"]) == (50e9, 600)
    assert row["gpu_seconds_total"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("by", "labels", "gpus"),
    [
        ("pod", [{"namespace": "ml", "pod": "a", "container": "main"}], [1]),
        ("job", [{"job_id": "4711", "user": "ann", "account": "lab", "partition": "gpu"}], [1]),
        ("user", [{"user": "ann"}], [1]),
        ("workload", [{"namespace": "ml", "workload": "web", "workload_kind": "Deployment"}], [1]),
    ],
)
async def test_rows_are_grouped(by: str, labels: list[dict[str, str]], gpus: list[float]) -> None:
    rows = await get(f"?by={by}", [((web("a"),), WORKS), ((ANN,), WORKS)])
    assert [{name: row.get(name) for name in labels[0]} for row in rows] == labels
    assert [row["gpus"] for row in rows] == gpus


async def test_a_label_without_a_value_is_absent() -> None:
    (row,) = await get("?by=job", [((Owner("slurm_job", "4711"),), WORKS)])
    assert row["job_id"] == "4711"
    assert {"user", "account", "partition"}.isdisjoint(row)


async def test_unknown_values_are_null() -> None:
    (row,) = await get("", [((web("a"),), Reading())])
    assert (row["gpus"], row["real_utilization_ratio"]) == (1, None)
    assert row["memory_used_bytes"] is None


async def test_gpus_without_fresh_data_or_owners_have_no_row() -> None:
    assert await get("", [((web("a"),), WORKS)], age=11.0) == []
    assert await get("?by=pod", [(None, WORKS), ((), WORKS)]) == []
