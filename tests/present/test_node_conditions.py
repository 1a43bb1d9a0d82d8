"""Conditions of a node from the rows of `/health/gpus`."""

from __future__ import annotations

from typing import Any

import pytest

from pulsed.present.health_report import node_conditions

GPU: dict[str, Any] = {
    "node": "n",
    "gpu": "0",
    "uuid": "GPU-a",
    "mig": None,
    "target": "t",
    "stale": False,
    "state": "ok",
    "problems": [],
}
SILENT = {**GPU, "gpu": None, "uuid": None, "stale": True, "state": "unknown"}


def problem(check: str, state: str) -> dict[str, str]:
    return {"id": check, "state": state, "message": f"{check} it is", "remedy": "mend it"}


def row(check: str, state: str, **more: object) -> dict[str, Any]:
    return {**GPU, "state": state, "problems": [problem(check, state)], **more}


@pytest.mark.parametrize(
    ("rows", "health", "source"),
    [
        ([], ("Unknown", "NotEvaluated"), ("False", "NoSamples")),
        ([GPU], ("True", "GPUsAreHealthy"), ("True", "SourceDelivers")),
        ([GPU, row("temp_gpu", "hot")], ("True", "TempGpu"), ("True", "SourceDelivers")),
        ([row("pcie_link", "warn"), row("gpu_lost", "crit")], ("False", "GpuLost"), ("True", "SourceDelivers")),
        ([{**GPU, "state": "unknown"}], ("Unknown", "NotEvaluated"), ("True", "SourceDelivers")),
        ([{**GPU, "state": "unknown", "stale": True}, SILENT], ("Unknown", "NoSamples"), ("False", "NoSamples")),
        ([row("gpu_lost", "crit", stale=True), SILENT], ("False", "GpuLost"), ("False", "NoSamples")),
        ([GPU, SILENT], ("Unknown", "NoSamples"), ("False", "NoSamples")),
        (
            [GPU, row("gpu_missing", "crit", gpu=None, uuid=None, target="")],  # of the node
            ("False", "GpuMissing"),
            ("True", "SourceDelivers"),
        ),
    ],
    ids=["none", "ok", "hot", "worst", "not evaluated", "blind", "lost before it was blind", "half blind", "node"],
)
def test_conditions(rows: list[dict[str, Any]], health: tuple[str, str], source: tuple[str, str]) -> None:
    found = [(each.type, each.status, each.reason) for each in node_conditions(rows)]
    assert found == [("GPUHealthy", *health), ("GPUSourceHealthy", *source)]


def test_a_message_names_the_worst_three() -> None:
    rows = [row("temp_gpu", "hot", gpu=str(number)) for number in range(4)]
    message = node_conditions([*rows, row("gpu_lost", "crit", gpu="7")])[0].message
    assert message.startswith("n GPU 7 GPU-a crit gpu_lost: gpu_lost it is -> mend it; n GPU 0 ")
    assert message.endswith("; and 2 more")
