"""Three nodes with Prometheus, its alerts and Alertmanager; one daemon is killed, then all: what is absent is shown."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.alertmanager import Alertmanager, alertmanager
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.dashboards import Json, Viewer, boards, legend, panels
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
NODES = ("node-a", "node-b", "node-c")
FLEET = boards()["fleet.json"]

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]}}
scrape_configs:
  - {{job_name: pulsed, honor_labels: true, static_configs: [{{targets: [{addresses}]}}]}}
"""

SHORTER = {
    "offset 1h": "offset 10s",
    "offset 6h": "offset 20s",
    "offset 1d": "offset 60s",
    "[5m]": "[10s]",
    "interval: 1m": "interval: 1s",
}
"""Times in the rules, so that a test need not wait for an hour. `for` becomes 2 s."""


@dataclass(frozen=True)
class Cluster:
    """The running programs."""

    daemons: dict[str, Daemon]
    server: Prometheus
    alerts: Alertmanager
    viewer: Viewer

    def kill(self, node: str) -> None:
        daemon = self.daemons[node]
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()

    def firing(self) -> dict[str, list[Json]]:
        """What Alertmanager has, by name."""
        found: dict[str, list[Json]] = {}
        for alert in self.alerts.alerts():
            found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found


def rules() -> str:
    done = pulsed("rules")
    assert done.returncode == 0, done.stderr
    text = re.sub(r"for: \w+", "for: 2s", done.stdout)
    for before, after in SHORTER.items():
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "rules.yaml").write_text(rules())
    with contextlib.ExitStack() as stack:
        daemons = {
            node: stack.enter_context(serving(folder, "--source", "demo", "--set", f"node={node}")) for node in NODES
        }
        alerts = stack.enter_context(alertmanager(folder, ROOT / "deploy/prometheus/alertmanager.yaml"))
        addresses = ", ".join(f'"{daemon.address}"' for daemon in daemons.values())
        config = CONFIG.format(rules=folder / "rules.yaml", port=alerts.port, addresses=addresses)
        server = stack.enter_context(prometheus(folder, config))
        server.wait_for("count(count_over_time(pulsed_gpu_info[1m]) > 15) == 24")
        server.wait_for("count(max_over_time(up[1d:1m])) == 3")  # up at a whole minute: what alerts look back to
        yield Cluster(daemons, server, alerts, Viewer(server, 60, 10))


@pytest.mark.nightly
def test_one_daemon_is_killed(cluster: Cluster) -> None:
    values = cluster.viewer.choose(FLEET)

    def stat(title: str) -> float | None:
        return cluster.viewer.stat(FLEET, title, values)

    assert (stat("GPUs"), stat("GPUs gone"), stat("Daemons down"), stat("Sources down")) == (24, 0, 0, 0)
    assert not {"PulsedDaemonDown", "PulsedNodeWithoutGpus", "PulsedGpuGone"} & set(cluster.firing())
    hosts = dict.fromkeys(NODES, 0)
    for panel in panels(FLEET):
        for target in panel["targets"]:
            for series in cluster.viewer.answer(target, values):
                if "gpu" in series["metric"]:
                    hosts[series["metric"]["node"]] += 1
                    assert panel["type"] == "table" or legend(target, series).startswith(series["metric"]["node"])
    assert all(hosts.values()), hosts

    cluster.kill("node-b")
    until(lambda: {"PulsedDaemonDown", "PulsedNodeWithoutGpus"} <= set(cluster.firing()))
    (down,), (empty,) = cluster.firing()["PulsedDaemonDown"], cluster.firing()["PulsedNodeWithoutGpus"]
    address = cluster.daemons["node-b"].address
    assert down["annotations"]["summary"] == f"pulsed at {address} (node-b) does not answer Prometheus"
    description = down["annotations"]["description"]
    assert re.match(
        r"Its 8 GPUs are not monitored\. Last seen 20[-\d]+ [:\d]+ UTC\. Check that the node is up,", description
    )
    assert down["annotations"]["runbook_url"].endswith("docs/health.md#pulseddaemondown")
    assert empty["annotations"]["summary"] == "node-b reports no GPU (8 before)"
    until(lambda: cluster.firing()["PulsedNodeWithoutGpus"][0]["status"]["inhibitedBy"] == [down["fingerprint"]])
    inhibited = [name for name, alerts in cluster.firing().items() for each in alerts if each["status"]["inhibitedBy"]]
    assert inhibited == ["PulsedNodeWithoutGpus"]
    for alerts in cluster.firing().values():
        for alert in alerts:
            assert not re.search(r"<no value>|\bN\b|{{", str(alert["annotations"]))
            assert alert["labels"].get("node", "node-b") in alert["annotations"]["summary"]
    until(lambda: (stat("GPUs"), stat("GPUs gone"), stat("Daemons down"), stat("Sources down")) == (16, 8, 1, 0))
    assert shown(cluster, "Daemons and sources down") == {("(daemon)", address, "0")}


@pytest.mark.nightly
def test_all_daemons_are_killed(cluster: Cluster) -> None:
    values = cluster.viewer.choose(FLEET)
    for node in NODES:
        if cluster.daemons[node].process.poll() is None:
            cluster.kill(node)
    until(lambda: cluster.viewer.stat(FLEET, "Daemons down", values) == 3)
    until(lambda: cluster.viewer.stat(FLEET, "GPUs", values) is None)
    assert cluster.viewer.stat(FLEET, "GPUs gone", values) == 24
    assert {row[0] for row in shown(cluster, "Daemons and sources down")} == {"(daemon)"}
    until(lambda: len(cluster.firing().get("PulsedDaemonDown", [])) == 3)
    for title in ("Sources down", "Unhealthy GPUs", "GPUs with unknown health", "Hot GPUs", "Power"):
        assert cluster.viewer.stat(FLEET, title, values) is None, title
    now = {panel["title"]: panel for panel in panels(FLEET) if "$__range" not in str(panel["targets"])}
    assert len(now) > 10
    remaining = {title: panel["targets"] for title, panel in now.items()}

    def nothing_is_shown() -> bool:
        """Rates end with their window."""
        for title in list(remaining):
            if not any(cluster.viewer.answer(target | {"instant": True}, values) for target in remaining[title]):
                del remaining[title]
        return not remaining

    until(nothing_is_shown)


def shown(cluster: Cluster, title: str) -> set[tuple[str, str, str]]:
    """Source, address and value of each row of a table of daemons and sources."""
    (panel,) = (panel for panel in panels(FLEET) if panel["title"] == title)
    rows = cluster.viewer.answer(panel["targets"][0], cluster.viewer.choose(FLEET))
    return {(row["metric"]["source"], row["metric"].get("instance", ""), row["value"][1]) for row in rows}
