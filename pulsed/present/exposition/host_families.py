"""Families of this host other than its GPUs' samples: the checks of the node, and the facts that they evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.model.health import CheckState
from pulsed.model.host import PORT_COUNTERS, CpuReading, HostFacts, InfinibandPort
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
        yield from _problem_families(store.node, store.node_health.problems)
    if store.host is not None:
        yield from _host_families(store.node, store.host)


def _problem_families(node: str, problems: Sequence[CheckState]) -> Iterator[Metric]:
    """Yield what alerts name of the checks that are worse than ok."""
    texts = GaugeMetricFamily(
        "pulsed_node_health_problem_info",
        "Problem and remedy of a check of the node, in words, while it is worse than ok",
        labels=["node", "check", "state", "cause", "problem", "remedy"],
    )
    evidence = GaugeMetricFamily(
        "pulsed_node_health_evidence",
        "Readings that decide a check of the node, while it is worse than ok",
        labels=["node", "check", "reading"],
    )
    for check in problems:
        texts.add_metric([node, check.id, check.state, check.id, check.message, check.remedy], 1)
        for name, value in check.evidence:
            evidence.add_metric([node, check.id, name], value)
    yield from (family for family in (texts, evidence) if family.samples)


def _host_families(node: str, host: HostFacts) -> Iterator[Metric]:
    if host.pci_gpus is not None:
        gpus = GaugeMetricFamily("pulsed_node_pci_gpus", "NVIDIA GPUs on the PCI bus", labels=["node"])
        gpus.add_metric([node], len(host.pci_gpus))
        yield gpus
    if host.ports:
        yield from _port_families(node, host.ports)


def _port_families(node: str, ports: Sequence[InfinibandPort]) -> Iterator[Metric]:
    prefix, labels = "pulsed_node_infiniband_port", ["node", "device", "port"]
    up = GaugeMetricFamily(f"{prefix}_up", "1 while the InfiniBand or RoCE port is active", labels=labels)
    rate = GaugeMetricFamily(f"{prefix}_rate_bytes_per_second", "Rate of the link, one direction", labels=labels)
    counters = {
        name: CounterMetricFamily(f"{prefix}_{name}", counter.meaning, labels=labels)
        for name, counter in PORT_COUNTERS.items()
    }
    for port in ports:
        values = [node, port.device, port.port]
        up.add_metric(values, int(port.is_active))
        if port.bytes_per_second is not None:
            rate.add_metric(values, port.bytes_per_second)
        for name, value in port.counters.items():
            counters[name].add_metric(values, value)
    yield from (family for family in (up, rate, *counters.values()) if family.samples)


_CPU_FAMILIES = {
    "power_watts": ("pulsed_node_cpu_power_watts", "Power of a processor of a superchip"),
    "power_limit_watts": ("pulsed_node_cpu_power_limit_watts", "Power limit of a processor"),
    "io_power_watts": ("pulsed_node_cpu_io_power_watts", "Power of the I/O part of a processor"),
    "module_power_watts": ("pulsed_node_module_power_watts", "Power of the superchip: processor, GPUs and memory"),
    "temperature_celsius": ("pulsed_node_cpu_temperature_celsius", "Temperature of a processor of a superchip"),
}
"""Families of `CpuReading`, by attribute."""


def cpu_families(here: str, cpus: Iterable[CpuReading]) -> Iterator[Metric]:
    """Yield the families of the processors of superchips; `here` is the host of those that do not name one."""
    readings = {(cpu.node or here, cpu.cpu): cpu for cpu in cpus}
    for attribute, (name, help) in _CPU_FAMILIES.items():
        family = GaugeMetricFamily(name, help, labels=["node", "cpu"])
        for labels, cpu in readings.items():
            if (value := getattr(cpu, attribute)) is not None:
                family.add_metric(labels, value)
        if family.samples:
            yield family
