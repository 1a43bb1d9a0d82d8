"""Who holds an idle GPU, and where the power goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.present.promql.test_rule_set import GPU, ask

IDLE = {
    "DCGM_FI_PROF_SM_ACTIVE": 0.0,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.0,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.01,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.01,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1000.0,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 1000.0,
    "DCGM_FI_DEV_POWER_USAGE": 70.0,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "used", "kind"),
    [
        ({}, 3, "free"),
        ({}, 255, "free"),
        ({}, 256, "held"),
        ({}, None, "unknown"),
        ({"pod": "train-0"}, 3, "held"),
        ({"pod": "train-0"}, None, "held"),
        ({"pod": ""}, 3, "free"),
        ({"pod": "nvidia-dcgm-exporter-x7k2p"}, 3, "free"),
        ({"pod": "nvidia-dcgm-exporter-x7k2p", "exported_pod": "train-0"}, 3, "held"),
        ({"hpc_job": "4711"}, 3, "held"),
    ],
)
def test_idle_gpus(tmp_path: Path, labels: dict[str, str], used: float | None, kind: str) -> None:
    values = IDLE if used is None else IDLE | {"DCGM_FI_DEV_FB_USED": used}
    rows = [(name, GPU | labels, value) for name, value in values.items()]
    expected = {f'gpu:pulsed_idle:raw{{kind="{each}"}}': float(each == kind) for each in ("held", "free", "unknown")}
    expected |= {
        f'gpu:pulsed_idle_power_watts:raw{{kind="{kind}"}}': 70.0,
        "sum(gpu:pulsed_idle_power_watts:raw)": 70.0,
        'gpu:pulsed_class_power_watts:raw{class="idle"}': 70.0,
        "count(gpu:pulsed_class_power_watts:raw)": 1.0,
    }
    assert ask(tmp_path, rows, expected) == ""


def test_a_busy_gpu_is_not_idle(tmp_path: Path) -> None:
    values = IDLE | {"DCGM_FI_PROF_SM_ACTIVE": 0.9, "DCGM_FI_DEV_FB_USED": 4000.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0}
    expected = {
        "sum(gpu:pulsed_idle:raw)": 0.0,
        "sum(gpu:pulsed_idle_power_watts:raw)": 0.0,
        'gpu:pulsed_class_power_watts:raw{class="unknown"}': 70.0,  # FP64 may be what it does
    }
    assert ask(tmp_path, [(name, GPU, value) for name, value in values.items()], expected) == ""
