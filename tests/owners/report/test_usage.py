"""The reports of several daemons as one: each job and each GPU counts once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, pod
from pulsed.owners.accounting.account import GpuAccount, OwnerAccount
from pulsed.owners.report.account_totals import merged_accounts
from pulsed.owners.report.job_numbers import Prices
from pulsed.owners.report.text_table import job_table
from pulsed.owners.report.usage import LABELS, GroupBy, merged_usage, usage_csv, usage_table
from pulsed.present.api.usage_documents import usage
from tests.owners.report.accounts import BEGIN, HOUR, document, gpu_account

BOB = Owner("slurm_job", "900", begin=Unix(BEGIN), user="bob", account="lab", name="two")
PRICES = Prices(2.0, 0.3)
Jobs = Sequence[tuple[Owner, Sequence[GpuAccount]]]


def gpus(node: str) -> list[GpuAccount]:
    return [gpu_account(index, node=node) for index in range(4)]


def report(jobs: Jobs, by: GroupBy = "user") -> dict[str, Any]:
    """Return the answer of a daemon with these jobs."""
    end = BEGIN + 4.0 * HOUR
    accounts = [OwnerAccount(owner, Unix(BEGIN), Unix(BEGIN), Unix(end), Unix(end)) for owner, _ in jobs]
    for account, (_, own) in zip(accounts, jobs, strict=True):
        account.gpus = {gpu.device.entity.key: gpu for gpu in own}
    return usage(accounts, by, "here").with_costs(PRICES)._asdict()


@pytest.mark.parametrize("by", ["user", "account", "namespace", "workload", "node"])
def test_a_job_on_several_nodes_is_one_job(by: GroupBy) -> None:
    nodes = ("n1", "n2", "n3", "n4")
    merged = merged_usage({node: report([(BOB, gpus(node))], by) for node in nodes}, LABELS[by])
    hours = sum(row["gpu_seconds"] for row in merged.rows) / HOUR
    assert hours == pytest.approx(4 * 4 * 4.0)
    assert {row["jobs"] for row in merged.rows} == {1}
    assert len(merged.rows) == (4 if by == "node" else 1)
    assert [(job["gpu_count"], job["gpu_seconds"] / HOUR) for job in merged.worst] == [(16, hours)]
    assert merged.duplicates == []
    text = usage_table({"by": by, "seconds": HOUR, "rows": merged.rows, "worst": []})
    if by == "node":
        assert text.splitlines()[-1].split()[:3] == ["all", "1", "64.0"]


def test_gpus_that_two_daemons_report_count_once() -> None:
    """A fleet daemon reads two nodes; one of them has a daemon of its own, as has a third node."""
    other = (pod("ml", "web"), [gpu_account(9, node="n1")])
    fleet = report([(BOB, [*gpus("n1"), *gpus("n2")]), other])
    single, third = report([(BOB, gpus("n1")), other]), report([(BOB, gpus("n3"))])
    merged = merged_usage({"fleet": fleet, "n1": single, "n3": third}, LABELS["user"])
    rows = {row["user"]: row for row in merged.rows}
    hours = 3 * 4 * 4.0
    assert rows["bob"]["gpu_seconds"] == pytest.approx(hours * HOUR)
    assert rows["bob"]["energy_joules"] == pytest.approx(hours * HOUR * 500.0)
    assert rows["bob"]["cost"]["total"] == pytest.approx(hours * 2.0 + hours * 0.5 * 0.3)
    assert (rows["bob"]["jobs"], rows[""]["jobs"], rows[""]["gpu_seconds"]) == (1, 1, 4.0 * HOUR)
    assert {job["owner"]["id"]: job["gpu_count"] for job in merged.worst} == {"900": 12, "ml/web": 1}
    (text,) = merged.duplicates
    assert text == ("5 GPUs of n1, such as GPU-n1-0, are reported by two daemons, fleet and n1: they count once")
    assert usage_csv({"by": "user", "rows": merged.rows}).count("\n") == 3


def test_a_report_counts_a_board_and_its_instances_once() -> None:
    board, instance = gpu_account(0), gpu_account(0)
    instance.device = Device(Entity("mig", "0", board.device.entity.uuid, "1", "1g.10gb", "gpu01"))
    (job,) = report([(BOB, [board, instance])])["worst"]
    assert (job["gpu_count"], job["gpu_seconds"]) == (1, 8.0 * HOUR)


def test_carbon_has_a_column_where_its_intensity_is_known() -> None:
    prices = Prices(co2_grams_per_kwh=400.0)
    made = [usage([account_of(node)], "user", "here").with_costs(prices)._asdict() for node in ("n1", "n2")]
    merged = merged_usage({"n1": made[0], "n2": made[1]}, LABELS["user"])
    (row,) = merged.rows
    kilowatt_hours = 2 * 4 * 4.0 * 0.5
    assert (row["co2_grams"], row["cost"]) == (pytest.approx(400.0 * kilowatt_hours), None)
    text = usage_table({"by": "user", "seconds": HOUR, "rows": [row], "worst": []})
    assert "CO2 KG" in text
    assert f" {0.4 * kilowatt_hours:.1f} " in text
    header, line = usage_csv({"by": "user", "rows": [row]}).splitlines()
    assert header.split(",")[-1] == "co2_grams"
    assert float(line.split(",")[-1]) == pytest.approx(400.0 * kilowatt_hours)
    assert "CO2" not in usage_table(
        {"by": "user", "seconds": HOUR, "rows": report([(BOB, gpus("n1"))])["rows"], "worst": []}
    )


def account_of(node: str) -> OwnerAccount:
    """Return an account of four GPUs of a node."""
    account = OwnerAccount(BOB, Unix(BEGIN), Unix(BEGIN), Unix(BEGIN + 4.0 * HOUR), Unix(BEGIN + 4.0 * HOUR))
    account.gpus = {gpu.device.entity.key: gpu for gpu in gpus(node)}
    return account


def test_a_requeued_job_is_one_job_and_pods_are_several() -> None:
    made = report([(BOB, gpus("n1")), (BOB, gpus("n2")), (pod("ml", "a"), gpus("n3")), (pod("ml", "b"), gpus("n4"))])
    assert {row["user"]: row["jobs"] for row in made["rows"]} == {"bob": 1, "": 2}


def test_the_list_has_a_line_for_each_job() -> None:
    first, second = document(*gpus("n1"), owner=BOB), document(*gpus("n2"), owner=BOB, begin=BEGIN + 2.0)
    earlier = document(*gpus("n1"), owner=BOB, begin=BEGIN - 1e6)
    accounts, duplicates = merged_accounts({"n1": [first, earlier], "n2": [second]})
    assert [(each["gpu_count"], len(each["gpus"])) for each in accounts] == [(4, 4), (8, 8)]
    line = job_table(accounts[1:]).splitlines()[1].split()
    assert (line[0], line[7:9]) == ("900", ["8", "2"])
    assert duplicates == []
    accounts, duplicates = merged_accounts({"fleet": [first], "n1": [first]})
    assert [each["gpu_count"] for each in accounts] == [4]
    assert duplicates == ["4 GPUs, such as GPU-n1-0, are reported by two daemons, fleet and n1: they count once"]
