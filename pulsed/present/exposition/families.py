"""The catalogue of GPU metrics: one line per family, from which the page for Prometheus is made.

Every quantity of the vocabulary and every counter of the account is a family by itself. What else is computed stands in
`DERIVED`, one entry each: a new family is one more entry there. This module knows no text format.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate

from pulsed.compute.counters.catalog import COUNTERS
from pulsed.compute.health.model import STATES, CheckState
from pulsed.compute.peaks import RESOURCES
from pulsed.compute.saturation import LIMITING_RESOURCES
from pulsed.compute.workload.class_table import BOTTLENECKS as KNOWN_BOTTLENECKS
from pulsed.compute.workload.class_table import UNKNOWN, WORKLOAD_CLASSES
from pulsed.present.exposition.family_types import (
    ALONE,
    NO_SAMPLES,
    PREFIX,
    CounterFamily,
    DerivedFamily,
    Family,
    Labels,
    Samples,
    counted,
    gauge,
    one_each,
    state_set,
)
from pulsed.present.gpu_sample import GpuSample
from pulsed.translate.fields import DERIVED as COMPOSED
from pulsed.translate.fields import sources
from pulsed.translate.vocabulary import QUANTITIES, is_counter

BOTTLENECKS = (*KNOWN_BOTTLENECKS, UNKNOWN)
"""The states of `pulsed_gpu_bottleneck`."""


def _device(subject: GpuSample) -> object:
    return subject.device


def _held(subject: GpuSample) -> object:
    return subject.result.held


def _of_health(subject: GpuSample) -> object:
    return subject.result.health


def _distribution(subject: GpuSample) -> Samples:
    found = subject.result.account.distribution
    if found is None:
        return NO_SAMPLES
    below = list(accumulate(found.counts))
    return _of_histogram(found.bounds), (*below, below[-1], found.sum)


@lru_cache(maxsize=8)
def _of_histogram(bounds: tuple[float, ...]) -> Labels:
    """Give the labels of a histogram's samples; every GPU has the same ones."""
    buckets = (*map(repr, map(float, bounds)), "+Inf")
    return (*(("_bucket", bound) for bound in buckets), ("_count", ""), ("_sum", ""))


def _info(subject: GpuSample) -> Samples:
    device = subject.device
    return ((device.model, device.pci_bus_id, device.driver_version, device.device),), (1,)


_BOUNDS = one_each(("lower", "upper"))
_RESOURCES = one_each(RESOURCES)


def _bounds(subject: GpuSample) -> Samples:
    found = subject.result.real_utilization
    return _BOUNDS, (found.lower, found.upper)


def _saturation_bounds(subject: GpuSample) -> Samples:
    found = subject.result.saturation
    return _BOUNDS, (found.lower, found.upper)


def _resource_saturation(subject: GpuSample) -> Samples:
    known = [
        (label, value)
        for label, value in zip(_RESOURCES, subject.result.saturation.resources, strict=True)
        if value is not None
    ]
    return tuple([label for label, _ in known]), tuple([value for _, value in known])


def _check_value(name: str, help: str, get: Callable[[CheckState], float | None]) -> DerivedFamily:
    """Declare a gauge per check of a board; parts of it have the health of the board and do not repeat its checks."""

    def samples(subject: GpuSample) -> Samples:
        if subject.device.entity.kind != "gpu":
            return NO_SAMPLES
        checks = subject.result.health.checks
        return counted([(each.id, value) for each in checks if each.applies and (value := get(each)) is not None])

    return DerivedFamily(PREFIX + name, "gauge", help, ("check",), samples, _of_health)


def _xids(subject: GpuSample) -> Samples:
    return counted(subject.result.health.xid_events) if subject.device.entity.kind == "gpu" else NO_SAMPLES


def _last_xid(subject: GpuSample) -> Samples:
    last = subject.result.health.xid_last
    if last is None or subject.device.entity.kind != "gpu":
        return NO_SAMPLES
    return (("unknown" if last.time is None else "known",),), (last.code,)


def _health_events(subject: GpuSample) -> Samples:
    return counted(subject.result.health.events) if subject.device.entity.kind == "gpu" else NO_SAMPLES


def _help(name: str) -> str:
    """Say what a quantity means and which of DCGM's fields it comes from."""
    origins = [f"DCGM field {field}" for field in sources(name)]
    if name in COMPOSED:
        origins.append(COMPOSED[name])
    meaning = QUANTITIES[name].meaning
    return f"{meaning}; from {', else '.join(origins)}" if origins else meaning


QUANTITY_FAMILIES: tuple[Family, ...] = tuple(
    Family(PREFIX + name, "counter" if is_counter(name) else "gauge", _help(name)) for name in QUANTITIES
)
"""One per quantity of the vocabulary, in the order of `Reading`: the n-th family has the n-th value of a reading."""

COUNTER_FAMILIES: tuple[CounterFamily, ...] = tuple(
    CounterFamily(f"{PREFIX}{each.name}_total", "counter", each.meaning, each.label, each.states) for each in COUNTERS
)
"""One per counter of the account, in the order of its values."""

DERIVED: tuple[DerivedFamily, ...] = (
    DerivedFamily(
        PREFIX + "info",
        "info",
        "What is known about the GPU besides numbers",
        ("model", "pci_bus_id", "driver_version", "device"),
        _info,
        _device,
    ),
    gauge(
        "real_utilization_ratio",
        "How much of the GPU does real work: the weighted mean of SM, tensor, DRAM and graphics engine activity;"
        " absent while too few of them are known",
        lambda subject: subject.result.real_utilization.ratio,
    ),
    DerivedFamily(
        PREFIX + "real_utilization_bound_ratio",
        "gauge",
        "Between which bounds the real utilization lies, whatever the missing inputs are",
        ("bound",),
        _bounds,
    ),
    gauge(
        "real_utilization_coverage_ratio",
        "Share of the weights of the real utilization whose input is known",
        lambda subject: subject.result.real_utilization.coverage,
    ),
    state_set(
        "workload_class",
        "class",
        WORKLOAD_CLASSES,
        "What kind of work the GPU does, flickers left out: 1 for its class, 0 for all others",
        lambda subject: subject.result.held.workload_class,
        _held,
    ),
    DerivedFamily(
        PREFIX + "workload_class_changes_total",
        "counter",
        "Changes of that class",
        (),
        lambda subject: (ALONE, (subject.result.held.changes,)),
        _held,
    ),
    state_set(
        "bottleneck",
        "bottleneck",
        BOTTLENECKS,
        "What limits the work on the GPU: 1 for the one that holds, 0 for all others",
        lambda subject: subject.result.held.bottleneck,
        _held,
    ),
    gauge(
        "saturation_ratio",
        "How near the GPU is to a limit of its hardware: the largest of resource_saturation_ratio; absent while neither"
        " memory and a compute pipe are known nor the rest is bounded",
        lambda subject: subject.result.saturation.ratio,
    ),
    DerivedFamily(
        PREFIX + "saturation_bound_ratio",
        "gauge",
        "Between which bounds the saturation lies, whatever the missing inputs are",
        ("bound",),
        _saturation_bounds,
    ),
    DerivedFamily(
        PREFIX + "resource_saturation_ratio",
        "gauge",
        "Activity over what the resource reaches in practice on this architecture",
        ("resource",),
        _resource_saturation,
    ),
    state_set(
        "limiting_resource",
        "resource",
        LIMITING_RESOURCES,
        "Which resource is nearest to its limit: 1 for that one, 0 for all others",
        lambda subject: subject.result.saturation.limiting_resource,
    ),
    gauge(
        "tensor_throughput_ratio",
        "Tensor activity times SM clock over its maximum: the nearest to model FLOP utilization that counters give",
        lambda subject: subject.result.saturation.tensor_throughput_ratio,
    ),
    state_set(
        "health_state",
        "state",
        STATES,
        "Worst state of all checks that could be judged: 1 for that one, 0 for all others; unknown is not ok",
        lambda subject: subject.result.health.state,
        _of_health,
    ),
    gauge(
        "health_severity",
        "The same as a number: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
        lambda subject: subject.result.health.severity,
        _of_health,
    ),
    gauge(
        "health_coverage_ratio",
        "Share of the checks that apply to this GPU which could be judged",
        lambda subject: subject.result.health.coverage,
        _of_health,
    ),
    _check_value(
        "health_check",
        "State of one check: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
        lambda each: each.severity,
    ),
    _check_value(
        "health_check_since_timestamp_seconds",
        "Since when a check is in its state, while that is worse than ok",
        lambda each: each.since if each.severity > 0 else None,
    ),
    _check_value(
        "health_check_last_event_timestamp_seconds",
        "When the last event that counts for a check happened",
        lambda each: each.last_event,
    ),
    DerivedFamily(
        PREFIX + "health_events_total",
        "counter",
        "Events that count for a check",
        ("check",),
        _health_events,
        lambda subject: subject.result.health.events,
    ),
    DerivedFamily(
        PREFIX + "xid_events_total",
        "counter",
        "XIDs seen to happen, by code; critical codes are there from 0 on",
        ("xid",),
        _xids,
        lambda subject: subject.result.health.xid_events,
    ),
    DerivedFamily(
        PREFIX + "xid_last",
        "gauge",
        "Code of the last XID; its age is unknown when it was there before pulsed was",
        ("age",),
        _last_xid,
        _of_health,
    ),
    DerivedFamily(
        PREFIX + "clock_event_ratio",
        "gauge",
        "Share of the last minute in which the clocks were held down for this reason",
        ("reason",),
        lambda subject: counted(subject.result.clock_event_shares),
        lambda subject: subject.result.clock_event_shares,
    ),
    DerivedFamily(
        PREFIX + "real_utilization_distribution_ratio",
        "histogram",
        "How often the real utilization of a sample was how high, over observed time; samples without one do not count",
        ("le",),
        _distribution,
    ),
    gauge(
        "accounting_created_timestamp_seconds",
        "When the counters over observed time began at 0: the first sample of this GPU since pulsed started",
        lambda subject: subject.result.account.created,
        lambda subject: subject.result.account.created,
    ),
    DerivedFamily(
        PREFIX + "inputs_inconsistent",
        "gauge",
        "1 while some inputs are left out, or cut to their range, because they cannot be true",
        ("reason",),
        lambda subject: (one_each(subject.anomalies), (1,) * len(subject.anomalies)),
        lambda subject: subject.anomalies,
    ),
    gauge(
        "last_sample_timestamp_seconds",
        "When the values of this GPU were sampled; its series leave the page once they are too old",
        lambda subject: subject.time,
    ),
)
"""What is computed, in the order of the page."""
