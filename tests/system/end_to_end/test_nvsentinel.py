"""The daemon as a health monitor of NVSentinel: faults and their ends reach the platform connector's socket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsed.compute.health.checks import BY_ID
from pulsed.present.nvsentinel_faults import CHECK_NAMES, OTHER_NAMES, health_faults
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.fake_nvsentinel import PlatformConnector
from tests.support.waiting import until
from tests.system.end_to_end.test_node_conditions import NODE, health

CHECK = "PulsedRowRemapFailed"


class Node:
    """An exporter, a platform connector, and the daemon between them."""

    def __init__(self, exporter: Exporter, url: str, folder: Path) -> None:
        self.exporter, self.url, self.folder, self.socket = exporter, url, folder, folder / "nvsentinel.sock"
        self.connector = PlatformConnector()

    @contextlib.contextmanager
    def daemon(self, *settings: str) -> Iterator[Daemon]:
        given = ["source.kind=exporter", f"source.exporter.targets={self.url}metrics", "source.interval=1"]
        given += ["source.stale_after=3", f"node={NODE}", f"kubernetes.nvsentinel.socket={self.socket}"]
        given += ["kubernetes.nvsentinel.interval=100ms", *settings]
        with serving(self.folder, *(f"--set={each}" for each in given), ready=False) as daemon:
            yield daemon

    @property
    def faults(self) -> set[tuple[str, str]]:
        return set(self.connector.state)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    exporter = Exporter(health())
    with exporting({"metrics": exporter}) as url:
        yield Node(exporter, url, tmp_path)


def test_a_fault_is_sent_once_and_ended(node: Node) -> None:
    with node.connector.running(node.socket), node.daemon() as daemon:
        until(lambda: bool(node.connector.calls))
        first = node.connector.calls[0]
        assert {event["checkName"] for event in first} == {*CHECK_NAMES, *OTHER_NAMES}, (
            "an earlier run may have left faults"
        )
        assert all(event["isHealthy"] for event in first)
        names = [each["entityValue"] for each in first[0]["entitiesImpacted"]]
        assert names == ["0", f"GPU-{NODE}-0", "1", f"GPU-{NODE}-1"]

        node.exporter.body = health(failure=1)
        until(lambda: node.faults == {(CHECK, "1"), (CHECK, f"GPU-{NODE}-1")})
        event = dict(node.connector.state[CHECK, "1"])
        assert int(event.pop("generatedTimestamp")["seconds"]) > 0
        assert "Row repair failed" in event.pop("message")
        assert event == {
            "version": 1,
            "agent": "pulsed",
            "componentClass": "GPU",
            "checkName": CHECK,
            "isFatal": True,
            "recommendedAction": 5,
            "entitiesImpacted": [
                {"entityType": "GPU", "entityValue": "1"},
                {"entityType": "GPU_UUID", "entityValue": f"GPU-{NODE}-1"},
            ],
            "nodeName": NODE,
            "processingStrategy": 2,
        }
        node.exporter.status = 500
        until(lambda: ("PulsedSource", "") in node.faults)
        assert "isFatal" not in node.connector.state["PulsedSource", ""]
        assert (CHECK, "1") in node.faults, "what is not seen has not ended"
        node.exporter.status, node.exporter.body = 200, health()
        until(lambda: not node.faults)
        assert 'pulsed_health_report_up{receiver="nvsentinel"} 1' in daemon.get("/metrics").text
        assert all(len(events) == len({each["checkName"] for each in events}) for events in node.connector.calls)


def test_a_restart_ends_what_an_earlier_run_left(node: Node) -> None:
    left = {"checkName": CHECK, "isFatal": True}
    node.connector.state = {(CHECK, f"GPU-{NODE}-1"): left, (CHECK, f"GPU-{NODE}-0"): left, ("GpuXidError", "1"): left}
    with node.connector.running(node.socket), node.daemon("kubernetes.nvsentinel.remediates=true"):
        until(lambda: node.faults == {("GpuXidError", "1")})
        assert node.connector.calls[0][0]["processingStrategy"] == 1


def test_a_connector_that_is_away_is_tried_again_and_affects_nothing_else(node: Node) -> None:
    node.connector.refuses = True
    node.exporter.body = health(failure=1)
    with node.daemon() as daemon:
        until(lambda: "cannot be reported" in daemon.log())
        daemon.wait_for("/-/ready")
        assert "nvsentinel.sock: No such file or directory" in daemon.log()
        assert 'pulsed_health_report_up{receiver="nvsentinel"} 0' in daemon.get("/metrics").text
        with node.connector.running(node.socket):
            until(lambda: "UNAVAILABLE not now" in daemon.log())
            node.connector.refuses = False
            until(lambda: (CHECK, "1") in node.faults)


def test_it_needs_a_node() -> None:
    done = pulsed("serve", "--set=source.kind=exporter", "--set=kubernetes.nvsentinel.socket=/run/nvsentinel.sock")
    assert done.returncode == 2
    assert "kubernetes.nvsentinel needs the name of the node" in done.stderr


@pytest.mark.parametrize(
    ("check", "state", "evidence", "expected"),
    [
        ("gpu_lost", "crit", {}, (True, 24, ())),
        ("xid_critical", "crit", {"xid": 79.0}, (True, 24, ("79",))),
        ("xid_critical", "crit", {"xid": 48.0}, (True, 2, ("48",))),
        ("xid_warning", "warn", {"xid": 31.0}, (False, 0, ("31",))),
        ("recovery_action", "crit", {"recovery_action": 2.0}, (True, 24, ())),
        ("recovery_action", "crit", {"recovery_action": 6.0}, (True, 5, ())),
        ("ecc_uncorrectable", "crit", {}, (True, 2, ())),
        ("temp_gpu", "hot", {}, (False, 0, ())),
    ],
)
def test_the_recommended_action(
    check: str, state: str, evidence: dict[str, float], expected: tuple[bool, int, tuple[str, ...]]
) -> None:
    assert check in BY_ID
    problem = {"id": check, "state": state, "message": "m", "remedy": "r", "evidence": evidence}
    row = {"gpu": "0", "uuid": "GPU-a", "stale": False, "state": state, "problems": [problem]}
    found = health_faults([row, {**row, "problems": [{**problem, "id": "pcie_link", "state": "info"}]}])
    (fault,) = found.faults
    assert (fault.is_fatal, fault.action, fault.codes) == expected
    assert found.healthy == [(("GPU", "0"), ("GPU_UUID", "GPU-a"))]
