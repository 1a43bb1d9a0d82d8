"""What is shipped for Prometheus and Alertmanager, held against their own tools."""

from __future__ import annotations

import operator
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.alertmanager import Alertmanager, alertmanager
from tests.support.rule_files import FILES, text
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until
from tools.generate_docs import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
ALERTMANAGER = FOLDER / "alertmanager.yaml"


def run(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * SECONDS, check=False, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("file", FILES)
def test_the_rules_are_current(file: str) -> None:
    assert (ROOT / file).read_text(encoding="utf-8") == text(file), "make docs"


@pytest.mark.parametrize("file", FILES)
def test_the_rules_are_valid(file: str) -> None:
    assert "SUCCESS" in run(tool("promtool", "prometheus"), "check", "rules", ROOT / file)


def test_the_configuration_is_valid() -> None:
    said = run(tool("promtool", "prometheus"), "check", "config", "prometheus.yaml")
    assert "SUCCESS" in said
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    assert all(job["honor_labels"] for job in config["scrape_configs"])


def test_the_job_for_kubernetes_finds_the_charts_pods() -> None:
    (job,) = yaml.safe_load((FOLDER / "scrape-kubernetes.yaml").read_text())["scrape_configs"]
    assert job["honor_labels"]
    template = (ROOT / "helm/pulsed/templates/daemonset.yaml").read_text()
    kept = {rule["source_labels"][0]: rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"}
    assert f"name: {kept['__meta_kubernetes_pod_container_port_name']}" in template
    assert kept["__meta_kubernetes_pod_label_app_kubernetes_io_name"] == "pulsed"


def test_alertmanager_takes_the_routes() -> None:
    assert "SUCCESS" in run(tool("amtool", "prometheus-alertmanager"), "check-config", ALERTMANAGER)


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=PulsedGpuHealthCritical", "severity=critical"), "on-call"),
        (("alertname=PulsedGpuIdleHeld", "severity=warning"), "capacity"),
        (("alertname=PulsedGpuLowRealUtilization", "severity=info"), "capacity"),
        (("alertname=PulsedNodeHealthWarning", "severity=warning"), "team-chat"),
        (("alertname=HostOutOfMemory", "severity=critical"), "team-chat"),
    ],
)
def test_each_alert_reaches_whom_it_should(labels: tuple[str, ...], receiver: str) -> None:
    command = [tool("amtool", "prometheus-alertmanager"), "config", "routes", "test", f"--config.file={ALERTMANAGER}"]
    assert run(*command, *labels).strip() == receiver


def inhibited(server: Alertmanager) -> list[dict[str, str]]:
    """Return the labels of the inhibited alerts."""
    return [alert["labels"] for alert in server.alerts() if alert["status"]["inhibitedBy"]]


def test_alerts_of_one_node_do_not_silence_another(tmp_path: Path) -> None:
    """Two nodes behind one daemon, each with GPU 0 and 1; GPU 0 of the first is lost, GPU 1 has a critical XID."""

    def alert(node: str, gpu: str, name: str, severity: str, check: str = "", mig_id: str = "") -> dict[str, str]:
        own = {"check": check, "mig_id": mig_id}
        labels = {"alertname": name, "severity": severity, "instance": "fleet:9401"}
        labels |= {"node": node, "gpu": gpu, "uuid": f"GPU-{node}-{gpu}"}
        return labels | {key: value for key, value in own.items() if value}

    lost = alert("a", "0", "PulsedGpuHealthCritical", "critical", "gpu_lost")
    xid = alert("a", "1", "PulsedGpuHealthCritical", "critical", "xid_critical")
    silenced = [
        alert("a", "0", "PulsedGpuHealthWarning", "warning", "pcie_link"),
        alert("a", "0", "PulsedGpuIdleHeld", "warning", mig_id="7"),
        alert("a", "1", "PulsedGpuHealthWarning", "warning", "xid_warning"),
        {"alertname": "PulsedNodeWithoutGpus", "severity": "warning", "job": "pulsed", "instance": "c", "node": "c"},
    ]
    loud = [
        alert("b", "0", "PulsedGpuHealthWarning", "warning", "pcie_link"),
        alert("b", "0", "PulsedGpuIdleHeld", "warning"),
        alert("b", "1", "PulsedGpuHealthWarning", "warning", "xid_warning"),
        {"alertname": "PulsedNoData", "severity": "warning", "instance": "fleet:9401"},
        {"alertname": "PulsedDaemonDown", "severity": "warning", "job": "pulsed", "instance": "c"},
        {"alertname": "PulsedNodeWithoutGpus", "severity": "warning", "job": "pulsed", "instance": "d", "node": "d"},
    ]
    with alertmanager(tmp_path, ALERTMANAGER) as server:
        server.send([lost, xid, *silenced, *loud])
        until(lambda: len(server.alerts()) == 2 + len(silenced) + len(loud))
        until(lambda: len(inhibited(server)) >= len(silenced))
        key = operator.itemgetter("node", "alertname", "severity")
        checks = operator.methodcaller("get", "check", "")
        found = sorted(sorted(inhibited(server), key=checks), key=key)
        assert found == sorted(sorted(silenced, key=checks), key=key)


def test_an_idle_job_or_pod_replaces_the_alerts_on_its_gpus(tmp_path: Path) -> None:
    """A job on two nodes and a pod; other owners and unknown ones are on the same nodes."""

    def held(node: str, gpu: str, **owner: str) -> dict[str, str]:
        labels = {"alertname": "PulsedGpuIdleHeld", "severity": "warning", "instance": f"{node}:9401"}
        return labels | {"node": node, "gpu": gpu, "uuid": f"GPU-{node}-{gpu}"} | owner

    idle = [
        {"alertname": "PulsedJobIdle", "severity": "warning", "job_id": "4711", "user": "ann", "account": "lab"},
        {"alertname": "PulsedPodIdle", "severity": "warning", "namespace": "ml", "pod": "train-0"},
    ]
    silenced = [
        held("a", "0", job_id="4711"),
        held("b", "0", job_id="4711"),
        held("b", "1", namespace="ml", pod="train-0"),
    ]
    loud = [
        held("a", "1", job_id="4712"),
        held("a", "2"),
        held("a", "3", job_id="4711", cluster="other"),
        held("b", "2", namespace="ml", pod="train-1"),
        held("b", "3", namespace="other", pod="train-0"),
        held("b", "4", job_id="4711") | {"alertname": "PulsedGpuHealthWarning", "check": "pcie_link"},
    ]
    with alertmanager(tmp_path, ALERTMANAGER) as server:
        server.send([*idle, *silenced, *loud])
        until(lambda: len(server.alerts()) == len(idle) + len(silenced) + len(loud))
        key = operator.itemgetter("uuid")
        until(lambda: len(inhibited(server)) >= len(silenced))
        assert sorted(inhibited(server), key=key) == sorted(silenced, key=key)


def test_the_alerts_that_are_named_exist() -> None:
    names = {
        rule["alert"]
        for file in FILES
        for group in yaml.safe_load(text(file))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    config = yaml.safe_load(ALERTMANAGER.read_text())
    matchers = [
        matcher
        for rule in config["inhibit_rules"]
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        if matcher.startswith("alertname =")
    ]
    assert matchers
    for matcher in matchers:
        pattern = re.sub(r"^alertname =~? ", "", matcher).strip('"')
        assert any(re.fullmatch(pattern, name) for name in names), matcher
