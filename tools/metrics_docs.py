"""Render METRICS.md from the tables that the Prometheus page is made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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
from pulsed.translate.fields import GROUPS, sources
from support.hardware.readings import kept_runs
from tools.class_docs import classes

_NVML = {name for call in CALLS for name in call.names} | {field.name for field in FIELD_VALUES} | {GPM_SUPPORT, XID}
_GPM = {metric.name for metric in GPM_METRICS}

HEAD = """\
# Metrics

The series of `/metrics`. The name after `pulsed_gpu_` is also the key in JSON and the column in CSV. Units are base
units: ratios 0..1, bytes, seconds, hertz, watts, joules, degrees Celsius.

* **A missing reading is absent**, never 0. The series of a GPU end when its data is older than `source.stale_after`.
* GPU series have the labels `node`, `gpu` (index) and `uuid`: join and group by these. MIG instances also have `mig_id`
  and `mig_profile`, with the `uuid` of their board.
* `node` is the host that an exporter's page names; else the host of the target's URL, if it is another one; else the
  key `node`, else this host's name.
* Readings of a whole MIG board (power, temperature, clocks, errors) are published once, for the board:
  `sum(pulsed_gpu_power_watts)` is correct.
* A counter that appears is 0 first, for two scrapes (30 s to 2 min), so that `increase()` misses nothing.

## Lean and full

`publish.series: lean`, the default, has at most 100 series per GPU, 3 more per raised check and one per XID code, and
all that the dashboards, rules and alerts use. `full` has every series of this page; `publish.include` adds families in
their full form, `publish.exclude` removes families.

| mark | series in lean |
|---|---|
| none | as in full |
| *current state* | only the state that holds, with the value 1: `count by (class) (pulsed_gpu_workload_class == 1)` |
| *raised* | only checks worse than ok; `pulsed_health_checks` has the number of GPUs |
| *if they differ* | `X_bound_ratio{bound="upper"} or ignoring (bound) X_ratio` works in both |
| *once above 0* | add `or 0 * pulsed_gpu_observed_seconds_total` where one may be absent |
| *not 0 in 10 min* | `pulsed_quantity_gpus` distinguishes 0 from not measured |
| *full* | none |

## Passthrough

`publish.passthrough: true` adds the source's own `DCGM_FI_*` series unchanged. From `dcgmi dmon` they are those of
dcgm-exporter 4.0 to 4.8.2, in its units, except that

* values of a MIG board come once, without `GPU_I_*` labels, and instances of boards that dmon does not name are left
  out;
* `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`, a rate, is a gauge;
* XIDs have the label `err_code`, but no `err_msg`;
* fields without a metric below are left out, and HELP texts are pulsed's.

From `nvml` they are those of the fields that it has.

## Computed
"""

QUANTITIES_HEAD = """
## Quantities

The first DCGM field that is present has the value. In brackets:

* a number: the oldest dcgm-exporter that certainly accepts it in its counters file
* `fields`: `dcgmi` reads it only if its number is in `source.dcgmi.fields`
* `GPM`: `nvml` has it on Hopper and newer only; `no NVML`: not at all"""

OWNERS_HEAD = """
## Owners

`pulsed_gpu_owner_info` has a series per GPU and owner, with `kind` (`slurm_job`, `pod`, `process`), all labels below,
and those of `attribution.workloads.pod_labels` as `label_NAME`. To join it:
`pulsed_gpu_owner_info * on (node, gpu, uuid, mig_id) group_left () pulsed_gpu_real_utilization_ratio`.

`pulsed_job_*` have the labels `job_id`, `user`, `account`, `partition`. The same metrics exist as `pulsed_pod_*`
(`namespace`, `pod`, `container`) and `pulsed_workload_*` (`namespace`, `workload`, `workload_kind`).

* Counters begin and end with the owner. Of a GPU that N owners share, each has 1/N, in `pulsed_workload_gpus` too.
* A workload (`attribution.workloads`) has all its pods on the node. Its counters go on while pods come and go, and
  begin with 0 when pulsed starts.
* At most `publish.max_owners` have series.
* `publish.owner_labels` puts the labels on every series of a GPU; several owners are separated by commas.

| metric | meaning |
|---|---|"""

JOBSTATS_HEAD = """
## Series of jobstats

With `publish.compat: [jobstats]`, as jobstats' own exporter has them, and with `node`. Labels: `ordinal`,
`minor_number`, `uuid` (of the MIG instance), `name`, `GPU_I_ID`, `jobid`, `userid`. Jobs that share a GPU have a series
each.

| metric | meaning |
|---|---|"""

ADAPTER_HEAD = """
## Metrics of the adapter

`/metrics` of `pulsed adapter`, also for clients without a certificate of `adapter.client_names`. Also
`pulsed_http_requests_total` and `process_*`, as above.

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
    yield "\nThe rules follow the documented meaning of the counters. `make hardware` compares them with"
    yield f"[known kernels](support/hardware/README.md){ran}."


def _counted() -> Iterator[str]:
    yield "\n## Counters of observed time\n"
    yield "Quotients are exact at any scrape interval:"
    yield "`rate(pulsed_gpu_real_utilization_seconds_total[5m]) / rate(pulsed_gpu_observed_seconds_total[5m])`.\n"
    yield "| metric | meaning |\n|---|---|"
    for family in COUNTER_FAMILIES:
        if not family.name.endswith("_unknown_seconds_total"):
            series = _series(family.name, [family.label] if family.label else [])
            yield f"| {series} | {_meaning(family, family.help)} |"
    unknown = [family.name for family in COUNTER_FAMILIES if family.name.endswith("_unknown_seconds_total")]
    names = ", ".join(f"`{name}`" for name in unknown)
    yield f"\nUnknown time: {names}."
    yield "Observed time in which the value was missing; in lean once above 0, that of real utilization always."


def _computed() -> Iterator[str]:
    yield "| metric | meaning |\n|---|---|"
    for family in DERIVED:
        yield f"| {_series(family.name, family.labels)} | {_meaning(family, family.help)} |"
    yield "\n## Over all GPUs\n\n| metric | meaning |\n|---|---|"
    for summary in SUMMARIES:
        labels = [label for label in summary.labels if label != "le"]
        yield f"| {_series(summary.name, labels)} | {summary.help} |"


def _meaning(family: Family, help_text: str) -> str:
    """Return a HELP text with the mark of the family's form on a lean page."""
    form = lean_form(family.name)
    mark = "full" if form is None else "raised" if family.name.endswith("health_check") else FORMS[form]
    return f"{help_text}; *{mark}*" if mark else help_text


def _series(name: str, labels: Iterable[str]) -> str:
    """Return a metric with the labels that it has besides those of its GPU: `name{label}`."""
    joined = ",".join(labels)
    return f"`{name}{{{joined}}}`" if joined else f"`{name}`"


def _quantities() -> Iterator[str]:
    yield QUANTITIES_HEAD
    for group, title in CHAPTERS.items():
        yield f"\n### {title}\n\n| metric | meaning | DCGM field |\n|---|---|---|"
        numbered: dict[tuple[str, str, str], list[tuple[str, ...]]] = {}
        for (name, quantity), family in zip(QUANTITIES.items(), QUANTITY_FAMILIES, strict=True):
            if quantity.group == group:
                origins = [f"{field}" for field in sources(name)]
                if name in COMPOSED:
                    origins.append(COMPOSED[name])
                row = (family.name, _meaning(family, quantity.meaning), ", ".join(origins), _availability(name))
                numbered.setdefault(_without_number(*row[:3]), []).append(row)
        yield from (_row(rows) for rows in numbered.values())


def _availability(quantity: str) -> str:
    """Return, in brackets, what limits a quantity to some versions, settings or GPUs; empty without limits."""
    parts = COMPOSED[quantity].split(" ")[::2] if quantity in COMPOSED else []
    fields = [*sources(quantity), *(field for part in parts for field in sources(part))]
    ids = {field.id for field in fields}
    groups = GROUPS.values()
    is_watched = any(not ids.isdisjoint((*group.fast, *group.slow, *group.superchip)) for group in groups)
    since = min(field.since for field in fields)
    limits = ["" if since == ANY else f"{since}", "" if is_watched else "fields", _in_nvml(quantity)]
    return f" ({', '.join(filter(None, limits))})" if any(limits) else ""


def _in_nvml(quantity: str) -> str:
    """Return the limit of a quantity in the source `nvml`: `GPM` (Hopper and newer), `no NVML`, or none."""
    fields = {name for field in sources(quantity) for name in field.names}
    if quantity in COMPOSED:
        fields |= {name for part in COMPOSED[quantity].split(" ")[::2] for each in sources(part) for name in each.names}
    if fields & _NVML:
        return ""
    return "GPM" if fields & _GPM else "no NVML"


def _without_number(name: str, meaning: str, origin: str) -> tuple[str, str, str]:
    """Return a key that the rows of engines of one kind share (`nvdec0`, `nvdec1`); others have their own."""
    if not re.search(r"_nv[a-z]+\d_", name):
        return name, meaning, origin
    return re.sub(r"\d", "N", name), re.sub(r"\d", "N", meaning), re.sub(r"^\d+|\d", "N", origin)


def _row(rows: list[tuple[str, ...]]) -> str:
    name, meaning, origin, availability = rows[0]
    if len(rows) > 1:
        engines = f"[0-{len(rows) - 1}]"
        last = rows[-1][2].split()[0]
        name, meaning = re.sub(r"\d", engines, name), re.sub(r"\d", "N", meaning)
        number, field = origin.split()
        origin = f"{number} to {last} {re.sub(r'[0-9]', engines, field)}"
    return f"| `{name}` | {meaning} | {origin}{availability} |"


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
    yield "\n## Metrics of pulsed\n\nAlso `process_*`, the standard process metrics of Prometheus clients.\n"
    yield "| metric | meaning |\n|---|---|"
    store = TargetStore("node", [Target("demo", "demo", 1.0, 3.0)])
    store.targets[0].rejected["bad_value"] = 1
    store.targets[0].errors["scrape_failed"] = 1
    store.targets[0].kernel_log_error = ""
    store.targets[0].tick = ComputedTick(RawTick("demo", 0.0, 0.0, 1.0, Layout("exporter", ()), ()), (), (), ())
    telemetry = Telemetry(store)
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
