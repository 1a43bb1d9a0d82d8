"""The catalogue of GPU metrics: one line per family, from which the page for Prometheus is made.

Every quantity of the vocabulary and every counter of the account is a family by itself. What else is computed stands in
`DERIVED`, one entry each: a new family is one more entry there. This module knows no text format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, chain
from typing import cast

from pulsed.compute.counters.catalog import COUNTERS
from pulsed.compute.declaration import DerivedNumber, DerivedState, DerivedValue, DerivedVector, ResultPart
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.compute.health.model import CheckState
from pulsed.present.exposition.family_types import (
    NO_SAMPLES,
    PREFIX,
    Basis,
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


def _device(subject: GpuSample) -> object:
    return subject.device


def _held(subject: GpuSample) -> object:
    return subject.result.held


def _health(subject: GpuSample) -> object:
    return subject.result.health


_PARTS: Mapping[ResultPart, Basis | None] = {"": None, "held": _held, "health": _health}


def _families(value: DerivedValue) -> Iterator[DerivedFamily]:
    """Yield the family of a derived value, if it has one."""
    if isinstance(value, DerivedNumber):
        yield gauge(
            value.name, value.help, lambda subject: value.get(subject.reading, subject.result), _PARTS[value.part]
        )
    elif isinstance(value, DerivedVector):
        yield _vector(value)
    elif isinstance(value, DerivedState) and value.label:
        yield state_set(
            value.name,
            value.label,
            value.states,
            value.help,
            lambda subject: value.get(subject.reading, subject.result),
            _PARTS[value.part],
        )


def _vector(value: DerivedVector) -> DerivedFamily:
    every = one_each(value.keys)

    def samples(subject: GpuSample) -> Samples:
        numbers = value.get(subject.reading, subject.result)
        if None not in numbers:
            return every, cast("tuple[float, ...]", numbers)
        known = [(label, number) for label, number in zip(every, numbers, strict=True) if number is not None]
        return tuple([label for label, _ in known]), tuple([number for _, number in known])

    return DerivedFamily(PREFIX + value.name, "gauge", value.help, (value.label,), samples)


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


def _check_value(name: str, help: str, get: Callable[[CheckState], float | None]) -> DerivedFamily:
    """Declare a gauge per check of a board; parts of it have the health of the board and do not repeat its checks."""

    def samples(subject: GpuSample) -> Samples:
        if subject.device.entity.kind != "gpu":
            return NO_SAMPLES
        checks = subject.result.health.checks
        return counted([(each.id, value) for each in checks if each.applies and (value := get(each)) is not None])

    return DerivedFamily(PREFIX + name, "gauge", help, ("check",), samples, _health)


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
    *chain.from_iterable(map(_families, DERIVED_VALUES)),
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
        _health,
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
