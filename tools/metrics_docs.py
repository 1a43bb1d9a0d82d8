"""Render METRICS.md from the tables that the Prometheus page is made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from prometheus_client import Metric

from pulsed.adapter.app import AdapterTelemetry
from pulsed.adapter.cluster_gpus import ClusterGpus, pod_reader
from pulsed.attribution.attribution import LABELS
from pulsed.attribution.source import SourceState
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.cluster_access import ClusterAccess
from pulsed.kubernetes.exporter_pods import PageAddress
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import QUANTITIES, Group
from pulsed.present.exposition.catalog import FORMS, lean_form
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES
from pulsed.present.exposition.family_types import Family
from pulsed.present.exposition.jobstats_series import FAMILIES as JOBSTATS
from pulsed.present.exposition.owner_families import FINDING_FAMILIES, HINT_HELP
from pulsed.present.exposition.summary import SUMMARIES
from pulsed.present.exposition.telemetry import StateWrites, Telemetry
from pulsed.present.owner_totals import families_of
from pulsed.reader.exporter.scraper import Scraper
from pulsed.reader.exporter.settings import ExporterSettings
from pulsed.reader.nvml.calls import CALLS, FIELD_VALUES, GPM_METRICS
from pulsed.reader.nvml.device import GPM_SUPPORT
from pulsed.reader.nvml.session import XID
from pulsed.translate.exporter_versions import ANY
from pulsed.translate.fields import DERIVED as COMPOSED
from pulsed.translate.fields import GROUPS, DcgmField, sources
from support.hardware.readings import kept_runs
from tools.class_docs import classes

_NVML = {name for call in CALLS for name in call.names} | {field.name for field in FIELD_VALUES} | {GPM_SUPPORT, XID}
_GPM = {metric.name for metric in GPM_METRICS}

HEAD = """\
# Metrics

The series of `/metrics`. Names after `pulsed_gpu_` are also keys in JSON and columns in CSV. Units are base units:
ratios 0..1, bytes, seconds, hertz, watts, joules, degrees Celsius.

* **A missing reading is absent**, never 0; so is data older than `source.stale_after`.
* Labels of a GPU: `node`, `gpu` (index), `uuid`; join and group by these. MIG instances add `mig_id` and `mig_profile`
  to the `uuid` of their board.
* `node`: the host that an exporter's page names; else the host of the target's URL, if it is another one; else the key
  `node`, else this host's name.
* Readings of a whole MIG board (power, temperature, clocks, errors) are published once, for the board:
  `sum(pulsed_gpu_power_watts)` is correct.
* New counters are 0 for two scrapes (30 s to 2 min), so that `increase()` misses nothing.

## Lean and full

`publish.series: lean`, the default, has all that dashboards, rules and alerts use: at most 100 series per GPU, 3 more
per raised check and one per XID code. `full` has all series. `publish.include` adds families in their full form,
`publish.exclude` removes families.

| mark | series in lean |
|---|---|
| none | as in full |
| *current* | only the current state, 1: `count by (class) (pulsed_gpu_workload_class == 1)` |
| *raised* | only checks worse than ok; `pulsed_health_checks` has the number of GPUs |
| *differing* | if they differ: `X_bound_ratio{bound="upper"} or ignoring (bound) X_ratio` works in both |
| *counted* | once above 0: add `or 0 * pulsed_gpu_observed_seconds_total` |
| *recent* | if not 0 in 10 min; `pulsed_quantity_gpus` distinguishes 0 from not measured |
| *full* | none |

## Passthrough

`publish.passthrough: true` adds the source's own `DCGM_FI_*` series unchanged: from `nvml` those of the fields that it
has, from `dcgmi dmon` those of dcgm-exporter 4.0 to 4.8.2, in its units, except:

* Values of a MIG board come once, without `GPU_I_*` labels. Instances of boards that dmon does not name are absent.
* `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`, a rate, is a gauge.
* XIDs have the label `err_code`, but no `err_msg`.
* Only fields of this page are published, with HELP texts of pulsed.

## Computed
"""

QUANTITIES_HEAD = """
## Quantities

The first field that is present has the value. A row with several metrics has their meanings (`a / b`) and fields in the
same order. A field with a number is read by `dcgmi` only if `source.dcgmi.fields` has the number. In brackets, for
all fields of the row: the oldest dcgm-exporter that certainly accepts them in its counters file; `GPM`: `nvml` has them
on Hopper and newer only; `no NVML`: not at all."""

OWNERS_HEAD = """
## Owners

`pulsed_gpu_owner_info` has a series per GPU and owner, with `kind` (`slurm_job`, `pod`, `process`), all labels below,
and `attribution.workloads.pod_labels` as `label_NAME`. Join:
`pulsed_gpu_owner_info * on (node, gpu, uuid, mig_id) group_left () pulsed_gpu_real_utilization_ratio`.

`pulsed_job_*` have the labels `job_id`, `user`, `account`, `partition`. The same metrics exist as `pulsed_pod_*`
(`namespace`, `pod`, `container`) and `pulsed_workload_*` (`namespace`, `workload`, `workload_kind`).

* Counters begin and end with the owner. N owners of a shared GPU have 1/N each, in `pulsed_workload_gpus` too.
* A workload (`attribution.workloads`) has all its pods on the node. Its counters go on while pods come and go, and
  restart with pulsed.
* At most `publish.max_owners` have series.
* `publish.owner_labels` adds the labels to every series of a GPU; commas separate several owners.

| metric | meaning |
|---|---|"""

JOBSTATS_HEAD = """
## Series of jobstats

With `publish.compat: [jobstats]`: as from jobstats' own exporter, and with `node`. Labels: `ordinal`, `minor_number`,
`uuid` (of the MIG instance), `name`, `GPU_I_ID`, `jobid`, `userid`. Each job of a shared GPU has its series.

| metric | meaning |
|---|---|"""

ADAPTER_HEAD = """
## Metrics of the adapter

`/metrics` of `pulsed adapter`; needs no certificate of `adapter.client_names`. Also `pulsed_http_requests_total` and
`process_*`, as above.

| metric | meaning |
|---|---|"""

CHAPTERS: dict[Group, str] = {
    "activity": "Activity",
    "traffic": "Traffic",
    "memory": "Memory",
    "power": "Power, heat and clocks",
    "errors": "Errors and limits",
    "state": "State",
}


def metrics() -> str:
    """Return the text of METRICS.md."""
    classes_, own = (*classes(), *_confirmation()), (*_owners(), *_jobstats(), *_own(), *_adapter())
    return "\n".join([HEAD, *_computed(), *classes_, *_counted(), *_quantities(), *own]) + "\n"


def _confirmation() -> Iterator[str]:
    ran = "" if kept_runs() else "; it has not run on hardware yet"
    yield "\n`make hardware` compares the rules, which follow the documented meaning of the counters, with"
    yield f"[known kernels](support/hardware/README.md){ran}."


def _counted() -> Iterator[str]:
    yield "\n## Counters of observed time\n"
    yield "Quotients are exact at any scrape interval:"
    yield "`rate(pulsed_gpu_real_utilization_seconds_total[5m]) / rate(pulsed_gpu_observed_seconds_total[5m])`.\n"
    yield "| metric | meaning |\n|---|---|"
    for family in COUNTER_FAMILIES:
        if not family.name.endswith("_unknown_seconds_total"):
            series = _series(family.name, [family.label] if family.label else [])
            yield f"| {series} | {_meaning(family)} |"
    unknown = [family.name for family in COUNTER_FAMILIES if family.name.endswith("_unknown_seconds_total")]
    names = ", ".join(f"`{name}`" for name in unknown)
    yield f"\nUnknown time: {names}."
    yield "Observed time in which the value was missing; *counted*, except that of real utilization."


def _computed() -> Iterator[str]:
    yield "| metric | meaning |\n|---|---|"
    for family in DERIVED:
        yield f"| {_series(family.name, family.labels)} | {_meaning(family)} |"
    yield "\n## Over all GPUs\n\n| metric | meaning |\n|---|---|"
    for summary in SUMMARIES:
        labels = [label for label in summary.labels if label != "le"]
        yield f"| {_series(summary.name, labels)} | {summary.help} |"


def _mark(family: Family) -> str:
    """Return the mark of the family's form on a lean page; empty without one."""
    form = lean_form(family.name)
    return "full" if form is None else "raised" if family.name.endswith("health_check") else FORMS[form]


def _meaning(family: Family) -> str:
    """Return a HELP text with the mark of the family's form on a lean page."""
    mark = _mark(family)
    return f"{family.help}; *{mark}*" if mark else family.help


def _series(name: str, labels: Iterable[str]) -> str:
    """Return a metric with the labels that it has besides those of its GPU: `name{label}`."""
    joined = ",".join(labels)
    return f"`{name}{{{joined}}}`" if joined else f"`{name}`"


class _Row(NamedTuple):
    """A row of the tables of quantities; rows of one form are joined.

    Attributes:
        names: of the metrics.
        meaning: without the mark of the lean page.
        mark: of the lean page; empty where it has the same series as a full one.
        origins: fields of each metric.
        limits: versions, settings or GPUs that the metrics are limited to, in brackets; empty without limits.
    """

    names: tuple[str, ...]
    meaning: str
    mark: str
    origins: tuple[str, ...]
    limits: str

    def __str__(self) -> str:
        names = "<br>".join(f"`{name}`" for name in self.names)
        mark = f"; *{self.mark}*" if self.mark else ""
        return f"| {names} | {self.meaning}{mark} | {'<br>'.join(self.origins)}{self.limits} |"


def _quantities() -> Iterator[str]:
    yield QUANTITIES_HEAD
    for group, title in CHAPTERS.items():
        yield f"\n### {title}\n\n| metric | meaning | DCGM field |\n|---|---|---|"
        numbered: dict[tuple[str, str, str], list[_Row]] = {}
        for (name, quantity), family in zip(QUANTITIES.items(), QUANTITY_FAMILIES, strict=True):
            if quantity.group == group:
                row = _Row((family.name,), quantity.meaning, _mark(family), (_origin(name),), _limits(name))
                numbered.setdefault(_without_number(row), []).append(row)
        yield from map(str, _joined(_engines(rows) for rows in numbered.values()))


def _fields(quantity: str) -> list[DcgmField]:
    """Return the fields of a quantity and of what it is composed of."""
    parts = COMPOSED[quantity].split(" ")[::2] if quantity in COMPOSED else []
    return [*sources(quantity), *(field for part in parts for field in sources(part))]


def _is_watched(quantity: str) -> bool:
    ids = {field.id for field in _fields(quantity)}
    return any(not ids.isdisjoint((*group.fast, *group.slow, *group.superchip)) for group in GROUPS.values())


def _origin(quantity: str) -> str:
    """Return the fields of a quantity, with their numbers if `dcgmi` reads them only on request."""
    is_watched = _is_watched(quantity)
    origins = [str(field).partition(" ")[2] if is_watched else str(field) for field in sources(quantity)]
    return ", ".join([*origins, COMPOSED[quantity]] if quantity in COMPOSED else origins)


def _limits(quantity: str) -> str:
    """Return, in brackets, what limits a quantity to some versions or GPUs; empty without limits."""
    fields = _fields(quantity)
    since = min(field.since for field in fields)
    names = {name for field in fields for name in field.names}
    in_nvml = "" if names & _NVML else "GPM" if names & _GPM else "no NVML"
    limits = ["" if since == ANY else f"{since}", in_nvml]
    return f" ({', '.join(filter(None, limits))})" if any(limits) else ""


def _without_number(row: _Row) -> tuple[str, str, str]:
    """Return a key that the rows of engines of one kind share (`nvdec0`, `nvdec1`); others have their own."""
    name, meaning, origin = row.names[0], row.meaning, row.origins[0]
    if not re.search(r"_nv[a-z]+\d_", name):
        return name, meaning, origin
    return re.sub(r"\d", "N", name), re.sub(r"\d", "N", meaning), re.sub(r"^\d+|\d", "N", origin)


def _engines(rows: list[_Row]) -> _Row:
    """Return the row of all engines of a kind, `[0-7]` in place of their numbers."""
    first, last = rows[0], rows[-1]
    if len(rows) == 1:
        return first
    engines = f"[0-{len(rows) - 1}]"
    number, field = first.origins[0].split()
    origin = f"{number} to {last.origins[0].split()[0]} {re.sub(r'[0-9]', engines, field)}"
    name, meaning = re.sub(r"\d", engines, first.names[0]), re.sub(r"\d", "N", first.meaning)
    return first._replace(names=(name,), meaning=meaning, origins=(origin,))


def _joined(rows: Iterable[_Row]) -> Iterator[_Row]:
    """Yield rows, neighbours with the same mark and limits and a similar meaning as one."""
    group: list[_Row] = []
    for row in rows:
        if group and (row[2::2] != group[0][2::2] or not _common([each.meaning for each in (*group, row)])):
            yield _one(group)
            group = []
        group.append(row)
    yield _one(group)


def _one(rows: list[_Row]) -> _Row:
    """Return a row for all of `rows`, with their meanings as `Memory rows replaced after correctable / ... errors`."""
    if len(rows) == 1:
        return rows[0]
    names, origins = (tuple(chain(*column)) for column in zip(*((row.names, row.origins) for row in rows), strict=True))
    return rows[0]._replace(names=names, meaning=_common([row.meaning for row in rows]), origins=origins)


def _common(meanings: list[str]) -> str:
    """Return texts that differ in one place as one text: `a / b` there; empty if they have too few words in common."""
    texts = [meaning.split() for meaning in meanings]
    shortest = min(map(len, texts))
    start = next((i for i in range(shortest) if len({text[i] for text in texts}) > 1), shortest)
    rest = range(shortest - start)
    end = next((i for i in rest if len({text[-1 - i] for text in texts}) > 1), len(rest))
    middles = [" ".join(text[start : len(text) - end]) for text in texts]
    if not all(middles) or start + end < max(2, max(map(len, texts)) - start - end - 1):
        return ""
    return " ".join([*texts[0][:start], " / ".join(middles), *texts[0][len(texts[0]) - end :]])


def _owners() -> Iterator[str]:
    yield OWNERS_HEAD
    yield "| `pulsed_gpu_owner_info` | Owners of the GPU, to be joined with its series |"
    yield from (f"| `{name}` | {help} |" for name, help in FINDING_FAMILIES.values())
    for family in families_of("job"):
        yield f"| `{family.full_name('job')}` | {family.help} |"
    for family in families_of("workload"):
        if family not in families_of("job") and family.name != "gpus":
            yield f"| `{family.full_name('workload')}` | {family.help} |"
    yield f"| `pulsed_workload_scale_hint` | {HINT_HELP} |"
    yield "| `pulsed_jobs_dropped_total{reason}` | Owners without an account or series of their own |"


def _jobstats() -> Iterator[str]:
    yield JOBSTATS_HEAD
    for family in JOBSTATS:
        yield f"| `{family.name}` | {family.help} |"


def _own() -> Iterator[str]:
    yield "\n## Metrics of pulsed\n\nAlso the standard `process_*`.\n"
    yield "| metric | meaning |\n|---|---|"
    board = TargetStore("node", [Target("demo", "demo", 1.0, 3.0)])
    board.targets[0].rejected["bad_value"] = 1
    board.targets[0].errors["scrape_failed"] = 1
    board.targets[0].kernel_log_error = ""
    board.targets[0].tick = ComputedTick(RawTick("demo", 0.0, 0.0, 1.0, Layout("exporter", ()), ()), (), (), ())
    telemetry = Telemetry(board)
    state = SourceState(LABELS, last_success=0.0, errors={"unreadable": 1})
    telemetry.attribution = lambda: [state]
    telemetry.state = lambda: StateWrites({"jobs.json": True})
    telemetry.count_request("/metrics", 200)
    yield from _rows(family for family in telemetry.registry.collect() if not family.name.startswith("process_"))


def _adapter() -> Iterator[str]:
    yield ADAPTER_HEAD
    watch = ResourceWatch(ApiClient(ClusterAccess("https://127.0.0.1")), "", {}, pod_reader([], []))
    telemetry = AdapterTelemetry(ClusterGpus(Scraper(ExporterSettings()), watch, PageAddress(), 0.0), watch)
    yield from _rows(family for family in telemetry.families() if family.name.startswith("pulsed_adapter_"))


def _rows(families: Iterable[Metric]) -> Iterator[str]:
    for family in families:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        yield f"| {_series(family.name + suffix, labels)} | {family.documentation} |"
