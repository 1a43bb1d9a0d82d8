"""The daemon writes health as conditions and events of its node, through the Kubernetes API."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, pulsed, serving
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_api_server import FakeApiServer
from tests.support.kubernetes.gpu_cluster import api_variables
from tests.support.waiting import until
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page

NODE, OTHERS = "node-a", {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posts status"}
HEALTHY, SOURCE = "GPUHealthy", "GPUSourceHealthy"


def health(failure: int = 0, pending: int = 0, gpus: int = 2) -> str:
    """Return a page; its last GPU has a failed row remap, or one that is pending."""
    values = {"DEV_XID_ERRORS": 0, "DEV_GPU_TEMP": 40, "DEV_POWER_USAGE": 150, "PROF_SM_ACTIVE": 0.5}
    values |= {"DEV_ROW_REMAP_FAILURE": 0, "DEV_ROW_REMAP_PENDING": 0, "DEV_TOTAL_ENERGY_CONSUMPTION": 10**9}
    last = values | {"DEV_ROW_REMAP_FAILURE": failure, "DEV_ROW_REMAP_PENDING": pending}
    return dcgm_page([Row(last if gpu == gpus - 1 else values, gpu, NODE) for gpu in range(gpus)])


class Cluster:
    """A fake API server with a node, the exporter on it, and what the daemon has written."""

    def __init__(self, api: FakeApiServer, exporter: Exporter, url: str, folder: Path) -> None:
        self.api, self.exporter, self.url, self.folder = api, exporter, url, folder

    @contextlib.contextmanager
    def daemon(self, *settings: str, heartbeat: str = "5m", **extra: str) -> Iterator[Daemon]:
        given = ["source.kind=exporter", f"source.exporter.targets={self.url}metrics", "source.interval=1"]
        given += ["source.stale_after=3", f"node={NODE}", "kubernetes.conditions.enabled=true"]
        given += ["kubernetes.conditions.interval=100ms", f"kubernetes.conditions.heartbeat={heartbeat}", *settings]
        arguments = [f"--set={each}" for each in given]
        with serving(self.folder, *arguments, ready=False, **api_variables(self.api), **extra) as daemon:
            yield daemon

    def condition(self, kind: str) -> Mapping[str, Any]:
        return self.api.conditions(NODE).get(kind, {})

    def state(self) -> tuple[str, str]:
        """Return status of the GPUs and of the source."""
        return self.condition(HEALTHY).get("status", ""), self.condition(SOURCE).get("status", "")

    @property
    def patches(self) -> int:
        return sum(each.method == "PATCH" and each.status == 200 and bool(each.document) for each in self.api.requests)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    api, exporter = FakeApiServer(tmp_path), Exporter(health())
    api.nodes[NODE] = [dict(OTHERS)]
    with api.running() as api.url, exporting({"metrics": exporter}) as url:
        yield Cluster(api, exporter, url, tmp_path)


def test_a_fault_is_a_condition_and_an_event_and_clears_itself(cluster: Cluster) -> None:
    with cluster.daemon() as daemon:
        until(lambda: cluster.state() == ("True", "True"))
        first = cluster.condition(HEALTHY)
        assert (first["reason"], first["message"]) == ("GPUsAreHealthy", "no check is raised")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["lastTransitionTime"])
        assert cluster.api.created == [], "a node that was never unhealthy has no event"

        cluster.exporter.body = health(pending=1)
        until(lambda: cluster.condition(HEALTHY)["reason"] == "RowRemapPending")
        assert cluster.state() == ("True", "True"), "a warning is named, and no fault"
        cluster.exporter.body = health(failure=1)
        until(lambda: cluster.state() == ("False", "True"))
        fault = cluster.condition(HEALTHY)
        assert fault["reason"] == "RowRemapFailed"
        for part in ("node-a GPU 1 GPU-node-a-1 crit row_remap_failed: ", "-> Row repair failed"):
            assert part in fault["message"]
        verdict = pulsed("health", daemon.address)
        assert verdict.returncode == 2, "the same rule as that of `pulsed health`"

        cluster.exporter.body = health()
        until(lambda: cluster.state() == ("True", "True"))
        until(lambda: len(cluster.api.created) == 3)
        assert [(each["reason"], each["type"]) for each in cluster.api.created] == [
            ("RowRemapPending", "Normal"),
            ("RowRemapFailed", "Warning"),
            ("GPUsAreHealthy", "Normal"),
        ]
        event = cluster.api.created[1]
        assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
        assert event["message"].startswith("GPUHealthy is False: node-a GPU 1")
        assert cluster.patches == 4, "one for each change: the heartbeat is not due"
        assert cluster.api.conditions(NODE)["Ready"] == OTHERS
        assert 'pulsed_health_report_up{receiver="kubernetes"} 1' in daemon.get("/metrics").text
        assert daemon.stop() == 0
    after = cluster.condition(HEALTHY)
    assert (after["status"], after["reason"]) == ("Unknown", "PulsedStopped")
    assert cluster.state() == ("Unknown", "Unknown")
    assert len(cluster.api.created) == 3, "the end of pulsed is no event"


def test_blind_is_not_broken(cluster: Cluster) -> None:
    with cluster.daemon():
        until(lambda: cluster.state() == ("True", "True"))
        cluster.exporter.status = 500
        until(lambda: cluster.state() == ("Unknown", "False"))
        assert cluster.condition(HEALTHY)["reason"] == "NoSamples"
        source = cluster.condition(SOURCE)
        assert (source["reason"], "500" in source["message"]) == ("NoSamples", True)
        cluster.exporter.status = 200
        until(lambda: cluster.state() == ("True", "True"))


def test_a_restart_continues_the_transition_time_and_the_heartbeat_is_slow(cluster: Cluster) -> None:
    long_ago = "2026-01-01T00:00:00Z"
    known = {"status": "True", "reason": "GPUsAreHealthy", "lastTransitionTime": long_ago}
    cluster.api.nodes[NODE].append({"type": HEALTHY, **known})
    with cluster.daemon(heartbeat="1s") as daemon:
        until(lambda: cluster.patches >= 2)
        condition = cluster.condition(HEALTHY)
        assert condition["lastTransitionTime"] == long_ago
        assert condition["lastHeartbeatTime"] > condition["lastTransitionTime"]
        assert cluster.condition(SOURCE)["lastTransitionTime"] > long_ago
        assert daemon.stop() == 0
    assert cluster.condition(HEALTHY)["lastTransitionTime"] > long_ago


def test_switched_off_they_are_removed(cluster: Cluster) -> None:
    file = cluster.folder / "config.yaml"
    file.write_text("kubernetes: {conditions: {enabled: true, interval: 100ms}}\n")
    given = [f"--set=source.exporter.targets={cluster.url}metrics", "--set=source.kind=exporter", f"--set=node={NODE}"]
    given += ["--set=source.interval=1", f"--config.file={file}"]
    with serving(cluster.folder, *given, ready=False, **api_variables(cluster.api)) as daemon:
        until(lambda: cluster.state() == ("True", "True"))
        file.write_text("kubernetes: {conditions: {enabled: false}}\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: cluster.api.conditions(NODE) == {"Ready": OTHERS})
        until(lambda: "pulsed_health_report_up" not in daemon.get("/metrics").text)  # a page is kept for a second
        file.write_text("kubernetes: {conditions: {enabled: true, interval: 100ms}}\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: cluster.state() == ("True", "True"))


@pytest.mark.parametrize(
    ("fault", "logged"),
    [
        ({"denied_paths": ("/nodes/",)}, "patch of nodes/status"),
        pytest.param({"fault": 503}, "answered 503", marks=pytest.mark.nightly),
        pytest.param({"token": "another"}, "answered 401", marks=pytest.mark.nightly),
        pytest.param({"nodes": {}}, "node-a", marks=pytest.mark.nightly),
    ],
    ids=["forbidden", "down", "unauthorized", "unknown node"],
)
def test_an_api_server_that_fails_affects_nothing_else(cluster: Cluster, fault: Mapping[str, Any], logged: str) -> None:
    for name, value in fault.items():
        setattr(cluster.api, name, value)
    with cluster.daemon() as daemon:
        until(lambda: 'pulsed_health_report_up{receiver="kubernetes"} 0' in daemon.get("/metrics").text)
        until(lambda: "pulsed_source_up{" in daemon.get("/metrics").text)
        daemon.wait_for("/-/ready")
        assert len(daemon.get("/gpus").json()["gpus"]) == 2
        assert 'msg="cannot be reported" what="conditions of the node"' in daemon.log()
        assert logged in daemon.log()
        assert daemon.stop() == 0


def test_events_that_may_not_be_created_do_not_hinder_conditions(cluster: Cluster) -> None:
    cluster.api.denied_paths = ("/events",)
    cluster.exporter.body = health(failure=1)
    with cluster.daemon() as daemon:
        until(lambda: cluster.state() == ("False", "True"))
        until(lambda: "an event about the node cannot be created" in daemon.log())
        assert cluster.patches == 1
    cluster.api.created.clear()
    cluster.api.denied_paths = ()
    with cluster.daemon("kubernetes.conditions.events=false"):
        until(lambda: cluster.state() == ("False", "True"))
    assert cluster.api.created == []


@pytest.mark.parametrize(
    "settings",
    [
        ["node="],
        ["source.exporter.discovery=kubernetes", "source.exporter.kubernetes.nodes=all", "node=a"],
        ["source.kind=demo", "node=a"],
    ],
    ids=["no node", "targets of any host", "demo"],
)
def test_conditions_need_a_node(cluster: Cluster, settings: list[str]) -> None:
    given = ["source.kind=exporter", "kubernetes.conditions.enabled=true", *settings]
    done = pulsed("serve", *(f"--set={each}" for each in given if each != "node="), **api_variables(cluster.api))
    assert done.returncode == 2
    assert "kubernetes.conditions needs the name of the node" in done.stderr
