"""The GPU families once more, in the plainest way: a prometheus_client collector that knows nothing of the page.

It is written from the contract (names, labels, types), not from `pulsed.present.exposition.families`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from pulsed.compute.declaration import DerivedNumber
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.compute.health.checks import BY_ID
from pulsed.model.health import NOT_EVALUATED, CheckState, Health
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import QUANTITIES
from tests.present.boards import Gpu
from tests.support.ticks import anomalies_of, readings_of, results_of

CLASSES = (
    "idle",
    "tensor_heavy_compute",
    "tensor_compute",
    "fp64_hpc_compute",
    "io_or_data_loading",
    "memory_bound",
    "compute_heavy",
    "compute_active",
    "memory_active",
    "busy_low_sm_use",
    "low_utilization",
    "mixed_or_moderate",
    "unknown",
)
BOTTLENECKS = ("idle", "compute", "io", "memory", "mixed", "unknown")

RESOURCES = ("tensor", "fp64", "fp32", "fp16", "integer", "dram", "pcie", "nvlink", "c2c")
HEALTH_STATES = ("unknown", "ok", "info", "warn", "hot", "crit")

SPELLED_OUT = (
    "real_utilization_ratio",
    "real_utilization_coverage_ratio",
    "workload_class_changes_total",
    "saturation_ratio",
    "health_severity",
    "health_coverage_ratio",
)
"""Derived numbers of the contract."""

INTEGRALS = {
    "real_utilization": "real_utilization_seconds",
    "sm_active": "sm_active_seconds",
    "tensor_active": "tensor_active_seconds",
    "dram_active": "dram_active_seconds",
    "pcie_transmit": "observed_pcie_transmit_bytes",
    "pcie_receive": "observed_pcie_receive_bytes",
    "nvlink_transmit": "observed_nvlink_transmit_bytes",
    "nvlink_receive": "observed_nvlink_receive_bytes",
    "c2c_transmit": "observed_c2c_transmit_bytes",
    "c2c_receive": "observed_c2c_receive_bytes",
}
COUNTERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("observed_seconds", "", ("",)),
    ("workload_class_seconds", "class", CLASSES),
    ("class_energy_joules", "class", CLASSES),
    ("energy_unknown_seconds", "", ("",)),
    ("idle_seconds", "kind", ("free", "held", "unknown")),
    ("idle_energy_joules", "kind", ("free", "held", "unknown")),
    *((integral, "", ("",)) for integral in INTEGRALS.values()),
    *((f"{word}_unknown_seconds", "", ("",)) for word in INTEGRALS),
)

Labels = dict[str, str]
Get = Callable[[Gpu, float], Iterable[tuple[Labels, float | None]]]


class ReferenceCollector(Collector):
    def __init__(self, board: TargetStore, now: float) -> None:
        self._gpus = list(_shown(board, now))

    def collect(self) -> Iterator[Metric]:
        for family in self._families():
            if family.samples:
                yield family

    def _families(self) -> Iterator[Metric]:
        for position, (name, quantity) in enumerate(QUANTITIES.items()):
            values = [(labels, gpu.reading[position]) for labels, gpu, _ in self._gpus]
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"pulsed_gpu_{name}", quantity.meaning)
            _add(family, f"pulsed_gpu_{name}", values)
            yield family
        info = InfoMetricFamily("pulsed_gpu", "Identity of the GPU")
        for labels, gpu, _ in self._gpus:
            known = {name: getattr(gpu.device, name) for name in ("model", "pci_bus_id", "driver_version", "device")}
            info.add_metric([], {**{name: value for name, value in known.items() if value}, **labels})
        yield info
        yield self._gauge("real_utilization_ratio", lambda gpu, time: [({}, gpu.result.real_utilization.ratio.value)])
        yield self._gauge(
            "real_utilization_bound_ratio",
            lambda gpu, time: [
                ({"bound": bound}, getattr(gpu.result.real_utilization.ratio, side))
                for bound, side in (("lower", "low"), ("upper", "high"))
            ],
        )
        yield self._gauge(
            "real_utilization_coverage_ratio", lambda gpu, time: [({}, gpu.result.real_utilization.coverage)]
        )
        yield self._gauge(
            "workload_class",
            lambda gpu, time: [
                ({"class": name}, float(name == gpu.result.shown_class.workload_class)) for name in CLASSES
            ],
        )
        yield self._counter("workload_class_changes", lambda gpu, time: [({}, gpu.result.shown_class.changes)])
        yield self._gauge(
            "bottleneck",
            lambda gpu, time: [
                ({"bottleneck": name}, float(name == gpu.result.shown_class.bottleneck)) for name in BOTTLENECKS
            ],
        )
        yield self._gauge(
            "inputs_inconsistent", lambda gpu, time: [({"reason": reason}, 1.0) for reason in gpu.anomalies]
        )
        yield self._gauge("last_sample_timestamp_seconds", lambda gpu, time: [({}, time)])
        yield from self._accounts()
        yield from self._saturation()
        yield from self._later()
        yield from self._health()

    def _problems(self) -> Metric:
        family = InfoMetricFamily("pulsed_gpu_health_problem", "")
        for labels, gpu, _ in self._gpus:
            for check in _problems_of(gpu):
                cause = BY_ID[check.id].cause or check.id
                own = {"check": check.id, "state": check.state, "cause": cause}
                texts = {"problem": check.message, "remedy": check.remedy}
                family.add_metric([], {**own, **{name: text for name, text in texts.items() if text}, **labels})
        return family

    def _saturation(self) -> Iterator[Metric]:
        yield self._gauge("saturation_ratio", lambda gpu, time: [({}, gpu.result.saturation.ratio.value)])
        yield self._gauge(
            "saturation_bound_ratio",
            lambda gpu, time: [
                ({"bound": bound}, getattr(gpu.result.saturation.ratio, side))
                for bound, side in (("lower", "low"), ("upper", "high"))
            ],
        )
        yield self._gauge(
            "resource_saturation_ratio",
            lambda gpu, time: [
                ({"resource": name}, value)
                for name, value in zip(RESOURCES, gpu.result.saturation.resources, strict=True)
            ],
        )
        yield self._gauge(
            "limiting_resource",
            lambda gpu, time: [
                ({"resource": name}, float(name == gpu.result.saturation.limiting_resource))
                for name in (*RESOURCES, "none", "unknown")
            ],
        )

    def _later(self) -> Iterator[Metric]:
        """Numbers that were declared after this collector was written; their values have tests of their own."""
        for value in DERIVED_VALUES:
            if isinstance(value, DerivedNumber) and value.name not in SPELLED_OUT:
                yield self._gauge(value.name, lambda gpu, time, get=value.get: [({}, get(gpu.reading, gpu.result))])  # type: ignore[misc]

    def _health(self) -> Iterator[Metric]:
        yield self._gauge(
            "health_state",
            lambda gpu, time: [({"state": state}, float(state == gpu.result.health.state)) for state in HEALTH_STATES],
        )
        yield self._gauge("health_severity", lambda gpu, time: [({}, gpu.result.health.severity)])
        yield self._gauge("health_coverage_ratio", lambda gpu, time: [({}, gpu.result.health.coverage)])

        def checks(get: Callable[[CheckState], float | None]) -> Get:
            return lambda gpu, time: [
                ({"check": check.id}, get(check)) for check in _board_health(gpu).checks if check.applies
            ]

        def total(get: Callable[[Health], Iterable[tuple[object, int]]]) -> Get:
            return lambda gpu, time: [
                ({}, sum(count for _, count in get(gpu.result.health))) for _ in [0] if gpu.device.entity.kind == "gpu"
            ]

        yield self._gauge("health_check", checks(lambda check: check.severity))
        yield self._gauge(
            "health_check_since_timestamp_seconds",
            checks(lambda check: check.since if check.state not in ("ok", "unknown") else None),
        )
        yield self._gauge("health_check_last_event_timestamp_seconds", checks(lambda check: check.last_event))
        yield self._problems()
        yield self._gauge(
            "health_evidence",
            lambda gpu, time: [
                ({"check": check.id, "reading": name}, value)
                for check in _problems_of(gpu)
                if check.state != "info"
                for name, value in check.evidence[:2]
            ],
        )
        yield self._counter(
            "health_events", lambda gpu, time: [({"check": name}, count) for name, count in _board_health(gpu).events]
        )
        yield self._counter("any_health_events", total(lambda health: health.events))
        yield self._counter("any_xid_events", total(lambda health: health.xid_events))
        yield self._counter(
            "xid_events",
            # At 0 on the first page.
            lambda gpu, time: [({"xid": str(code)}, 0) for code, _ in _board_health(gpu).xid_events],
        )
        yield self._gauge(
            "xid_last",
            lambda gpu, time: [
                ({"age": "unknown" if last.time is None else "known"}, last.code)
                for last in [_board_health(gpu).xid_last]
                if last
            ],
        )
        yield self._gauge(
            "clock_event_ratio",
            lambda gpu, time: [({"reason": reason}, share) for reason, share in gpu.result.clock_event_shares],
        )

    def _accounts(self) -> Iterator[Metric]:
        for name, label, states in COUNTERS:
            yield self._counter(
                name,
                lambda gpu, time, name=name, label=label, states=states: [  # type: ignore[misc]
                    ({label: state} if label else {}, gpu.result.counters.value(name, state)) for state in states
                ],
            )
        yield self._gauge("accounting_created_timestamp_seconds", lambda gpu, time: [({}, gpu.result.counters.created)])
        histogram = HistogramMetricFamily("pulsed_gpu_real_utilization_distribution_ratio", "")
        for labels, gpu, _ in self._gpus:
            found = gpu.result.counters.distribution
            if found is not None:
                bounds = [*map(str, found.bounds), "+Inf"]
                counts = [sum(found.counts[: at + 1]) for at in range(len(bounds))]
                for bound, count in zip(bounds, counts, strict=True):
                    histogram.add_sample(f"{histogram.name}_bucket", {"le": bound, **labels}, count)
                histogram.add_sample(f"{histogram.name}_count", labels, counts[-1])
                histogram.add_sample(f"{histogram.name}_sum", labels, found.sum)
        yield histogram

    def _gauge(self, name: str, get: Get) -> Metric:
        return self._filled(GaugeMetricFamily(f"pulsed_gpu_{name}", ""), f"pulsed_gpu_{name}", get)

    def _counter(self, name: str, get: Get) -> Metric:
        return self._filled(CounterMetricFamily(f"pulsed_gpu_{name}", ""), f"pulsed_gpu_{name}_total", get)

    def _filled(self, family: Metric, name: str, get: Get) -> Metric:
        values = [({**own, **labels}, value) for labels, gpu, time in self._gpus for own, value in get(gpu, time)]
        _add(family, name, values)
        return family


def _board_health(gpu: Gpu) -> Health:
    """The checks, which a part of a board does not repeat."""
    return gpu.result.health if gpu.device.entity.kind == "gpu" else NOT_EVALUATED


def _problems_of(gpu: Gpu) -> list[CheckState]:
    return [check for check in _board_health(gpu).checks if check.applies and check.state not in ("ok", "unknown")]


def _add(family: Metric, name: str, values: Iterable[tuple[Labels, float | None]]) -> None:
    for labels, value in values:
        if value is not None and math.isfinite(value) and (value >= 0 or not name.endswith("_total")):
            family.add_sample(name, labels, value)


def _shown(board: TargetStore, now: float) -> Iterator[tuple[Labels, Gpu, float]]:
    fresh = [target.tick for target in board.targets if target.tick and now - target.arrived <= target.stale_after]
    gpus = [
        (Gpu(device, reading, result, tuple(anomalies_of(tick).get(position, ()))), tick.time)
        for tick in fresh
        for position, (device, reading, result) in enumerate(
            zip(tick.devices, readings_of(tick), results_of(tick), strict=True)
        )
    ]
    nodes = [gpu.device.entity.node or board.node for gpu, _ in gpus]
    seen = set()
    for (gpu, time), node in zip(gpus, nodes, strict=True):
        entity = gpu.device.entity
        key = ("" if entity.uuid else node, entity.uuid, None if entity.uuid else entity.gpu, entity.mig_id)
        if key in seen:
            continue
        seen.add(key)
        labels = {"node": node, "gpu": entity.gpu, "uuid": entity.uuid}
        if entity.mig_id:
            labels["mig_id"] = entity.mig_id
        if entity.mig_profile:
            labels["mig_profile"] = entity.mig_profile
        yield labels, gpu, time
