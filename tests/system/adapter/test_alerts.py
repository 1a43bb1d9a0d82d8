"""What is cut off from the Kubernetes API, or from daemons, raises its alert in a real Prometheus."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_set import RuleSelection, document
from tests.support.kubernetes.gpu_cluster import adapter, gpu_cluster
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import until

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [alerts.yml]
scrape_configs:
  - {{job_name: pulsed, honor_labels: true, static_configs: [{{targets: ["{daemon}"]}}]}}
  - job_name: pulsed-adapter
    scheme: https
    tls_config: {{insecure_skip_verify: true}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def alerts(server: Prometheus) -> set[str]:
    """Return the alerts that fire."""
    found = server.ask('ALERTS{alertstate="firing", alertname=~"PulsedOwners.*|PulsedAdapter.*"}')
    return {series["metric"]["alertname"] for series in found}


def test_lost_rights_a_lost_api_server_and_stale_values_raise_their_alerts(tmp_path: Path) -> None:
    """The rules are the shipped ones, but fire at once."""
    rules = document(ComputeSettings(), RuleSelection("alerting"))
    (tmp_path / "alerts.yml").write_text(re.sub(r"for: \w+", "for: 0s", rules))
    with gpu_cluster(tmp_path, 1) as cluster, adapter(cluster) as made:
        (node,), fake = cluster.nodes, cluster.fake
        config = CONFIG.format(daemon=node.daemon.address, port=made.port)
        with prometheus(tmp_path, config) as server:
            cluster.scale(2)
            cluster.load(0.5)
            server.wait_for('pulsed_adapter_gpus{state="current"} == 2 and on () pulsed_attribution_up == 1')
            assert alerts(server) == set()

            node.daemon.process.send_signal(signal.SIGSTOP)
            until(lambda: alerts(server) == {"PulsedAdapterBlind", "PulsedAdapterStale"})
            node.daemon.process.send_signal(signal.SIGCONT)
            until(lambda: alerts(server) == set())

            node.exporter.status = 500
            until(lambda: alerts(server) == {"PulsedAdapterStale"})
            node.exporter.status = 200
            until(lambda: alerts(server) == set())

            fake.fault = 500
            fake.cut()
            until(lambda: alerts(server) == {"PulsedOwnersUnknown", "PulsedAdapterBlind"})
            fake.fault = 0
            until(lambda: alerts(server) == set())

            fake.denied = True
            fake.cut()
            until(lambda: alerts(server) == {"PulsedOwnersDenied", "PulsedAdapterBlind"})
