"""Every alert fires for the GPU or node that it is about, and not for the one beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pulsed.compute.derive import ComputeSettings
from pulsed.present.promql.alerts import dcgm_alerts, pulsed_alerts
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.present.promql.promtool import check, selector

RULES = document(ComputeSettings(), RuleSelection())
OF_PULSED = document(ComputeSettings(), RuleSelection("alerting", "pulsed"))
OF_A_NODE = ("PulsedSourceDown", "PulsedNoData", "PulsedSourceRestarting", "PulsedConfigReloadFailed")

ALWAYS = "1+0x{steps}"
DAY = 1440

Rows = dict[str, str]
"""Values in promtool's notation by metric; `{steps}` is how many."""


def constant(**values: float) -> Rows:
    return {name: f"{value}+0x{{steps}}" for name, value in values.items()}


@dataclass(frozen=True)
class Case:
    """Two GPUs or sources side by side.

    Attributes:
        fires: series of the one that the alert is about.
        quiet: of the other one.
        minute: when it fires, or one evaluation later: Prometheus evaluates groups in no order.
        early: when it does not yet.
        step: minutes between two values, and between two evaluations.
        common: series of both, and of the node.
    """

    fires: Rows
    quiet: Rows
    minute: int
    early: int
    step: int = 1
    common: Rows = field(default_factory=dict)

    @property
    def late(self) -> int:
        """When it surely fires."""
        return self.minute + self.step


IDLE = constant(
    DCGM_FI_PROF_SM_ACTIVE=0.0,
    DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=0.0,
    DCGM_FI_PROF_DRAM_ACTIVE=0.01,
    DCGM_FI_PROF_GR_ENGINE_ACTIVE=0.01,
    DCGM_FI_PROF_PCIE_TX_BYTES=1000,
    DCGM_FI_PROF_PCIE_RX_BYTES=1000,
    DCGM_FI_DEV_POWER_USAGE=70,
)
BUSY = IDLE | constant(DCGM_FI_PROF_SM_ACTIVE=0.9, DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=0.6, DCGM_FI_PROF_GR_ENGINE_ACTIVE=1)
LAZY = IDLE | constant(DCGM_FI_PROF_SM_ACTIVE=0.08, DCGM_FI_PROF_GR_ENGINE_ACTIVE=0.3)
HELD, FREE = constant(DCGM_FI_DEV_FB_USED=4000), constant(DCGM_FI_DEV_FB_USED=3)
OBSERVED = {"pulsed_gpu_observed_seconds_total": "0+{seconds}x{steps}"}


def idle(kind: str, share: str) -> Rows:
    other = "free" if kind == "held" else "held"
    return {
        f'pulsed_gpu_idle_seconds_total{{kind="{kind}"}}': share,
        f'pulsed_gpu_idle_seconds_total{{kind="{other}"}}': "0+0x{steps}",
    }


SAMPLE = "pulsed_gpu_last_sample_timestamp_seconds"
UNTIL_THEN = "0+60x90 stale"

CASES = {
    "DcgmGpuIdleHeld": Case(IDLE | HELD, IDLE | FREE, minute=62, early=20),
    "DcgmGpuLowRealUtilization": Case(LAZY | HELD, BUSY | HELD, minute=185, early=120, step=5),
    "DcgmGpuInputsMissing": Case(
        constant(DCGM_FI_PROF_DRAM_ACTIVE=0.5),
        constant(DCGM_FI_PROF_SM_ACTIVE=0.5, DCGM_FI_DEV_GPU_UTIL=70, DCGM_FI_PROF_DRAM_ACTIVE=0.1),
        minute=60,
        early=55,
        step=5,
    ),
    "DcgmGpuGone": Case(
        {"DCGM_FI_DEV_GPU_TEMP": "40+0x18 stale"}, constant(DCGM_FI_DEV_GPU_TEMP=40), 105, early=100, step=5
    ),
    "DcgmGpuReadingsFrozen": Case(
        constant(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION=123456789),
        {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "123456789+4200000x{steps}"},
        minute=46,
        early=40,
    ),
    "DcgmGpuProfilingStuck": Case(
        constant(DCGM_FI_DEV_GPU_UTIL=97, DCGM_FI_PROF_GR_ENGINE_ACTIVE=0),
        constant(DCGM_FI_DEV_GPU_UTIL=97, DCGM_FI_PROF_GR_ENGINE_ACTIVE=0.001),
        minute=10,
        early=9,
    ),
    "DcgmGpuIdleEnergy": Case(
        IDLE | HELD, IDLE | HELD | constant(DCGM_FI_DEV_POWER_USAGE=20), minute=DAY + 90, early=DAY - 30, step=30
    ),
    "PulsedGpuIdleHeld": Case(
        OBSERVED | idle("held", "0+{seconds}x{steps}"), OBSERVED | idle("free", "0+{seconds}x{steps}"), 70, early=20
    ),
    "PulsedGpuLowRealUtilization": Case(
        OBSERVED
        | idle("held", "0+0x{steps}")
        | {
            "pulsed_gpu_real_utilization_seconds_total": "0+6x{steps}",
            "pulsed_gpu_real_utilization_unknown_seconds_total": "0+0x{steps}",
        },
        OBSERVED
        | idle("held", "0+0x{steps}")
        | {
            "pulsed_gpu_real_utilization_seconds_total": "0+6x{steps}",  # all of it in a quarter of the time
            "pulsed_gpu_real_utilization_unknown_seconds_total": "0+45x{steps}",
        },
        minute=300,
        early=60,
    ),
    "PulsedGpuInputsMissing": Case(
        constant(pulsed_gpu_real_utilization_coverage_ratio=0.45),
        constant(pulsed_gpu_real_utilization_coverage_ratio=0.5),
        minute=60,
        early=59,
    ),
    "PulsedGpuGone": Case({SAMPLE: UNTIL_THEN}, {SAMPLE: "0+60x{steps}"}, minute=102, early=99),
    "PulsedSourceDown": Case(constant(pulsed_source_up=0), constant(pulsed_source_up=1), minute=5, early=4),
    "PulsedNoData": Case({}, {SAMPLE: "0+60x{steps}"}, minute=15, early=14, common={"pulsed_build_info": ALWAYS}),
    "PulsedSourceRestarting": Case(
        {"pulsed_source_restarts_total": "0+1x{steps}"}, constant(pulsed_source_restarts_total=7), minute=20, early=8
    ),
    "PulsedGpuInputsInconsistent": Case(
        {'pulsed_gpu_inputs_inconsistent{reason="stuck"}': ALWAYS},
        {'pulsed_gpu_inputs_inconsistent{reason="stuck"}': "1+0x8 stale"},
        minute=15,
        early=14,
    ),
    "PulsedGpuIdleEnergy": Case(
        {'pulsed_gpu_idle_energy_joules_total{kind="held"}': "0+42000x{steps}"},
        {'pulsed_gpu_idle_energy_joules_total{kind="free"}': "0+42000x{steps}"},
        minute=DAY + 60,
        early=600,
        step=10,
    ),
    "PulsedConfigReloadFailed": Case(
        constant(pulsed_config_last_reload_successful=0),
        constant(pulsed_config_last_reload_successful=1),
        minute=5,
        early=4,
    ),
}


def series(case: Case) -> list[tuple[str, str]]:
    steps = case.late // case.step
    found = []
    for who, rows in (("1", case.fires | case.common), ("2", case.quiet | case.common)):
        for metric, values in rows.items():
            name, _, own = metric.partition("{")
            labels = {"gpu": who, "UUID": f"GPU-{who}", "Hostname": "node", "modelName": "NVIDIA H100 80GB HBM3"}
            if name.startswith("pulsed_"):
                labels = {"instance": f"node-{who}", "job": "pulsed"}
                if name.startswith("pulsed_gpu_"):
                    labels |= {"node": "node", "gpu": who, "uuid": f"GPU-{who}"}
            if own:
                key, _, value = own.rstrip("}").partition("=")
                labels[key] = value.strip('"')
            found.append((selector(name, labels), values.format(steps=steps, seconds=60 * case.step)))
    return found


def test_every_alert_has_its_case() -> None:
    alerts = [*dcgm_alerts(ComputeSettings()), *pulsed_alerts(ComputeSettings())]
    assert [alert.name for alert in alerts] == list(CASES)
    for alert in alerts:
        assert alert.name.startswith(("Dcgm", "Pulsed"))
        assert len(alert.description) > 80


@pytest.mark.parametrize("name", CASES)
def test_it_fires_where_it_should(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    label, one, other = ("instance", "node-1", "node-2") if name in OF_A_NODE else ("gpu", "1", "2")
    world, step = [series(case)], f"{case.step}m"

    def firing(who: str) -> str:
        return f'ALERTS{{alertname="{name}", alertstate="firing", {label}="{who}"}}'

    rules = RULES if name.startswith("Dcgm") else OF_PULSED
    asked = {case.late: [f"absent({firing(one)})", firing(other)], case.early: [firing(one)]}
    assert check(tmp_path, rules, world, asked, interval=step) == ""


def test_a_gpu_is_not_gone_when_its_daemon_moved_or_its_node_is_down(tmp_path: Path) -> None:
    def samples(node: str, instance: str, values: str) -> tuple[str, str]:
        return selector(SAMPLE, {"node": node, "gpu": "0", "uuid": "GPU-a", "instance": instance}), values

    world = [
        samples("moved", "10.0.0.1:9401", UNTIL_THEN),
        samples("moved", "10.0.0.2:9401", "_x90 0+60x60"),
        samples("down", "10.0.0.3:9401", UNTIL_THEN),
        # The same index of another node does not stand in for a GPU.
        samples("other", "10.0.0.4:9401", UNTIL_THEN),
        (selector(SAMPLE, {"node": "other", "gpu": "1", "uuid": "GPU-b", "instance": "10.0.0.4:9401"}), "0+60x150"),
    ]
    firing = 'ALERTS{alertname="PulsedGpuGone", alertstate="firing", node%s"other"}'
    assert check(tmp_path, OF_PULSED, [world], {130: [firing % "!=", f"absent({firing % '='})"]}) == ""


def test_what_it_says(tmp_path: Path) -> None:
    case = CASES["DcgmGpuIdleHeld"]
    (alert,) = (alert for alert in dcgm_alerts(ComputeSettings()) if alert.name == "DcgmGpuIdleHeld")
    labels = {"gpu": "1", "UUID": "GPU-1", "Hostname": "node", "modelName": "NVIDIA H100 80GB HBM3", "kind": "held"}
    said = {
        "exp_labels": {**labels, "severity": "warning"},
        "exp_annotations": {"summary": "GPU 1 of node is held and idle", "description": alert.description},
    }
    expected = {"eval_time": f"{case.late}m", "alertname": alert.name, "exp_alerts": [said]}
    assert check(tmp_path, RULES, [series(case)], {}, alerts=[expected]) == ""
