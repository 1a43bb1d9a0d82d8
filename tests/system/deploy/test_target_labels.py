"""The labels that a Prometheus operator gives to the daemon's pod do not become those of GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.daemon import Daemon, serving
from tests.support.nightly import nightly_after
from tests.support.prometheus import prometheus
from tests.support.waiting import until
from tests.system.deploy.cases import MONITORS
from tests.system.deploy.chart import only, render
from tools.generate_docs import ROOT

SERIES = "pulsed_gpu_real_utilization_ratio"


def _of_monitor(kind: str) -> list[dict[str, Any]]:
    """The relabelings of the chart's monitor, in the spelling of Prometheus' own configuration."""
    spec = only(render(MONITORS[kind]), kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return [{names.get(key, key): value for key, value in rule.items()} for rule in endpoint["relabelings"]]


def _of_scrape_job() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load((ROOT / "deploy/prometheus/scrape-kubernetes.yaml").read_text())["scrape_configs"]
    rules: list[dict[str, Any]] = job["relabel_configs"]
    return rules


def _write_target(path: Path, daemon: Daemon, pod: str) -> None:
    """Write what discovery has of a pod, with the labels that the operator adds before the relabelings."""
    labels = {"namespace": "monitoring", "pod": pod, "container": "pulsed", "service": "pulsed", "endpoint": "http"}
    meta = {
        "pod_node_name": "gpu-node-1",
        "pod_label_app_kubernetes_io_name": "pulsed",
        "pod_container_port_name": "http",
    }
    labels |= {f"__meta_kubernetes_{name}": value for name, value in meta.items()}
    new = path.with_suffix(".new")
    new.write_text(json.dumps([{"targets": [daemon.address], "labels": labels}]))
    new.replace(path)


@pytest.mark.parametrize("kind", nightly_after(1, ["ServiceMonitor", "PodMonitor", "scrape job"]))
def test_a_restart_of_the_daemons_pod_changes_no_series(kind: str, tmp_path: Path) -> None:
    rules = _of_scrape_job() if kind == "scrape job" else _of_monitor(kind)
    targets = tmp_path / "targets.json"
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "pulsed",
                "honor_labels": True,
                "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
                "relabel_configs": rules,
            }
        ],
    }
    with serving(tmp_path, "--source", "demo") as daemon:
        _write_target(targets, daemon, "pulsed-x7k2p")
        with prometheus(tmp_path, yaml.safe_dump(config)) as server:
            before = {json.dumps(each["metric"], sort_keys=True) for each in server.wait_for(SERIES)}
            _write_target(targets, daemon, "pulsed-q9d4z")
            begin = server.value(f"max(timestamp({SERIES}))")
            until(lambda: server.value(f"max(timestamp({SERIES}))") > begin + 5.0)
            after = {json.dumps(each["metric"], sort_keys=True) for each in server.ask(f"last_over_time({SERIES}[5m])")}
            (up,) = server.ask("up")
            taken = server.ask('{__name__=~"pulsed_gpu_.+", namespace="monitoring"}')
    assert {json.loads(each)["instance"] for each in before} == {"gpu-node-1"}
    assert after == before
    assert up["metric"] == {"__name__": "up", "job": "pulsed", "instance": "gpu-node-1", "node": "gpu-node-1"}
    assert taken == []
