from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from pulsed.owners.report.job_line import NotJobstatsSummary, with_gpus
from pulsed.owners.report.verdict import verdict_of
from tests.owners.report.accounts import document, gpu_account

CPU = {"total_memory": 2**36, "used_memory": 2**35, "total_time": 100.5, "cpus": 8}


def packed(document: object) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(json.dumps(document).encode(), mtime=0)).decode()


def unpacked(summary: str) -> Any:
    assert summary.startswith("JS1:")
    return json.loads(gzip.decompress(base64.b64decode(summary[4:])))


def test_gpus_are_added_to_the_nodes_that_are_there() -> None:
    summary = packed({"nodes": {"gpu01": CPU}, "total_time": 14400, "gpus": 0})
    account = document(
        gpu_account(0, node="gpu01.hpc"), gpu_account(1, node="gpu01.hpc", real=0.2), gpu_account(0, node="x")
    )
    found = unpacked(with_gpus(summary, account))
    assert found["pulsed"].startswith(f"{verdict_of(account)} pulsed/1 gpus=3 h=12 ")
    assert (found["total_time"], found["gpus"], found["nodes"].keys()) == (14400, 3, {"gpu01"})
    assert found["nodes"]["gpu01"] == {
        **CPU,
        "gpu_total_memory": {"0": 80.0 * 2**30, "1": 80.0 * 2**30},
        "gpu_used_memory": {"0": 48.0 * 2**30, "1": 48.0 * 2**30},
        "gpu_utilization": {"0": 40.0, "1": 20.0},
    }


def test_what_jobstats_has_stays() -> None:
    node = {**CPU, "gpu_utilization": {"0": 97.1}, "gpu_total_memory": {"0": 1}, "gpu_used_memory": {"0": 1}}
    summary = packed({"nodes": {"gpu01": node}, "total_time": 1, "gpus": 1})
    assert unpacked(with_gpus(summary, document(gpu_account(0))))["nodes"]["gpu01"] == node


def test_nothing_is_added_to_summaries_without_numbers() -> None:
    for text in ("JS1:Short", "JS1:None\n"):
        assert with_gpus(text, document(gpu_account(0))) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "a comment", "JS1:", "JS1:%%%", "JS1:aGVsbG8=", packed([]), packed({"nodes": {"a": 1}})]
)
def test_other_texts_are_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(NotJobstatsSummary, match="not a summary of jobstats") as caught:
        with_gpus(text, document(gpu_account(0)))
    assert "sacct" in caught.value.remedy
