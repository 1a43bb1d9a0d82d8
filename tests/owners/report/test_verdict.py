"""The verdict about a job in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from pulsed.model.clocks import Unix
from pulsed.owners.accounting.account import OwnerEvent
from pulsed.owners.report.job_report import job_report
from pulsed.owners.report.verdict import verdict_of
from tests.owners.report.accounts import BEGIN, HOUR, document, gpu_account

XID = OwnerEvent(Unix(BEGIN + HOUR), "xid_critical", "ok", "crit", "XID 48", "Reset the GPU.")
OVER = OwnerEvent(Unix(BEGIN + 1.5 * HOUR), "xid_critical", "crit", "ok", "")
PEERS = [gpu_account(number, real=0.64) for number in range(7)]


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (
            document(*[gpu_account(number, real=0.62) for number in range(8)]),
            "Works well: 62 % real utilization on 8 GPUs.",
        ),
        (document(gpu_account(0, real=0.2)), "Nothing stands out: 20 % real utilization on 1 GPU."),
        (
            document(*PEERS, gpu_account(7, real=0.32, idle=0.07, events=(XID,))),
            "GPU 7 did 50 % of the work of its peers (32 %, others 64 %): 7 % idle; XID 48 at 01:00 UTC.",
        ),
        (
            document(*PEERS, gpu_account(7, real=0.32, events=(XID, OVER))),
            "GPU 7 did 50 % of the work of its peers (32 %, others 64 %): XID 48 at 01:00 UTC, over since 01:30 UTC.",
        ),
        (
            document(*PEERS, gpu_account(7, real=0.32, node="gpu02")),
            "GPU gpu02/7 did 50 % of the work of its peers (32 %, others 64 %).",
        ),
        (
            document(*PEERS, gpu_account(7, real=0.0, idle=1.0)),
            "1 of 8 GPUs was not used (7): 56 % real utilization on 8 GPUs.",
        ),
        (document(gpu_account(0, real=0.0, idle=1.0)), "Does nothing: 1 GPU idle for 100 % of the time."),
        (
            document(gpu_account(0, real=0.4, io=0.3)),
            "40 % real utilization on 1 GPU, but io: PCIe was busy and SMs were not for 30 % of the time "
            "(1 h 12 min of 4 h).",
        ),
        (document(gpu_account(0, hours=0.01), hours=0.01), "Too little was observed for a verdict."),
    ],
)
def test_one_sentence(made: dict[str, Any], verdict: str) -> None:
    assert verdict_of(made) == verdict
    assert job_report(made).splitlines()[1] == f"Verdict     {verdict}"
