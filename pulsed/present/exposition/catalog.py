"""The families of GPUs, of all GPUs together, and of owners on the page: which are published, and in which form.

`publish.series: full` publishes every series. `lean` publishes what dashboards, rules and alerts need in at most 100
series per GPU, besides 3 per raised check and one per XID: a state set is its current state, a counter by label begins
once it counts. Error counters and limits are the same in both, because an absent one means that it is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from sys import float_info
from typing import Literal, NamedTuple

from pulsed.model.tick import GpuRow
from pulsed.present.exposition.families import (
    COUNTER_FAMILIES,
    DERIVED,
    PREFIX,
    QUANTITY_FAMILIES,
    CounterFamily,
    DerivedFamily,
    Family,
    Form,
    Samples,
)
from pulsed.present.exposition.owner_families import OWNER_NAMES
from pulsed.present.exposition.text_format import MetricType, label_pairs

SeriesChoice = Literal["lean", "full"]


class Summary(NamedTuple):
    """A family over all GPUs, with the name of its samples."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...]


DISTRIBUTION = Summary(
    "pulsed_real_utilization_distribution_ratio",
    "histogram",
    "Distribution of real utilization over the observed time of all GPUs, by node and model",
    ("node", "model", "le"),
)
CHECKS = Summary(
    "pulsed_health_checks", "gauge", "GPUs by check and state, for states other than ok", ("check", "state")
)
QUANTITIES = Summary(
    "pulsed_quantity_gpus",
    "gauge",
    "GPUs with a reading of a quantity, including zeros whose series are omitted",
    ("quantity",),
)
PEAKS = Summary(
    "pulsed_resource_peak_ratio",
    "gauge",
    "Practical peak of the activity of a resource: activity over peak is its saturation",
    ("model", "resource"),
)
SUMMARIES = (DISTRIBUTION, CHECKS, QUANTITIES, PEAKS)

RECENT_QUANTITIES = (
    *(f"{name}_active_ratio" for name in ("integer", "tensor_hmma", "tensor_imma", "tensor_dfma")),
    *(f"{name}_utilization_ratio" for name in ("encoder", "decoder", "memory")),
    "nvlink_bandwidth_bytes_per_second",
)
"""Quantities of form `recent`: `pulsed_quantity_gpus` distinguishes 0 from not measured."""

_COUNTED = ("workload_class_seconds", "class_energy_joules", "idle_seconds", "idle_energy_joules")

_LEAN: Mapping[str, Form | None] = {
    "info": "brief",
    "workload_class": "current",
    "bottleneck": "current",
    "limiting_resource": "current",
    "health_state": None,  # health_severity
    "health_check": "current",  # the others: pulsed_health_checks
    "health_check_last_event_timestamp_seconds": None,  # increase() of health_events_total
    "xid_last": None,  # xid_last_code
    "health_events_total": "events",
    "health_seconds_total": "counted",
    "xid_events_total": "events",
    **{f"{name}_total": "counted" for name in _COUNTED},
    **{
        family.name.removeprefix(PREFIX): "counted"
        for family in COUNTER_FAMILIES
        if family.name.endswith("_unknown_seconds_total") and "real_utilization" not in family.name
    },
    "real_utilization_distribution_ratio": None,  # the summary of the same name
    "resource_saturation_ratio": None,  # activity over pulsed_resource_peak_ratio
    "real_utilization_bound_ratio": "differing",
    "saturation_bound_ratio": "differing",
    **{f"{link}_{way}_bytes_per_second": None for link in ("pcie", "nvlink") for way in ("transmit", "receive")},
    **{
        name: None
        for family in QUANTITY_FAMILIES
        if (name := family.name.removeprefix(PREFIX)).endswith("_cycles_total") or name.startswith("diag_")
    },
    "nvlink_link_transmit_waits_total": None,
    "memory_free_bytes": None,
    **dict.fromkeys(RECENT_QUANTITIES, "recent"),
    "accounting_created_timestamp_seconds": None,
    "workload_class_changes_total": None,
}
"""Forms in lean that differ from those in full; None: not in lean. Integrals replace the rates of links and
cycle counters, the check `dcgm_diag` its results."""

_FULL: Mapping[str, Form] = {"xid_events_total": "zero_first"}

GPU_FAMILIES: tuple[Family, ...] = (*QUANTITY_FAMILIES, *COUNTER_FAMILIES, *DERIVED)
NAMES: tuple[str, ...] = (
    *(family.name for family in GPU_FAMILIES),
    *(summary.name for summary in SUMMARIES),
    *OWNER_NAMES,
)
"""The names that `publish.include` and `publish.exclude` accept."""

OWN_PREFIXES = (
    "process_",
    *(f"pulsed_{word}_" for word in ("attribution", "build", "config", "http", "kernel_log", "push", "source", "tick")),
)
"""How the names of families about pulsed itself begin."""


class PageColumn(NamedTuple):
    """One value of every GPU.

    Attributes:
        family: a family with a column per state has its columns one after the other.
        source: its position in a reading followed by its counters.
        prefix: of its lines, up to the labels of the GPU.
        least: minimum of its values; others are not published.
    """

    family: Family
    source: int
    prefix: str
    least: float
    form: Form


class PageDerived(NamedTuple):
    """A derived family, its form, and its samples in that form; a `CounterForm` has all samples."""

    family: DerivedFamily
    form: Form
    samples: Callable[[GpuRow], Samples]


@dataclass(frozen=True)
class Catalog:
    """The published families, in the order of the page: the columns, then the derived families; and names of the
    families over all GPUs, and of owners.
    """

    columns: tuple[PageColumn, ...]
    derived: tuple[PageDerived, ...]
    summaries: frozenset[str]
    owners: frozenset[str]

    @property
    def families(self) -> tuple[Family, ...]:
        """The families of columns and the derived ones; those with a column per state several times."""
        return (*(column.family for column in self.columns), *(each.family for each in self.derived))


def catalog(series: SeriesChoice, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Catalog:
    """Return the families of `series`, plus matches of `include` in their full form, without matches of `exclude`.

    Patterns are names with `*`, `?` and `[...]`.
    """
    forms = {name: form for name in NAMES if (form := form_of(name, series, include, exclude))}
    places = chain(
        ((family, family.name + "{") for family in QUANTITY_FAMILIES),
        ((family, f"{family.name}{{{_own(family, state)}") for family in COUNTER_FAMILIES for state in family.states),
    )
    return Catalog(
        tuple(
            PageColumn(family, source, prefix, 0.0 if family.type == "counter" else -float_info.max, forms[family.name])
            for source, (family, prefix) in enumerate(places)
            if family.name in forms
        ),
        tuple(
            PageDerived(family, form, _samples(family, form)) for family in DERIVED if (form := forms.get(family.name))
        ),
        frozenset(summary.name for summary in SUMMARIES if summary.name in forms),
        frozenset(name for name in OWNER_NAMES if name in forms),
    )


def form_of(
    name: str, series: SeriesChoice = "lean", include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Form | None:
    """Return the form that a family has in `series`, with patterns as for `catalog`; None if it is not in it."""
    if any(fnmatchcase(name, pattern) for pattern in exclude):
        return None
    suffix = name.removeprefix(PREFIX)
    full = _FULL.get(suffix, "every")
    if series == "full" or any(fnmatchcase(name, pattern) for pattern in include):
        return full
    if not name.startswith(PREFIX) or name in OWNER_NAMES:
        return full
    return _LEAN.get(suffix, full)


def _samples(family: DerivedFamily, form: Form) -> Callable[[GpuRow], Samples]:
    def differing(sample: GpuRow) -> Samples:
        samples = family.samples(sample)
        return samples if len({number for _, number in samples}) > 1 else ()

    if form in ("brief", "current") and family.current is not None:
        return family.current
    return differing if form == "differing" else family.samples


def _own(family: CounterFamily, state: str) -> str:
    return f"{label_pairs([(family.label, state)])}," if state else ""


FULL = catalog("full")
