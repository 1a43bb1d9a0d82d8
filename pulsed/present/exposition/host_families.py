"""Families of this host beside its GPUs' samples: the checks of the node, and what they are about."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from pulsed.model.host import HostFacts
from pulsed.model.target_store import TargetStore

NODE_CHECK = "pulsed_node_health_check"


def node_families(store: TargetStore) -> Iterator[Metric]:
    """Yield the families of this host; nothing where it is not read."""
    if store.node_health is not None:
        checks = GaugeMetricFamily(
            NODE_CHECK,
            "State of a check of the node: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
            labels=["node", "check"],
        )
        for check in store.node_health.checks:
            checks.add_metric([store.node, check.id], check.severity)
        yield checks
    if store.host is not None:
        yield from _host_families(store.node, store.host)


def _host_families(node: str, host: HostFacts) -> Iterator[Metric]:
    if host.pci_gpus is not None:
        gpus = GaugeMetricFamily("pulsed_node_pci_gpus", "GPUs of NVIDIA on the PCI bus", labels=["node"])
        gpus.add_metric([node], len(host.pci_gpus))
        yield gpus
