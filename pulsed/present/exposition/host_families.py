"""Families of this host other than its GPUs' samples: the checks of the node, and the facts that they evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from pulsed.model.host import PORT_COUNTERS, CpuReading, InfinibandPort
from pulsed.model.target_store import TargetStore

NODE_CHECK = "pulsed_node_health_check"


def node_families(store: TargetStore) -> Iterator[Metric]:
    """Yield the families of this host; nothing where it is not read."""
    node, host = store.node, store.host
    if (health := store.node_health) is not None:
        yield from _gauge(
            NODE_CHECK,
            "State of a check of the node: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
            ["node", "check"],
            [((node, each.id), each.severity) for each in health.checks],
        )
        yield from _gauge(
            "pulsed_node_health_problem_info",
            "Problem and remedy of a check of the node, in words, while it is worse than ok",
            ["node", "check", "state", "cause", "problem", "remedy"],
            [((node, each.id, each.state, each.id, each.message, each.remedy), 1) for each in health.problems],
        )
        yield from _gauge(
            "pulsed_node_health_evidence",
            "Readings that decide a check of the node, while it is worse than ok",
            ["node", "check", "reading"],
            [((node, each.id, name), value) for each in health.problems for name, value in each.evidence],
        )
    if host is not None and host.pci_gpus is not None:
        rows = [((node,), len(host.pci_gpus))]
        yield from _gauge("pulsed_node_pci_gpus", "NVIDIA GPUs on the PCI bus", ["node"], rows)
    if host is not None and host.ports:
        yield from _port_families(node, host.ports)


def _gauge(
    name: str, help: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]
) -> Iterator[Metric]:
    """Yield a gauge of rows of label values and a number, if it has rows."""
    family = GaugeMetricFamily(name, help, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    if family.samples:
        yield family


def _port_families(node: str, ports: Sequence[InfinibandPort]) -> Iterator[Metric]:
    prefix, labels = "pulsed_node_infiniband_port", ["node", "device", "port"]
    rows = [((node, port.device, port.port), port) for port in ports]
    up = [(values, int(port.is_active)) for values, port in rows]
    yield from _gauge(f"{prefix}_up", "1 while the InfiniBand or RoCE port is active", labels, up)
    rates = [(values, rate) for values, port in rows if (rate := port.bytes_per_second) is not None]
    yield from _gauge(f"{prefix}_rate_bytes_per_second", "Rate of the link, one direction", labels, rates)
    for name, counter in PORT_COUNTERS.items():
        family = CounterMetricFamily(f"{prefix}_{name}", counter.meaning, labels=labels)
        for values, port in rows:
            if name in port.counters:
                family.add_metric(values, port.counters[name])
        if family.samples:
            yield family


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
        rows = [(place, value) for place, cpu in readings.items() if (value := getattr(cpu, attribute)) is not None]
        yield from _gauge(name, help, ["node", "cpu"], rows)
