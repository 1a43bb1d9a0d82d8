"""`/jobs`: its pages, and totals that do not depend on them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, pod
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.saved_accounts import EndedAccounts, dump_account, load_account
from pulsed.owners.report.job_report import job_report
from pulsed.present.api.account_lookup import Accounts
from pulsed.present.api.routes.owners import owner_router
from tests.compute.streams import DAY, activity
from tests.owners.accounting.streams import Node, job
from tests.present.api.client import ask, routes

WORKS = Reading(**activity(0.6), memory_used_bytes=40e9, power_watts=500.0)
RESTS = Reading(**activity(0.0), memory_used_bytes=10e9, power_watts=100.0)


async def get(query: str) -> Any:
    """Return the answer of a node where the oldest two of five jobs share an idle GPU."""
    idle, busy = [tuple(job(str(number), DAY - 10 + number) for number in numbers) for numbers in ((0, 1), (2, 3, 4))]
    return await answer_of((idle, RESTS), (busy, WORKS), query=query)


async def answer_of(*gpus: tuple[Owners, Reading], query: str) -> Any:
    """Return the answer of a node with these GPUs and their owners."""
    node = Node()
    for _ in range(5):
        node.sees(*gpus)
    assert node.tick is not None
    target = Target("exporter", "test", 1.0, 10.0)
    target.accept(node.tick, Monotonic(time.monotonic()))
    app = routes(owner_router(TargetStore("here", [target]), Accounts(node.accounting, EndedAccounts())))
    status, document, _ = await ask(app, f"/jobs{query}")
    assert status == 200
    return document


async def test_totals_are_of_all_pages() -> None:
    for query in ("", "?limit=2", "?limit=2&offset=4", "?limit=1&sort=idle"):
        document = await get(query)
        assert (document["running"], document["idle_gpus"]) == (5, 1)
    assert (await get("?user=nobody"))["running"] == 0


async def test_pages_follow_each_other_in_both_orders() -> None:
    async def pages(sort: str) -> list[list[str]]:
        found = [await get(f"?limit=2&offset={offset}&sort={sort}") for offset in (0, 2, 4, 6)]
        return [[each["owner"]["id"] for each in document["jobs"]] for document in found]

    newest = await pages("begin")
    assert newest == [["4", "3"], ["2", "1"], ["0"], []]
    idle = await pages("idle")
    assert idle == [["1", "0"], ["4", "3"], ["2"], []]


async def test_a_pod_has_the_gpus_of_all_of_its_containers() -> None:
    one, two, other = (pod("ml", "p", "one"), pod("ml", "p", "two"), pod("ml", "q", "one"))
    for id in ("ml/p", "pod:ml/p", "p"):
        document = await answer_of(((one,), WORKS), ((two, other), RESTS), query=f"/{id}")
        owner = document["owner"]
        assert (owner["kind"], owner["id"], owner["container"]) == ("pod", "ml/p", "one, two")
        assert {(gpu["gpu"], gpu["shared_by"]) for gpu in document["gpus"]} == {("0", 1), ("1", 2)}
        assert document["total"]["gpu_seconds"] == 4.0 + 2.0
        assert "Pod ml/p (one, two)   2 x " in job_report(document)
        assert document.keys() == (await answer_of(((one,), WORKS), query="/ml/p/one")).keys()
    assert (await answer_of(((one,), WORKS), ((two,), RESTS), query="/ml/p/two"))["gpu_count"] == 1
    both = await answer_of(((one,), WORKS), ((two,), RESTS), query="/ml/p?all=true")
    assert [each["owner"]["id"] for each in both] == ["ml/p/one", "ml/p/two"]


async def test_a_requeued_job_names_its_earlier_accounts() -> None:
    node = Node()
    for begin in (DAY - 200, DAY - 100, DAY + 10):
        for _ in range(5):
            node.sees(((job("4711", begin),), WORKS))
    assert node.tick is not None
    target = Target("exporter", "test", 1.0, 10.0)
    target.accept(node.tick, Monotonic(time.monotonic()))
    ended = EndedAccounts()
    for account in node.ended:
        ended.add(account)
    accounts = Accounts(node.accounting, ended)
    status, document, _ = await ask(routes(owner_router(TargetStore("here", [target]), accounts)), "/jobs/4711")
    assert status == 200
    assert [each["begin"] for each in document["earlier"]] == ["2025-12-31T23:58:20.000Z", "2025-12-31T23:56:40.000Z"]
    text = job_report(document)
    assert "Earlier     2025-12-31 23:58 to 2026-01-01 00:00, 2025-12-31 23:56 to" in text


TASKS = (
    Owner("slurm_job", "500_1", Unix(DAY), user="ann", labels=(("job_id", "501"),)),
    Owner("slurm_job", "500", Unix(DAY), user="ann", labels=(("array", "500_2"),)),
)


@pytest.mark.parametrize(
    ("name", "ids"),
    [("501", ["500_1"]), ("500_1", ["500_1"]), ("500_1.0", ["500_1"]), ("500_2", ["500"]), ("500", ["500_1", "500"])],
)
async def test_the_names_of_the_tasks_of_an_array(name: str, ids: list[str]) -> None:
    gpus = [((task,), WORKS) for task in TASKS]
    listed = await answer_of(*gpus, query=f"/{name}?all=true")
    assert sorted(each["owner"]["id"] for each in listed) == sorted(ids)
    document = await answer_of(*gpus, query=f"/{name}")
    assert document["gpu_count"] == len(ids)
    assert document["total"]["gpu_seconds"] == 4.0 * len(ids)


async def test_the_id_of_an_array_has_all_of_its_tasks() -> None:
    document = await answer_of(*[((task,), WORKS) for task in TASKS], query="/500")
    assert document["owner"]["id"] == "500"
    assert {part["id"]: part["state"] for part in document["parts"]} == {"500_1": "running", "500_2": "running"}
    assert document["part_count"] == 2
    text = job_report(document)
    assert "Job 500 (ann)   2 x GPU, 2 tasks, 1 node, " in text
    assert "  1 (500_2)  " in text
    one = await answer_of(*[((task,), WORKS) for task in TASKS], query="/500_2")
    assert job_report(one).startswith("Job 500_2 (ann)   1 x GPU, 1 node, ")


async def test_tasks_that_had_one_gpu_after_each_other() -> None:
    node = Node()
    for task in TASKS:
        for _ in range(5):
            node.sees(((task,), WORKS))
    assert node.tick is not None
    target = Target("exporter", "test", 1.0, 10.0)
    target.accept(node.tick, Monotonic(time.monotonic()))
    ended = EndedAccounts()
    for account in node.ended:
        ended.add(account)
    accounts = Accounts(node.accounting, ended)
    status, document, _ = await ask(routes(owner_router(TargetStore("here", [target]), accounts)), "/jobs/500")
    assert status == 200
    assert (document["gpu_count"], len(document["gpus"]), document["part_count"]) == (1, 2, 2)


async def test_the_nearest_names_of_one_that_is_not_found() -> None:
    node = Node()
    node.sees(((job("4711"),), WORKS), ((pod("ml", "web-0"),), RESTS))
    assert node.tick is not None
    target = Target("exporter", "test", 1.0, 10.0)
    target.accept(node.tick, Monotonic(time.monotonic()))
    app = routes(owner_router(TargetStore("here", [target]), Accounts(node.accounting, EndedAccounts())))
    status, document, _ = await ask(app, "/jobs/4712")
    assert (status, document["nearest"]) == (404, ["4711"])
    assert document["error"] == "job '4712' not found; the nearest names are 4711; /jobs lists all jobs"
    status, document, _ = await ask(app, "/jobs/zzzzzz")
    assert (status, document) == (404, {"error": "job 'zzzzzz' not found; /jobs lists all jobs"})


async def test_the_texts_of_a_report_are_those_of_pulsed_job() -> None:
    document = await answer_of(((job("4711", DAY),), WORKS), query="/4711?report=true")
    report = document["report"]
    printed = job_report(document)
    assert printed.startswith(f"{report['title']}   ")
    for title, text in report["facts"]:
        assert f"{title:<12}{text}\n" in printed
    for text in (*report["advice"], *report["unknown"]):
        assert text in printed
    assert report["statistics"][0][:2] == ["", "mean"]
    assert "report" not in await answer_of(((job("4711", DAY),), WORKS), query="/4711")


async def test_a_comparison_with_another_job() -> None:
    document = await answer_of(((job("1", DAY),), WORKS), ((job("2", DAY),), RESTS), query="/1?with=2")
    comparison = document["comparison"]
    assert comparison["first"].startswith("Job 1   1 x ")
    assert comparison["second"].startswith("Job 2   1 x ")
    assert comparison["rows"][0][:6] == ["", "first", "spread", "second", "spread", "difference"]
    assert comparison["notes"][0].startswith("Differs by more than the spread: real work")


async def test_an_owner_that_waits_for_its_exporter_after_a_restart_is_running_with_a_gap() -> None:
    node = Node()
    for _ in range(10):
        node.sees(((job("4711", DAY),), WORKS))
    saved = load_account(json.loads(json.dumps(dump_account(node.running(job("4711"))))))
    saved.last_seen = Unix(time.time() - 30.0)
    accounting = OwnerAccounting()
    accounting.restore([saved])
    app = routes(owner_router(TargetStore("here", []), Accounts(accounting, EndedAccounts())))
    _, listed, _ = await ask(app, "/jobs")
    assert (listed["running"], [each["owner"]["id"] for each in listed["jobs"]]) == (1, ["4711"])
    status, document, _ = await ask(app, "/jobs/4711")
    assert (status, document["state"], document["total"]["gpu_seconds"]) == (200, "running", 9.0)
    assert 40.0 <= document["elapsed_seconds"] < 70.0
    assert 9.0 / 70.0 < document["coverage"] < 9.0 / 39.0
    _, report, _ = await ask(app, "/report")
    assert [(row["jobs"], row["gpu_seconds"]) for row in report["rows"]] == [(1, 9.0)]


async def test_jobs_that_claim_a_board_share_its_instances() -> None:
    """The mapping names the board: which instance is whose is not known."""
    instances = [Device(Entity("mig", "0", "GPU-aa", str(id), "3g.40gb", "here"), "NVIDIA H100") for id in (1, 2)]
    owners = (job("11", DAY), job("12", DAY))
    node = Node(30.0)
    for _ in range(41):
        node.sees((owners, WORKS), (owners, RESTS), devices=instances)
    assert node.tick is not None
    target = Target("exporter", "test", 1.0, 10.0)
    target.accept(node.tick, Monotonic(time.monotonic()))
    app = routes(owner_router(TargetStore("here", [target]), Accounts(node.accounting, EndedAccounts())))
    for id in ("11", "12"):
        _, document, _ = await ask(app, f"/jobs/{id}")
        assert (document["gpu_count"], document["total"]["gpu_seconds"]) == (1, 1200.0)
        assert not document["total"]["lower"].get("idle_seconds")
        assert document["advice"] == []
        text = job_report(document)
        assert "1 x H100 MIG, 1 node" in text
        assert "AutoDetect=nvml" in text
        assert "Verdict     Not known: which MIG instances of the board are this job's" in text
    _, workloads, _ = await ask(app, "/workloads?by=job")
    assert [row["gpus"] for row in workloads["workloads"]] == [1.0, 1.0]
