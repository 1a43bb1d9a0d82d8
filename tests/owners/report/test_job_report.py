from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from pulsed.model.clocks import Unix
from pulsed.model.health import CheckState, Health
from pulsed.model.owner import pod
from pulsed.owners.accounting.account import OwnerEvent
from pulsed.owners.accounting.counter_vector import load
from pulsed.owners.report.job_line import job_line
from pulsed.owners.report.job_numbers import Prices, cost_of
from pulsed.owners.report.job_report import job_report
from pulsed.owners.report.text_table import job_table
from tests.owners.report.accounts import BEGIN, document, gpu_account

XID = OwnerEvent(Unix(BEGIN + 7320.0), "xid", "ok", "warn", "XID 31 of a program", "Restart the program.")


def test_the_report() -> None:
    made = document(
        gpu_account(0, real=0.41, idle=0.1),
        gpu_account(1, real=0.39, idle=0.12),
        gpu_account(2, real=0.1, idle=0.5, last_idle=7200.0, events=(XID,)),
    )
    assert job_report(made).splitlines() == [
        "Job 4711 (ann, lab)  train   3 x H100, 1 node, 4 h, ended   seen 100.0 %",
        "Verdict     GPU 2 did 25 % of the work of its peers (10 %, others 40 %): 50 % idle; "
        "XID 31 of a program at 02:02 UTC.",
        "Real work   30 % of what the GPUs can do",
        "Time        12.0 GPU hours: 76 % tensor compute, 24 % idle = 2.9 GPU hours unused",
        "Energy      4.8 kWh, 0.3 of it while idle",
        "Memory      peak 48 of 80 GiB of a GPU (reserved by the program, perhaps not needed)",
        "",
        "              mean  +- over GPUs  +- over time",
        "  real work   30 %            14             0",
        "  SM          50 %             0             0",
        "  power      500 W             0             0",
        "",
        "  GPU  GPU hours  real work  idle  kWh  peak GiB",
        "  0          4.0       41 %   0.4  1.8      48.0",
        "  1          4.0       39 %   0.5  1.8      48.0",
        "  2          4.0       10 %   2.0  1.2      48.0",
        "  all       12.0       30 %   2.9  4.8",
        "",
        "What to do  GPU 2: XID 31 of a program, at 2026-01-01 02:02 UTC. Restart the program.",
        "            GPU 2: idle for the last 2 h of 4 h. Its program has ended, waits or has stopped: end the job when"
        " the work is done.",
        "Not known   host CPU and memory; whether this is good for this program",
    ]


@example([(1.5, 0.0, 0.0), (1.05, 0.0, 0.0)])
@given(st.lists(st.tuples(st.floats(0.01, 100.0), st.floats(0.0, 1.0), st.floats(0.0, 900.0)), min_size=2, max_size=40))
def test_columns_add_up_as_printed(gpus: list[tuple[float, float, float]]) -> None:
    made = document(*(gpu_account(at, hours, idle=idle, watts=watts) for at, (hours, idle, watts) in enumerate(gpus)))
    lines = job_report(made).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("  GPU"))
    rows = [re.sub(r" more| %", "", line).split() for line in lines[start + 1 : lines.index("", start)]]
    for column in (1, 3, 4):
        assert f"{sum(float(row[column]) for row in rows[:-1]):.1f}" == rows[-1][column]
    shares = [int(share) for share in re.findall(r"(\d+) % \w", lines[3])]
    assert len(rows) <= 33
    assert sum(shares) == 100
    assert re.search(r"([\d.]+) GPU", lines[3])[1] == rows[-1][1]  # type: ignore[index]


def test_what_is_not_known() -> None:
    made = document(gpu_account(0, seen=0.8, sharers=3), owner=pod("ml", "web", "server"))
    report = job_report(made)
    assert report.startswith("Pod ml/web/server   1 x H100, 1 node, 4 h, ended   seen 80.0 %\n")
    assert "a share of a GPU with 3 owners" in report
    assert "What to do  no advice: less than 90 % of the time was seen\n" in report
    assert "Not known   20.0 % of the time, in which the GPUs were not observed\n" in report
    assert "who did what on shared GPUs: 0 to 4608 seconds of full use are this owner's\n" in report


def test_without_inputs_nothing_is_0() -> None:
    made = document(gpu_account(0, 0.02, seen=0.0, samples=0), hours=0.02)
    made["gpus"][0]["peaks"]["memory_used_bytes"] = None
    for part in (made["total"], made["gpus"][0]):
        part["counters"] = dict.fromkeys(part["counters"])
    made["statistics"] = {}
    report = job_report(made)
    assert "Real work   unknown of what the GPUs can do\n" in report
    assert "Energy" not in report
    assert "Memory" not in report
    assert job_line(made) == "Too little was observed for a verdict. pulsed/1 gpus=1 h=0 held_idle_h=0 cov=0\n"


def test_money() -> None:
    made = document(gpu_account(0), gpu_account(1), prices=Prices(2.5, 0.3, "USD"))
    assert "Cost        21.20 USD = 8.000 GPU hours x 2.5 + 4.000 kWh x 0.3\n" in job_report(made)
    made = document(gpu_account(0, sharers=2), prices=Prices(gpu_hour=2.5))
    assert "Cost        5.00 EUR = 2.000 GPU hours x 2.5\n" in job_report(made)
    assert "Cost" not in job_report(document(gpu_account(0)))


def test_cost_of_unknown_energy_is_unknown() -> None:
    made = document(gpu_account(0, seen=0.0))
    made["total"] |= {"gpu_seconds": 3600.0, "counters": {"energy_unknown_seconds": 3600.0}}
    made["gpus"][0] |= made["total"]
    assert cost_of(made["total"], made["gpus"], Prices(2.0, 0.3)) == {
        "currency": "EUR", "per_gpu_hour": 2.0, "per_kwh": 0.3, "gpu_time": 2.0, "energy": None, "total": None,
        "allocated": None,
        "unknown": "energy of GPU 0",
    }  # fmt: skip


def test_energy_of_some_gpus_is_not_the_energy_of_all() -> None:
    other = gpu_account(1)
    other.alone = load({"observed_seconds": 14400.0, "energy_unknown_seconds": 14400.0})
    made = document(gpu_account(0), other, prices=Prices(2.0, 0.3))
    assert (made["cost"]["energy"], made["cost"]["total"]) == (None, None)
    assert made["cost"]["unknown"] == "energy of GPU 1"
    report = job_report(made)
    assert "Energy      at least 2.0 kWh\n" in report
    assert "unknown kWh x 0.3 (unknown: energy of GPU 1)\n" in report
    assert " kwh=" not in job_line(made)


def test_a_report_shows_a_gpu_that_was_already_sick() -> None:
    check = CheckState("gpu_lost", "crit", Unix(BEGIN - 600.0), message="XID 79", remedy="Drain the node")
    sick = gpu_account(3)
    sick.inspect(Health("crit", 1.0, (check,)), Unix(BEGIN))
    report = job_report(document(gpu_account(0), sick))
    assert "GPU 3: XID 79, since 2025-12-31 23:50 UTC, before the owner had the GPU. Drain the node" in report
    assert "nothing stands out" not in report


def test_the_line_of_the_epilog() -> None:
    made = document(gpu_account(0), gpu_account(1, real=0.0, idle=1.0, seen=0.995))
    assert job_line(made) == (
        "1 of 2 GPUs was not used (1): 20 % real utilization on 2 GPUs. "
        "pulsed/1 gpus=2 h=7.98 ru=.201 held_idle_h=3.98 kwh=2.398 mem=.6 sm=.5 w=500 flags=idle_gpu cov=.998\n"
    )


def test_the_list() -> None:
    made = [document(gpu_account(0)), document(gpu_account(1, idle=1.0), owner=pod("ml", "web\x1b[2J"))]
    assert job_table(made).splitlines() == [
        "JOB         KIND       USER  STATE  BEGIN                 ELAPSED  GPUS  NODES  REAL WORK   IDLE  ADVICE",
        "4711        slurm_job  ann   ended  2026-01-01T00:00:00Z      4 h     1      1       40 %    0 %",
        "ml/web?[2J  pod        -     ended  2026-01-01T00:00:00Z      4 h     1      1       40 %  100 %  idle_gpu",
    ]
    assert job_table([]) == "no jobs\n"


def test_the_picture_of_a_life_has_a_gap_where_nothing_is_known() -> None:
    made = document(gpu_account(0), hours=1.0)
    made["timeline"] = {
        "bucket_seconds": 600.0,
        "gpu_seconds": [600.0, 600.0, 0.0, 300.0, 600.0],
        "real_utilization_seconds": [0.0, 300.0, 0.0, 300.0, 150.0],
    }
    assert "Life        ▁▅ █▃  10 min a block\n" in job_report(made)


def test_a_quantity_that_was_known_in_part_is_marked() -> None:
    made = document(gpu_account(0))
    made["statistics"]["sm_active_ratio"]["seconds"] /= 4.0
    assert re.search(r"  SM +50 % +- +0  known for 25 % of the time\n", job_report(made))


def test_host_cpu_and_memory_of_all_nodes() -> None:
    made = document(gpu_account(0))
    made["hosts"] = [
        {"node": "a", "cpu_seconds": 14400.0, "memory_peak_bytes": 40.0 * 2**30, "memory_limit_bytes": 64.0 * 2**30},
        {"node": "b", "cpu_seconds": 28800.0, "memory_peak_bytes": None, "memory_limit_bytes": None},
    ]
    report = job_report(made)
    assert "Host        3.0 CPUs busy on average, memory peak 40 of 64 GiB of a node, with page cache\n" in report
    assert "Not known   whether this is good for this program\n" in report
