"""Every alert fires for the GPU or node that it is about, and not for the one beside it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.model.health import SEVERITY, State
from pulsed.present.promql.health_alerts import health_alerts
from pulsed.present.promql.rule_set import RuleSelection, document, groups
from pulsed.present.promql.rule_types import RUNBOOK, Alert
from tests.present.promql.promtool import Fired, fired, fired_over_time, rules_of, selector
from tools.generate_docs import ROOT

OF_PULSED = document(ComputeSettings(), RuleSelection("alerting"))
RECORDED = document(ComputeSettings(), RuleSelection())
TEXTS = Path(__file__).with_name("alert_texts.yaml")
"""The texts of all alerts as Prometheus renders them. After a change: `UPDATE_GOLDEN=1`, and review the difference."""

HEALTH = {alert.name: alert for alert in health_alerts(HealthSettings())}
ALERTS = {
    rule.name: rule
    for group in groups(ComputeSettings(), RuleSelection("alerting"))
    for rule in group.rules
    if isinstance(rule, Alert)
}

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


OBSERVED = {"pulsed_gpu_observed_seconds_total": "0+{seconds}x{steps}"}


def idle(kind: str, share: str) -> Rows:
    other = "free" if kind == "held" else "held"
    return {
        f'pulsed_gpu_idle_seconds_total{{kind="{kind}"}}': share,
        f'pulsed_gpu_idle_seconds_total{{kind="{other}"}}': "0+0x{steps}",
    }


def owner(group: str, *, idle: int, used: int = 0, unknown: int = 0) -> Rows:
    """Return the series of a job or pod with a GPU; of each minute the seconds idle, used, and with unknown use."""
    found = {f"pulsed_{group}_gpus": ALWAYS}
    found |= {f"pulsed_{group}_{each}_seconds_total": "0+60x{steps}" for each in ("gpu", "observed")}
    seconds = {"idle_seconds": idle, "real_utilization_seconds": used, "real_utilization_unknown_seconds": unknown}
    return found | {f"pulsed_{group}_{name}_total": f"0+{number}x{{steps}}" for name, number in seconds.items()}


CASES = {
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
    "PulsedDaemonDown": Case(
        {"up": "1+0x5 0+0x{steps}"}, constant(up=1), minute=35, early=4, common={"pulsed_build_info": "1+0x20 stale"}
    ),
    "PulsedNodeWithoutGpus": Case(
        {"pulsed_gpu_info": "1+0x90 stale"},
        {"pulsed_gpu_info": ALWAYS},
        minute=102,
        early=99,
    ),
    "PulsedGpuGone": Case(
        {"pulsed_gpu_info": "1+0x90 stale", 'pulsed_gpu_info{uuid="GPU-stays"}': ALWAYS},
        {"pulsed_gpu_info": ALWAYS, 'pulsed_gpu_info{mig_id="1"}': "1+0x90 stale"},
        minute=102,
        early=99,
    ),
    "PulsedClockSkew": Case(
        {"pulsed_source_last_sample_timestamp_seconds": "100+60x{steps}"},
        {"pulsed_source_last_sample_timestamp_seconds": "10+60x{steps}"},
        minute=10,
        early=9,
    ),
    "PulsedSourceDown": Case(
        constant(pulsed_source_up=0) | {"pulsed_source_last_sample_timestamp_seconds": "0+0x{steps}"},
        constant(pulsed_source_up=1),
        minute=5,
        early=4,
    ),
    "PulsedNoData": Case({}, {"pulsed_gpu_info": ALWAYS}, minute=15, early=14, common={"pulsed_build_info": ALWAYS}),
    "PulsedSourceRestarting": Case(
        {"pulsed_source_restarts_total": "0+1x{steps}"}, constant(pulsed_source_restarts_total=7), minute=20, early=8
    ),
    "PulsedGpuInputsInconsistent": Case(
        {'pulsed_gpu_inputs_inconsistent{reason="values_frozen"}': ALWAYS},
        {'pulsed_gpu_inputs_inconsistent{reason="values_frozen"}': "1+0x8 stale"},
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
    "PulsedHangSuspected": Case(
        constant(pulsed_gpu_hang_suspected=1), constant(pulsed_gpu_hang_suspected=0), minute=2, early=0
    ),
    "PulsedLeakedMemory": Case(
        constant(pulsed_gpu_leaked_memory=1), constant(pulsed_gpu_leaked_memory=0), minute=2, early=0
    ),
    "PulsedStraggler": Case(constant(pulsed_gpu_straggler=1), constant(pulsed_gpu_straggler=0), minute=2, early=0),
    **{
        f"Pulsed{group.title()}Idle": Case(owner(group, idle=60), owner(group, idle=50), minute=35, early=29)
        for group in ("job", "pod")
    },
    **{
        f"Pulsed{group.title()}LowRealUtilization": Case(
            owner(group, idle=10, used=6), owner(group, idle=10, used=6, unknown=45), minute=125, early=60
        )
        for group in ("job", "pod")
    },
    "PulsedOwnersWithoutSeries": Case(
        {'pulsed_owners_without_series{group="owners"}': "416+0x{steps}"},
        {'pulsed_owners_without_series{group="owners"}': "0+0x{steps}"},
        minute=15,
        early=14,
    ),
    "PulsedOwnersDenied": Case(
        {'pulsed_attribution_errors_total{reason="forbidden"}': "0+1x{steps}"},
        {'pulsed_attribution_errors_total{reason="unavailable"}': "0+1x{steps}"},
        minute=6,
        early=4,
    ),
    "PulsedOwnersUnknown": Case(
        constant(pulsed_attribution_up=0), constant(pulsed_attribution_up=1), minute=5, early=4
    ),
    "PulsedConfigReloadFailed": Case(
        constant(pulsed_config_last_reload_successful=0),
        constant(pulsed_config_last_reload_successful=1),
        minute=5,
        early=4,
    ),
}


MODEL = {"model": "NVIDIA H100 80GB HBM3"}
OWNERS = (
    {"kind": "pod", "namespace": "ml", "pod": "train-0"},
    {"kind": "slurm_job", "job_id": "4711", "user": "alice"},
    {"kind": "process", "user": "bob"},
)


def series(case: Case) -> list[tuple[str, str]]:
    steps = case.late // case.step
    found = []
    for who, rows in (("1", case.fires | case.common), ("2", case.quiet | case.common)):
        for metric, values in rows.items():
            name, _, own = metric.partition("{")
            labels = {"instance": f"10.0.0.{who}:9401", "job": "pulsed"}
            if name.startswith("pulsed_gpu_"):
                labels |= gpu(who, f"node-{who}")
            if name == "pulsed_gpu_info":
                labels |= MODEL
            if name.startswith("pulsed_job_"):
                labels |= {"job_id": f"471{who}", "user": "alice", "account": "lab"}
            if name.startswith("pulsed_pod_"):
                labels |= {"namespace": "ml", "pod": f"train-{int(who) - 1}", "container": "main"}
            if name.startswith("pulsed_source_"):
                labels["source"] = "dcgmi"
            if name.startswith("pulsed_attribution_"):
                labels["source"] = "kubernetes"
            if own:
                key, _, value = own.rstrip("}").partition("=")
                labels[key] = value.strip('"')
            found.append((selector(name, labels), values.format(steps=steps, seconds=60 * case.step)))
    return found


def gpu(who: str, node: str) -> dict[str, str]:
    return {"node": node, "gpu": who, "uuid": f"GPU-{who}"}


def identities(name: str) -> list[tuple[str, str]]:
    """Return what only texts need: models, and owners of the first GPU."""
    case = CASES[name]
    daemon = {"instance": "10.0.0.1:9401", "job": "pulsed"}
    first = gpu("1", "node-1")
    always = ALWAYS.format(steps=case.late // case.step)
    found = [(selector("pulsed_gpu_owner_info", {**first, **owner, **daemon}), always) for owner in OWNERS]
    if "pulsed_gpu_info" not in case.fires and "pulsed_build_info" not in case.common:
        found.append((selector("pulsed_gpu_info", {**first, **MODEL, **daemon}), always))
    if "pulsed_build_info" in case.common:  # the daemon went with its GPUs, or never had one
        found += [
            (selector("pulsed_gpu_info", {**gpu(each, "node-1"), **MODEL, **daemon}), "1+0x20 stale")
            for each in ("1", "3")
            if case.fires
        ]
    return found


def test_every_alert_has_its_case() -> None:
    assert set(ALERTS) - set(HEALTH) == set(CASES)
    for alert in ALERTS.values():
        assert alert.name.startswith("Pulsed")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_fires_where_it_should(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    world, step = series(case), f"{case.step}m"
    (alert,) = fired(tmp_path, OF_PULSED, [*world, *identities(name)], {name: case.late}, step, quiet=case.early)[name]
    assert_text(name, alert)


@pytest.mark.parametrize(("name", "step"), [("PulsedGpuLowRealUtilization", 1), ("PulsedGpuIdleEnergy", 15)])
def test_alerts_on_recorded_means_fire_as_those_on_counters(tmp_path: Path, name: str, step: int) -> None:
    case = replace(CASES[name], step=step)
    assert "gpu:pulsed_" in rules_of(RECORDED, [name])
    (alert,) = fired(tmp_path, RECORDED, series(case), {name: case.late}, f"{step}m", quiet=case.early)[name]
    assert alert["labels"]["gpu"] == "1"


HISTORIES: dict[str, tuple[list[tuple[int, int | None]], bool]] = {
    "little": ([(96, 10)], True),
    "much": ([(96, 50)], False),
    "little, and the daemon restarts": ([(60, 10), (0, 0), (36, 10)], True),
    "much, and the daemon restarts": ([(60, 50), (0, 0), (36, 50)], False),
    "much, and the daemon restarts twice": ([(24, 50), (0, 0), (6, 90), (0, 0), (66, 20)], False),
    "much until the daemon restarts": ([(80, 50), (0, 0), (16, 5)], False),
    "little until the daemon restarts": ([(80, 5), (0, 0), (16, 90)], False),
    "little, with a gap": ([(48, 10), (24, None), (24, 10)], True),
    "much, with a gap": ([(48, 50), (24, None), (24, 50)], False),
    "little, and a gap six hours ago": ([(18, 10), (12, None), (66, 10)], True),
    "little, after a restart in a gap": ([(48, 10), (12, None), (0, 0), (36, 10)], True),
    "much, after a restart in a gap": ([(48, 90), (12, None), (0, 0), (36, 20)], False),
    "joined half an hour ago, little": ([(90, None), (6, 10)], False),
    "joined three hours ago, little": ([(60, None), (36, 10)], True),
    "joined three hours ago, much": ([(60, None), (36, 50)], False),
}
"""Of eight hours: how many times five minutes a GPU was used by how many percent, with None not observed; at (0, 0) its
counters begin anew. And whether the utilization is too low at the end."""


def history(spans: list[tuple[int, int | None]]) -> list[tuple[str, str]]:
    """Return the counters of a GPU by a row of `HISTORIES`."""
    observed, used = 0.0, 0.0
    rows: tuple[list[str], list[str]] = ([], [])
    for number, percent in spans:
        if not number:
            observed, used = 0.0, 0.0
        for _ in range(number):
            if percent is not None:
                observed, used = observed + 300.0, used + 3.0 * percent
            for row, value in zip(rows, (observed, used), strict=True):
                row.append("_" if percent is None else f"{value:g}")
    names = ("observed_seconds", "real_utilization_seconds", "real_utilization_unknown_seconds")
    unknown = ["0" if value != "_" else value for value in rows[0]]
    return [
        (selector(f"pulsed_gpu_{name}_total", {**gpu("1", "n"), "instance": "i"}), " ".join(row))
        for name, row in zip(names, (*rows, unknown), strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["counters", "recorded"])
@pytest.mark.parametrize("name", HISTORIES)
def test_restarts_gaps_and_new_gpus_do_not_change_the_utilization(tmp_path: Path, name: str, rules: str) -> None:
    alert = "PulsedGpuLowRealUtilization"
    spans, fires = HISTORIES[name]
    found = fired(tmp_path, RECORDED if rules == "recorded" else OF_PULSED, history(spans), {alert: 475}, "5m")[alert]
    assert bool(found) == fires


@pytest.mark.parametrize("rules", [OF_PULSED, RECORDED], ids=["counters", "recorded"])
@pytest.mark.parametrize(("held", "free", "fires"), [(100, 40, True), (100, 60, False), (180, 0, False), (0, 0, True)])
def test_a_gpu_that_is_idle_for_half_of_the_time_has_no_low_utilization(
    tmp_path: Path, rules: str, held: int, free: int, fires: bool
) -> None:
    """Of 300 seconds so many idle; a kind of idle time that never was has no series."""
    world = history([(96, 10)])
    for kind, seconds in (("held", held), ("free", free)):
        labels = {**gpu("1", "n"), "instance": "i", "kind": kind}
        if seconds:
            world.append((selector("pulsed_gpu_idle_seconds_total", labels), f"0+{seconds}x95"))
    alert = "PulsedGpuLowRealUtilization"
    assert bool(fired(tmp_path, rules, world, {alert: 475}, "5m")[alert]) == fires


def test_alerts_alone_use_no_recorded_series() -> None:
    rules = [rule for group in groups(ComputeSettings(), RuleSelection("alerting")) for rule in group.rules]
    assert [rule.expr for rule in rules if re.search(r"\b[a-z]+:pulsed_", rule.expr)] == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["encoder", "decoder"])
def test_a_gpu_that_transcodes_is_used(tmp_path: Path, engine: str) -> None:
    """Of the counters of idle time this holds without the alert."""
    name = "PulsedGpuLowRealUtilization"
    case = CASES[name]
    world = series(replace(case, quiet=case.fires | constant(**{f"pulsed_gpu_{engine}_utilization_ratio": 0.4})))
    found = fired(tmp_path, OF_PULSED, world, {name: case.late}, f"{case.step}m")[name]
    assert [alert["labels"]["uuid"] for alert in found] == ["GPU-1"]


@pytest.mark.parametrize("name", ["PulsedJobLowRealUtilization", "PulsedPodLowRealUtilization"])
def test_an_owner_that_transcodes_uses_its_gpus(tmp_path: Path, name: str) -> None:
    world = [*series(CASES[name]), *identities(name)]
    assert len(fired(tmp_path, OF_PULSED, world, {name: CASES[name].late})[name]) == 1
    video = selector("pulsed_gpu_decoder_utilization_ratio", gpu("1", "node-1"))
    world.append((video, ALWAYS.replace("1+0", "0.4+0").format(steps=CASES[name].late)))
    assert fired(tmp_path, OF_PULSED, world, {name: CASES[name].late})[name] == []


def raised(
    labels: dict[str, str], check: str, state: State, cause: str = "", **readings: float
) -> list[tuple[str, str]]:
    """Return the series that a daemon has of a raised check of a GPU, or of a node."""
    of = "gpu" if "gpu" in labels else "node"
    labels = {**labels, "check": check}
    texts = {"problem": f"Problem of {check}", "remedy": f"Remedy of {check}."}
    info = {**labels, "state": state, "cause": cause or check, **texts}
    return [
        (selector(f"pulsed_{of}_health_check", labels), f"{SEVERITY[state]}+0x20"),
        (selector(f"pulsed_{of}_health_problem_info", info), "1+0x20"),
        (selector(f"pulsed_{of}_health_check_since_timestamp_seconds", labels), "60+0x20"),
        *(
            (selector(f"pulsed_{of}_health_evidence", {**labels, "reading": name}), f"{value:g}+0x20")
            for name, value in readings.items()
        ),
    ]


def test_each_health_alert_fires_with_its_text(tmp_path: Path) -> None:
    """Of a node with 8 GPUs: one has two checks, six are hot, one has an owner; and the node's own checks."""
    gpus = [gpu(str(number), "node-1") for number in range(8)]
    world = [(selector("pulsed_gpu_health_severity", each), "1+0x20") for each in gpus]
    world += [(selector("pulsed_gpu_info", {**each, **MODEL}), "1+0x20") for each in gpus]
    world += [(selector("pulsed_gpu_owner_info", {**gpus[3], **OWNERS[0]}), "1+0x20")]
    world += raised(gpus[3], "xid_critical", "crit", xid=48, events=2)
    world += raised(gpus[3], "row_remap_pending", "warn", row_remap_pending=1)
    for each in gpus[1:7]:
        world += raised(each, "thermal_hw", "crit", "cooling", hardware_thermal_ratio=0.75)
        world += raised(each, "temp_gpu", "hot", "cooling", temperature_celsius=91)
    world += raised({"node": "node-1"}, "driver_hung", "crit", stuck_processes=2)
    found = fired(tmp_path, OF_PULSED, world, dict.fromkeys(HEALTH, 15))
    checks = {name: [alert["labels"]["check"] for alert in alerts] for name, alerts in found.items()}
    assert checks == {
        "PulsedGpuHealthCritical": ["xid_critical"],
        "PulsedGpuHealthWarning": ["row_remap_pending"],
        "PulsedNodeHealthCritical": ["cooling", "driver_hung"],
        "PulsedNodeHealthWarning": ["cooling"],
    }
    for name, alerts in found.items():
        assert_text(name, alerts[0])


@pytest.mark.parametrize(("gpus", "firing"), [(7, 7), (8, 1)])
@pytest.mark.parametrize(("state", "severity"), [("warn", "Warning"), ("crit", "Critical")])
def test_a_check_that_all_gpus_raise_is_one_alert(
    tmp_path: Path, gpus: int, firing: int, state: State, severity: str
) -> None:
    every = [gpu(str(number), "node-1") for number in range(8)]
    world = [(selector("pulsed_gpu_health_severity", each), "1+0x20") for each in every]
    for each in every[:gpus]:
        world += raised(each, "row_remap_growth", state)
    found = fired(tmp_path, OF_PULSED, world, dict.fromkeys(HEALTH, 15))
    alerts = [alert for each in found.values() for alert in each]
    assert len(alerts) == firing
    assert {alert["labels"]["alertname"] for alert in alerts} == {
        f"Pulsed{'Node' if firing == 1 else 'Gpu'}Health{severity}"
    }
    if firing == 1:
        assert alerts[0]["annotations"]["summary"].endswith("Problem of row_remap_growth on GPU 0, 1, 2, 3, 4, 5, 6, 7")


@functools.cache
def texts() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(TEXTS.read_text(), yaml.CSafeLoader) if TEXTS.exists() else {}
    return found


RACKS: dict[str, tuple[list[tuple[str, str, str, str, float]], set[tuple[str, str, str]]]] = {
    "a link that is down": (
        [("n1", "149", "14", "c/1", 70.0), *((f"n{k}", "145", "3", "c/1", 60.0 + k) for k in range(2, 10))],
        {("n1", "149", "14")},
    ),
    "none is down: the first": (
        [(f"n{k}", "145", str(k), "c/1", 60.0 + k) for k in range(1, 10)],
        {("n1", "145", "1")},
    ),
    "two racks": (
        [("n1", "149", "14", "c/1", 70.0), ("n2", "145", "3", "c/2", 60.0)],
        {("n1", "149", "14"), ("n2", "145", "3")},
    ),
}
"""Faults that daemons of single nodes show as origins: node, code, link, fabric, and when. And the alerts."""


@pytest.mark.parametrize("name", RACKS)
def test_one_alert_for_the_faults_of_a_rack_with_a_daemon_per_node(tmp_path: Path, name: str) -> None:
    faults, expected = RACKS[name]
    world = []
    for node, xid, link, fabric, began in faults:
        labels = {**gpu("2", node), "instance": f"{node}:9401", "job": "pulsed"}
        own = {"xid": xid, "link": link, "origin": "true", "fabric": fabric}
        world.append((selector("pulsed_gpu_nvlink_fault_timestamp_seconds", {**labels, **own}), f"{began}+0x20"))
        checks = {"nvlink_fault", *(["nvlink_down"] if xid == "149" else [])}
        for each in sorted(checks):
            world += raised(labels, each, "crit")
    found = fired(tmp_path, OF_PULSED, world, dict.fromkeys(HEALTH, 15))
    critical = found.pop("PulsedGpuHealthCritical")
    assert {tuple(each["labels"][label] for label in ("node", "xid", "link")) for each in critical} == expected
    assert len(critical) == len(expected)
    assert not any(found.values()), "the same fault has another alert"
    assert f"GPU 2 of {critical[0]['labels']['node']}: Problem of nvlink_fault" in critical[0]["annotations"]["summary"]


def assert_text(name: str, alert: Fired) -> None:
    """Compare what is sent with the reviewed text."""
    kept = texts()
    if os.environ.get("UPDATE_GOLDEN"):
        kept = {each: (alert if each == name else kept.get(each)) for each in ALERTS}
        TEXTS.write_text(yaml.safe_dump(kept, sort_keys=False, width=116, allow_unicode=True))
        texts.cache_clear()
    assert alert == kept[name]


@pytest.mark.parametrize("name", ALERTS)
def test_the_text_is_readable_and_complete(name: str) -> None:
    alert = texts()[name]
    summary, description = alert["annotations"]["summary"], alert["annotations"]["description"]
    text = f"{summary} {description}"
    assert not re.search(r"\bRule\b|HEALTH|pCIe|nVLink|dCGM|\bN\b|<no value>|[{}]|  |\(\)|\.\.|%!", text), text
    assert re.search(r"node|10\.0\.0\.1:9401|Job 4711 of alice|Pod train-0 in ml", summary)
    assert len(description) > 80
    if "gpu" in alert["labels"]:
        assert MODEL["model"] in summary
    if name in HEALTH:
        assert description.endswith("Details: `pulsed health` on node-1.")
        assert all(alert["annotations"][each] in text for each in ("problem", "remedy", "reading"))
    if name.startswith(("PulsedJob", "PulsedPod")):
        assert "GPUs on node-1: 1." in description
    elif name.startswith("PulsedGpuHealth") or re.search("Idle|Low", name):
        assert "Owner: pod train-0 in ml." in description


@pytest.mark.parametrize("name", ALERTS)
def test_the_runbook_has_the_anchor(name: str) -> None:
    url = texts()[name]["annotations"]["runbook_url"]
    document, _, anchor = url.partition("#")
    assert document == RUNBOOK
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs/health.md").read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_check_without_texts_has_an_alert(tmp_path: Path) -> None:
    """Another program writes the page, or the daemon is older."""
    labels = {"node": "n", "gpu": "3", "uuid": "GPU-3", "check": "gpu_lost"}
    name = "PulsedGpuHealthCritical"
    (alert,) = fired(tmp_path, OF_PULSED, [(selector("pulsed_gpu_health_check", labels), "4+0x20")], {name: 15})[name]
    assert alert["annotations"]["summary"] == "GPU 3 of n: check gpu_lost"
    assert alert["annotations"]["runbook_url"].endswith("#gpu_lost")


@pytest.mark.parametrize(
    ("ahead", "up", "fires"), [("-300", 1, True), ("-300", 0, False), ("-60", 1, False), ("16", 0, True)]
)
def test_a_clock_can_differ_both_ways(tmp_path: Path, ahead: str, up: int, fires: bool) -> None:
    labels = {"job": "pulsed", "instance": "i", "source": "dcgmi"}
    world = [
        (selector("pulsed_source_last_sample_timestamp_seconds", labels), f"{ahead}+60x30"),
        (selector("pulsed_source_up", labels), f"{up}+0x30"),
    ]
    assert bool(fired(tmp_path, OF_PULSED, world, {"PulsedClockSkew": 20})["PulsedClockSkew"]) == fires


def test_a_replay_has_no_clock(tmp_path: Path) -> None:
    labels = {"job": "pulsed", "instance": "i"}
    world = [
        (selector("pulsed_source_last_sample_timestamp_seconds", {**labels, "source": "a"}), "900+60x30"),
        (selector("pulsed_source_info", {**labels, "kind": "replay", "target": "a"}), "1+0x30"),
    ]
    assert fired(tmp_path, OF_PULSED, world, {"PulsedClockSkew": 20})["PulsedClockSkew"] == []


@pytest.mark.parametrize(
    ("labels", "fires"),
    [
        ({"job": "pulsed"}, True),
        ({"job": "pulsed-fleet"}, True),
        ({"job": "dcgm-exporter"}, False),
        ({"job": "gpus"}, True),  # another name of the job: it served pulsed's page before
    ],
)
def test_a_daemon_is_down_whatever_its_job(tmp_path: Path, labels: dict[str, str], fires: bool) -> None:
    labels = {**labels, "instance": "i"}
    world = [(selector("up", labels), "1+0x5 0+0x60")]
    if labels["job"] == "gpus":
        world.append((selector("pulsed_build_info", labels), "1+0x5 stale"))
    assert bool(fired(tmp_path, OF_PULSED, world, {"PulsedDaemonDown": 50})["PulsedDaemonDown"]) == fires


def test_a_daemon_that_pushes_is_down_when_its_series_end(tmp_path: Path) -> None:
    """There is no `up` of it."""
    world = [
        (selector("pulsed_push_up", {"job": "pulsed", "instance": instance}), values)
        for instance, values in (("silent", "1+0x5 stale"), ("well", "1+0x60"))
    ]
    (alert,) = fired(tmp_path, OF_PULSED, world, {"PulsedDaemonDown": 50})["PulsedDaemonDown"]
    assert "silent" in str(alert)
    assert "no longer sends" in str(alert)


def test_a_gpu_is_not_gone_when_its_daemon_moved_or_its_node_is_down(tmp_path: Path) -> None:
    def info(node: str, instance: str, values: str, who: str = "1") -> tuple[str, str]:
        return selector("pulsed_gpu_info", {**gpu(who, node), "instance": instance, **MODEL}), values

    world = [
        info("moved", "10.0.0.1:9401", "1+0x90 stale"),
        info("moved", "10.0.0.2:9401", "_x90 1+0x60"),
        info("down", "10.0.0.3:9401", "1+0x90 stale"),
        info("other", "10.0.0.4:9401", "1+0x90 stale"),
        info("other", "10.0.0.4:9401", "1+0x150", "2"),
        info("shown twice", "10.0.0.5:9401", "1+0x90 stale"),
        info("shown twice", "10.0.0.6:9401", "1+0x150"),
    ]
    found = fired(tmp_path, OF_PULSED, world, {"PulsedGpuGone": 130, "PulsedNodeWithoutGpus": 130})
    nodes = {name: [alert["labels"]["node"] for alert in alerts] for name, alerts in found.items()}
    assert nodes == {"PulsedGpuGone": ["other"], "PulsedNodeWithoutGpus": ["down"]}


def test_gpus_that_are_gone_stay_an_alert_for_a_day_with_their_names(tmp_path: Path) -> None:
    world = [
        *((selector("pulsed_gpu_info", gpu(who, "n")), "1+0x300 stale") for who in ("1", "3")),
        (selector("pulsed_gpu_info", gpu("2", "n")), "1+0x500"),
        (selector("pulsed_gpu_info", {**gpu("2", "n"), "mig_id": "1"}), "1+0x300 stale"),
    ]
    (late,) = fired(tmp_path, OF_PULSED, world, {"PulsedGpuGone": 2200}, "5m")["PulsedGpuGone"]
    assert late["annotations"]["summary"] == "n no longer reports 2 of its GPUs"
    named = "GPU 1: GPU-1. GPU 3: GPU-3. "
    assert late["annotations"]["description"].startswith(named), "instances come and go by design"


def test_a_gpu_that_never_idled_can_have_a_low_utilization(tmp_path: Path) -> None:
    """The lean page has no series of idle time for it."""
    name = "PulsedGpuLowRealUtilization"
    case = CASES[name]
    world = [row for row in series(case) if "idle_seconds" not in row[0]]
    assert len(fired(tmp_path, OF_PULSED, world, {name: case.late})[name]) == 1


def in_cluster(world: Iterable[tuple[str, str]], cluster: str, **renamed: str) -> list[tuple[str, str]]:
    """The series of a cluster; texts of it are changed."""
    found = []
    for name, values in world:
        metric, brace, labels = name.partition("{")
        for before, after in renamed.items():
            labels = labels.replace(before, after)
        found.append((f'{metric}{{cluster="{cluster}"{", " if labels[:-1] else ""}{labels or "}"}', values))
        assert brace or not labels
    return found


def east_texts(
    folder: Path, world: list[tuple[str, str]], alerts: Mapping[str, int], step: str
) -> dict[str, list[Fired]]:
    found = fired(folder, OF_PULSED, world, alerts, step)
    return {
        name: [alert for alert in of_name if alert["labels"]["cluster"] == "east"] for name, of_name in found.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_second_cluster_with_the_same_nodes_changes_no_text(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    world = [*series(case), *identities(name)]
    east = in_cluster(world, "east")
    west = in_cluster(world, "west", **{"GPU-": "WEST-", "H100": "WEST", "train": "WEST", "alice": "WEST"})
    alone = east_texts(tmp_path, east, {name: case.late}, f"{case.step}m")
    assert alone == east_texts(tmp_path, [*east, *west], {name: case.late}, f"{case.step}m")
    (alert,) = alone[name]
    assert alert["annotations"]["summary"].startswith("east: ")


def test_a_second_cluster_changes_no_text_of_health(tmp_path: Path) -> None:
    gpus = [gpu(str(number), "node-1") for number in range(4)]
    world = [(selector("pulsed_gpu_health_severity", each), "1+0x20") for each in gpus]
    world += [(selector("pulsed_gpu_info", {**each, **MODEL}), "1+0x20") for each in gpus]
    world += raised(gpus[3], "xid_critical", "crit", xid=48, events=2)
    world += raised(gpus[2], "row_remap_pending", "warn", row_remap_pending=1)
    for each in gpus[:2]:
        world += raised(each, "thermal_hw", "crit", "cooling", hardware_thermal_ratio=0.75)
    east, alerts = in_cluster(world, "east"), dict.fromkeys(HEALTH, 15)
    west = in_cluster(world, "west", problem="problem", **{'remedy="': 'remedy="WEST ', 'problem="': 'problem="WEST '})
    alone = east_texts(tmp_path, east, alerts, "1m")
    assert alone == east_texts(tmp_path, [*east, *west], alerts, "1m")
    assert "WEST" not in str(alone)
    assert all(alone[name] for name in HEALTH if "Warning" not in name)


def boards_of(node: str, values: str, cluster: str = "") -> list[tuple[str, str]]:
    labels = {"instance": f"{node}:9401", "job": "pulsed"} | ({"cluster": cluster} if cluster else {})
    return [(selector("pulsed_gpu_info", {**labels, **gpu(who, node), **MODEL}), values) for who in ("1", "2")]


@pytest.mark.slow
def test_nodes_that_an_autoscaler_removes_raise_no_alert_and_none_comes_back(tmp_path: Path) -> None:
    """Over 48 hours, a value each 10 minutes: some nodes go for good, one for three hours, one that lives briefly."""
    lives = {
        "always": "1+0x288",
        "removed": "1+0x60 stale",
        "brief": "_x30 1+0x2 stale",
        "again": "1+0x40 stale _x18 1+0x228",
        "broken": "1+0x60 stale",
        "drained": "1+0x60 stale",
        "pushing": "1+0x60 stale",
        "pushing-broken": "1+0x60 stale",
    }
    in_cluster = {"broken": "1+0x288", "pushing-broken": "1+0x288", "drained": "1+0x57 stale"}
    world = [row for node, values in lives.items() for row in boards_of(node, values)]
    for node, values in lives.items():
        world.append((selector("kube_node_info", {"node": node}), in_cluster.get(node, values)))
        daemon, down = {"instance": f"{node}:9401", "job": "pulsed"}, "0+0x228" if node == "broken" else "0+0x1 stale"
        world.append((selector("pulsed_build_info", daemon), values))
        if node.startswith("pushing"):
            world.append((selector("pulsed_push_up", daemon), values))
        else:
            world.append((selector("up", daemon), values.replace("stale", down, 1).replace("stale _x18", "stale _x16")))
    firing: dict[str, dict[int, list[str]]] = {}
    minutes = range(300, 2880, 120)
    for (name, minute), alerts in fired_over_time(tmp_path, OF_PULSED, world, ALERTS, minutes, "10m").items():
        if alerts:
            firing.setdefault(name, {})[minute] = sorted(
                alert["labels"]["instance"].removesuffix(":9401") for alert in alerts
            )
    assert set(firing) == {"PulsedNodeWithoutGpus", "PulsedDaemonDown"}
    for by_minute in firing.values():
        assert sorted(by_minute) == list(range(min(by_minute), max(by_minute) + 1, 120)), "without a gap"
    assert set(map(tuple, firing["PulsedNodeWithoutGpus"].values())) == {("broken", "pushing-broken")}
    assert set(map(tuple, firing["PulsedDaemonDown"].values())) == {("broken", "pushing-broken"), ("broken",)}


@pytest.mark.slow
def test_without_kube_state_metrics_a_removed_node_is_one_alert_of_a_day(tmp_path: Path) -> None:
    world = [*boards_of("always", "1+0x288"), *boards_of("brief", "_x30 1+0x2 stale")]
    minutes = range(300, 2880, 120)
    firing = [
        *map(bool, fired_over_time(tmp_path, OF_PULSED, world, ["PulsedNodeWithoutGpus"], minutes, "10m").values())
    ]
    assert sum(now and not before for before, now in zip([False, *firing], firing, strict=False)) == 1
