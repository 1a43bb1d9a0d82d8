from __future__ import annotations

import pytest

from pulsed.model.clocks import Unix
from pulsed.owners.accounting.account import GpuAccount, OwnerEvent
from pulsed.owners.report.account_totals import merged_account
from tests.owners.report.accounts import BEGIN, document, gpu_account

XID = OwnerEvent(Unix(BEGIN + 7320.0), "xid", "ok", "warn", "XID 31")
HANG = OwnerEvent(Unix(BEGIN + 7320.0), "hang", "ok", "suspected", "busy without progress for 10 min")


def ids(*gpus: GpuAccount, hours: float = 4.0) -> list[str]:
    return [each["id"] for each in document(*gpus, hours=hours)["advice"]]


def test_a_job_in_order_gets_no_advice() -> None:
    assert ids(*map(gpu_account, range(8))) == []


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([gpu_account(0), gpu_account(1, real=0.0, idle=0.95)], ["idle_gpu"]),
        ([gpu_account(0), gpu_account(1, real=0.4, idle=0.94)], []),
        ([gpu_account(0, last_idle=1800.0)], ["idle_tail"]),
        ([gpu_account(0, last_idle=1799.0)], []),
        ([gpu_account(0, 1.0, last_idle=720.0)], ["idle_tail"]),
        ([gpu_account(0, real=0.8), gpu_account(1, real=0.3)], ["imbalance"]),
        ([gpu_account(0, real=0.8), gpu_account(1, real=0.35)], []),
        ([gpu_account(0, io=0.2)], ["io"]),
        ([gpu_account(0, io=0.19)], []),
        ([gpu_account(0, sm=0.14)], ["underfed"]),
        ([gpu_account(0, sm=0.08, idle=0.5)], []),
        ([gpu_account(0, violations=(None, 1500.0))], ["throttled"]),
        ([gpu_account(0, violations=(1500.0, 1400.0))], ["throttled"]),
        ([gpu_account(0, peak=0.24, real=0.19)], ["small"]),
        ([gpu_account(0, peak=0.24, real=0.2)], []),
        ([gpu_account(0, peak=0.25, real=0.19)], []),
        ([gpu_account(0, events=(XID, XID))], ["health"]),
        ([gpu_account(0, events=(HANG,))], ["hang"]),
    ],
)
def test_advice_at_its_threshold(gpus: list[GpuAccount], expected: list[str]) -> None:
    assert ids(*gpus) == expected


@pytest.mark.parametrize(("c2c", "links"), [(None, "PCIe was"), (0.0, "PCIe was"), (1e12, "PCIe or C2C was")])
def test_the_link_of_a_superchip_is_named(c2c: float | None, links: str) -> None:
    (advice,) = document(gpu_account(0, io=0.2, c2c=c2c))["advice"]
    assert advice["evidence"].startswith(f"{links} busy and SMs were not for 20 %")


def test_memory_bound_is_no_fault() -> None:
    assert ids(gpu_account(0, usual="memory_bound")) == []


@pytest.mark.parametrize(
    "gpu",
    [
        gpu_account(0, idle=1.0, seen=0.89),
        gpu_account(0, idle=1.0, samples=9),
        gpu_account(0, 0.049, last_idle=170.0),
    ],
)
def test_without_enough_observed_time_there_is_none(gpu: GpuAccount) -> None:
    assert ids(gpu, hours=gpu.held / 3600.0) == []


@pytest.mark.parametrize("seen", [0.5, 1.0])
def test_gpus_that_do_not_answer_come_first(seen: float) -> None:
    gpus = [gpu_account(number, seen=seen) for number in range(3)]
    gpus[0].add_event(XID)
    gpus[1].add_event(OwnerEvent(Unix(BEGIN + 7000.0), "telemetry", "ok", "warn", "not listed", "Compare the lists."))
    gpus[2].add_event(OwnerEvent(Unix(BEGIN + 7000.0), "telemetry", "ok", "warn", "not listed"))
    gpus[2].add_event(OwnerEvent(Unix(BEGIN + 7100.0), "gpu_lost", "ok", "crit", "lost", "Restart the node."))
    advice = [(each["evidence"].split(",")[0], each["text"]) for each in document(*gpus, hours=4.0)["advice"]]
    assert advice[:2] == [("GPU 1: not listed", "Compare the lists."), ("GPU 2: lost", "Restart the node.")]
    assert ("GPU 0: XID 31" in [evidence for evidence, _ in advice]) is (seen == 1.0)


def test_shared_gpus_are_not_compared() -> None:
    assert ids(gpu_account(0, real=0.8), gpu_account(1, real=0.1, sharers=2)) == []


def test_the_numbers_are_named() -> None:
    made = document(
        gpu_account(0), gpu_account(3, real=0.1, idle=0.98), gpu_account(4, last_idle=7000.0, events=(XID,))
    )
    assert [each["evidence"] for each in made["advice"]] == [
        "GPU 4: XID 31, at 2026-01-01 02:02 UTC",
        "GPU 3: idle 3 h 55 min of 4 h",
        "GPU 4: idle for the last 1 h 56 min of 4 h",
    ]


@pytest.mark.parametrize(("media", "expected"), [(0.06, []), (0.04, ["underfed", "small"])])
def test_a_gpu_that_transcodes_is_neither_underfed_nor_too_large(media: float, expected: list[str]) -> None:
    gpu = gpu_account(0, sm=0.01, real=0.01, peak=0.1)
    gpu.extremes.media_active = media * 4.0 * 3600.0
    assert ids(gpu) == expected
    assert ids(gpu, gpu_account(1)) == ([] if not expected else ["imbalance"])


@pytest.mark.parametrize(
    ("stops", "first"),
    [
        ({"gpu01": 60.0, "gpu02": 50.0}, "; GPU gpu02/3 stopped first, at 00:48:10 UTC"),
        ({"gpu01": 60.0, "gpu02": 59.9}, ""),
        ({"gpu01": 60.0}, ""),
        ({"gpu01": 60.0, "gpu02": None}, "; node gpu02 has been silent since 00:58:10 UTC"),
    ],
)
def test_a_hang_is_one_advice_and_names_the_node_that_stopped_first(stops: dict[str, float | None], first: str) -> None:
    """The reports of daemons of several nodes, each of which knows its own GPUs only; None: its last sample is old."""
    text = "busy for 10 min without traffic or change"
    accounts = []
    for node, minute in stops.items():
        gpu = gpu_account(3, 1.5, node=node, samples=2700)
        gpu.extremes.worked, gpu.extremes.last_sample = 3000.0, Unix(BEGIN + 90.0 * 60.0)
        if minute is None:
            gpu.extremes.last_work = gpu.extremes.last_sample = Unix(BEGIN + 3490.0)
        else:
            gpu.extremes.last_work = Unix(BEGIN + minute * 60.0 - 110.0)
        message = f"{text}; GPU {node}/3 stopped first, at 12:00:00 UTC"
        gpu.add_event(OwnerEvent(Unix(BEGIN + 4200.0), "hang", "ok", "suspected", message))
        accounts.append(document(gpu, hours=1.5))
    found = [each for each in merged_account(accounts)["advice"] if each["id"] == "hang"]
    more, name = (" and 1 more", "gpu01/3") if len(stops) > 1 else ("", "3")
    assert [each["evidence"] for each in found] == [f"GPU {name}{more}: {text}, at 2026-01-01 01:10 UTC{first}"]
