"""The catalogue of GPU metric families.

Every quantity of the vocabulary, every counter and every declared derived value is a family. The others, whose samples
need more than one reading and result, are entries of `DERIVED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Literal

from pulsed.compute.declaration import DerivedNumber, DerivedState, DerivedValue, DerivedVector
from pulsed.compute.derived_results import DERIVED_VALUES
from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.xid_log import MAX_CODES
from pulsed.model.counters import COUNTERS
from pulsed.model.gpu import PLATFORM
from pulsed.model.health import OTHER_XIDS, SEVERITY
from pulsed.model.tick import GpuRow
from pulsed.model.vocabulary import QUANTITIES, is_counter
from pulsed.present.exposition.text_format import MetricType
from pulsed.translate.fields import DERIVED as COMPOSED
from pulsed.translate.fields import sources

PREFIX = "pulsed_gpu_"

Sample = tuple[tuple[str, ...], float]
"""The values of a family's own labels, and a number."""

Samples = Sequence[Sample]
"""The samples of a family for one GPU."""


Form = Literal["every", "brief", "current", "differing", "recent", "counted", "events", "zero_first"]
"""The published samples of a family: `every`; all with fewer labels (`brief`); only the `current` state; all or, if
they are equal, none (`differing`); samples that were not 0 in the last 10 minutes (`recent`); or samples of a counter
by label: of time and energy, absent before it counts (`counted`); of events, the same from 0 (`zero_first`)."""

COUNTER_FORMS = frozenset[Form](("counted", "events", "zero_first"))


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family with one series per GPU, with the name of its samples (`_total`, `_info`)."""

    name: str
    type: MetricType
    help: str


@dataclass(frozen=True, slots=True)
class CounterFamily(Family):
    """A counter over observed time, with one series per value of its label; without states it has no label."""

    label: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DerivedFamily(Family):
    """A family whose samples are computed from a `GpuRow`.

    Attributes:
        samples: returns the samples of one GPU, in a fixed order. Samples of a histogram have the suffix of their name
            (`_bucket`, `_sum`, `_count`) before the values of the labels.
        current: returns fewer samples, for the form `current`: only the states that hold.
        of_boards: whether only boards have it: MIG instances share the health of their board.
    """

    labels: tuple[str, ...]
    samples: Callable[[GpuRow], Samples]
    current: Callable[[GpuRow], Samples] | None = None
    of_boards: bool = False


def _families(value: DerivedValue) -> Iterator[DerivedFamily]:
    """Yield the family of a derived value, if it has one."""
    if isinstance(value, DerivedNumber):
        yield _number(value)
    elif isinstance(value, DerivedVector):
        yield _vector(value)
    elif isinstance(value, DerivedState) and value.label:
        yield _state_set(value)


def _number(value: DerivedNumber) -> DerivedFamily:
    """Return a gauge (a counter if named `_total`) without labels of its own; it is absent while it has no value."""

    def samples(sample: GpuRow) -> Samples:
        number = value.get(sample.reading, sample.result)
        return () if number is None else (((), number),)

    type: MetricType = "counter" if is_counter(value.name) else "gauge"
    return DerivedFamily(PREFIX + value.name, type, value.help, (), samples)


def _state_set(value: DerivedState) -> DerivedFamily:
    """Return a state set: a series per state, 1 for the current state and 0 for all others.

    Its type is gauge, because OpenMetrics' stateset requires a label named like the metric.
    """

    def samples(sample: GpuRow) -> Samples:
        now = value.get(sample.reading, sample.result)
        return [((state,), int(state == now)) for state in value.states]

    def current(sample: GpuRow) -> Samples:
        return (((value.get(sample.reading, sample.result),), 1),)

    return DerivedFamily(PREFIX + value.name, "gauge", value.help, (value.label,), samples, current)


def _vector(value: DerivedVector) -> DerivedFamily:
    def samples(sample: GpuRow) -> Samples:
        numbers = value.get(sample.reading, sample.result)
        return [((key,), number) for key, number in zip(value.keys, numbers, strict=True) if number is not None]

    return DerivedFamily(PREFIX + value.name, "gauge", value.help, (value.label,), samples)


def _distribution(sample: GpuRow) -> Samples:
    distribution = sample.result.counters.distribution
    if distribution is None:
        return ()
    below = list(accumulate(distribution.counts))
    bounds = (*map(repr, map(float, distribution.bounds)), "+Inf")
    return [
        *[(("_bucket", bound), count) for bound, count in zip(bounds, below, strict=True)],
        (("_count", ""), below[-1]),
        (("_sum", ""), distribution.sum),
    ]


_OF_BOARD = ("serial", "vbios_version")
"""Labels of the full form of `pulsed_gpu_info`: for inventories and the vendor."""


def _info(sample: GpuRow, of_board: bool = True) -> Samples:
    device = sample.device
    platform = device.platform or ("",) * len(PLATFORM)
    board = (device.serial, device.vbios_version) if of_board else ("",) * len(_OF_BOARD)
    texts = (device.model, device.pci_bus_id, device.driver_version, device.device, device.fabric, *platform, *board)
    return ((texts, 1),)


MAX_READINGS = 2
"""Readings of a check in `health_evidence`: the measure and the first input; `/gpus` has all."""


_of_boards = partial(DerivedFamily, of_boards=True)


def _problems(sample: GpuRow) -> Samples:
    return [
        ((each.id, each.state, BY_ID[each.id].cause or each.id, each.message, each.remedy), 1)
        for each in sample.result.health.problems
    ]


def _evidence(sample: GpuRow) -> Samples:
    return [
        ((each.id, name), value)
        for each in sample.result.health.problems
        if each.state != "info"
        for name, value in each.evidence[:MAX_READINGS]
    ]


def _nvlink_fault(sample: GpuRow) -> Samples:
    fault = sample.result.health.nvlink_fault
    if fault is None:
        return ()
    link = "" if fault.link is None else str(fault.link)
    return (((str(fault.xid), link, fault.fabric), fault.time),)


TRANSMIT_WAITS = "transmit_waits"
"""The kind of counter of a congested link, which is not an error."""

ROUTINE_ERRORS = "symbol_errors"
"""The kind of errors that the code of NVLink 5 corrects all the time, on every link."""


def _last_xid(sample: GpuRow) -> Samples:
    last = sample.result.health.xid_last
    return () if last is None else ((("unknown" if last.time is None else "known",), last.code),)


def _help(name: str) -> str:
    """Return the meaning of a quantity and the DCGM fields that provide it."""
    origins = [f"DCGM field {field}" for field in sources(name)]
    if name in COMPOSED:
        origins.append(COMPOSED[name])
    meaning = QUANTITIES[name].meaning
    return f"{meaning}; from {', otherwise '.join(origins)}" if origins else meaning


QUANTITY_FAMILIES: tuple[Family, ...] = tuple(
    Family(PREFIX + name, "counter" if is_counter(name) else "gauge", _help(name)) for name in QUANTITIES
)
"""One per quantity of the vocabulary, in the order of `Reading`: the n-th family has the n-th value of a reading."""

COUNTER_FAMILIES: tuple[CounterFamily, ...] = tuple(
    CounterFamily(f"{PREFIX}{each.name}_total", "counter", each.meaning, each.label, each.states) for each in COUNTERS
)
"""One per counter, in the order of `CounterSnapshot.values`."""

DERIVED: tuple[DerivedFamily, ...] = (
    DerivedFamily(
        PREFIX + "info",
        "info",
        "Identity of the GPU",
        ("model", "pci_bus_id", "driver_version", "device", "fabric", *PLATFORM, *_OF_BOARD),
        _info,
        lambda sample: _info(sample, of_board=False),
    ),
    *chain.from_iterable(map(_families, DERIVED_VALUES)),
    _of_boards(
        PREFIX + "health_check",
        "gauge",
        "State of one check: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
        ("check",),
        lambda sample: [((each.id,), SEVERITY[each.state]) for each in sample.result.health.checks if each.applies],
        # A GPU may be unknown as a whole and have raised checks.
        current=lambda sample: [((each.id,), each.severity) for each in sample.result.health.problems],
    ),
    _of_boards(
        PREFIX + "health_seconds_total",
        "counter",
        "Time in each health state since the first sample, kept across restarts of pulsed; time without samples counts"
        " as unknown",
        ("state",),
        lambda sample: [((state,), seconds) for state, seconds in sample.result.health_seconds],
    ),
    _of_boards(
        PREFIX + "health_check_since_timestamp_seconds",
        "gauge",
        "Start of the current state of a check, while it is worse than ok",
        ("check",),
        lambda sample: [((each.id,), each.since) for each in sample.result.health.problems if each.since is not None],
    ),
    _of_boards(
        PREFIX + "health_problem_info",
        "info",
        "Problem and remedy of a check as text, while it is worse than ok; cause: a cause that the GPUs of a node may"
        " share, such as cooling, or the check",
        ("check", "state", "cause", "problem", "remedy"),
        _problems,
    ),
    _of_boards(
        PREFIX + "health_evidence",
        "gauge",
        "Main readings that decide a check, in the units of their names, while it is worse than info",
        ("check", "reading"),
        _evidence,
    ),
    _of_boards(
        PREFIX + "health_check_last_event_timestamp_seconds",
        "gauge",
        "Time of the last event of a check",
        ("check",),
        lambda sample: [
            ((each.id,), each.last_event)
            for each in sample.result.health.checks
            if each.applies and each.last_event is not None
        ],
    ),
    _of_boards(
        PREFIX + "nvlink_errors_total",
        "counter",
        "Errors and recoveries of one NVLink by kind, since driver load; absent without any",
        ("link", "kind"),
        lambda sample: [
            ((str(link.link), kind), count)
            for link in sample.result.health.nvlinks
            for kind, count in link.counters
            if count and kind not in (ROUTINE_ERRORS, TRANSMIT_WAITS)
        ],
    ),
    _of_boards(
        PREFIX + "nvlink_link_transmit_waits_total",
        "counter",
        "Ticks in which this NVLink had data to send but no credit; absent without any",
        ("link",),
        lambda sample: [
            ((str(link.link),), count)
            for link in sample.result.health.nvlinks
            for kind, count in link.counters
            if count and kind == TRANSMIT_WAITS
        ],
    ),
    _of_boards(
        PREFIX + "nvlink_down",
        "gauge",
        "1 while this NVLink is down but should be up; other links have no series",
        ("link",),
        lambda sample: [((str(link.link),), 1.0) for link in sample.result.health.nvlinks if link.is_down],
    ),
    _of_boards(
        PREFIX + "nvlink_fault_timestamp_seconds",
        "gauge",
        "Start of the fault that raises the check nvlink_fault. Faults follow from each other within a fabric: cluster "
        "and clique, or the node",
        ("xid", "link", "fabric"),
        _nvlink_fault,
    ),
    _of_boards(
        PREFIX + "any_health_events_total",
        "counter",
        "Events of all checks",
        (),
        lambda sample: (((), sum([number for _, number in sample.result.health.events])),),
    ),
    _of_boards(
        PREFIX + "health_events_total",
        "counter",
        "Events of a check",
        ("check",),
        lambda sample: [((check,), number) for check, number in sample.result.health.events],
    ),
    _of_boards(
        PREFIX + "any_xid_events_total",
        "counter",
        "XIDs observed, of any code",
        (),
        lambda sample: (((), sum([number for _, number in sample.result.health.xid_events])),),
    ),
    _of_boards(
        PREFIX + "xid_events_total",
        "counter",
        f"XIDs observed, by code; critical codes start at 0; after {MAX_CODES} others, new codes count as {OTHER_XIDS}",
        ("xid",),
        lambda sample: [((str(xid),), number) for xid, number in sample.result.health.xid_events],
    ),
    _of_boards(
        PREFIX + "xid_last",
        "gauge",
        "Code of the last XID; age is unknown if it happened before pulsed started",
        ("age",),
        _last_xid,
    ),
    DerivedFamily(
        PREFIX + "clock_event_ratio",
        "gauge",
        "Share of the last minute in which the clocks were reduced for this reason",
        ("reason",),
        lambda sample: [((reason,), share) for reason, share in sample.result.clock_event_shares],
    ),
    DerivedFamily(
        PREFIX + "real_utilization_distribution_ratio",
        "histogram",
        "Distribution of real utilization over observed time; samples without it are not counted",
        ("le",),
        _distribution,
    ),
    DerivedFamily(
        PREFIX + "accounting_created_timestamp_seconds",
        "gauge",
        "Start of the counters over observed time: the first sample of this GPU since pulsed started",
        (),
        lambda sample: (((), created),) if (created := sample.result.counters.created) is not None else (),
    ),
    DerivedFamily(
        PREFIX + "inputs_inconsistent",
        "gauge",
        "1 while implausible inputs are ignored or limited to their range",
        ("reason",),
        lambda sample: [((reason,), 1) for reason in sample.anomalies],
    ),
    DerivedFamily(
        PREFIX + "last_sample_timestamp_seconds",
        "gauge",
        "Time of the last sample; the series of this GPU are removed when it is too old",
        (),
        lambda sample: (((), sample.time),),
    ),
)
"""In the order of the page."""
