"""Render METRICS.md from the tables that the Prometheus page is made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pulsed.attribution.attribution import LABELS, SourceState
from pulsed.collector.target_store import Target, TargetStore
from pulsed.compute.tick import ComputedTick
from pulsed.present.exposition.catalog import FORMS, lean_form
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES
from pulsed.present.exposition.family_types import Family
from pulsed.present.exposition.jobstats_series import FAMILIES as JOBSTATS
from pulsed.present.exposition.owner_families import FINDING_FAMILIES, HINT_HELP
from pulsed.present.exposition.summary import SUMMARIES
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.owner_groups import families_of
from pulsed.reader.nvml.calls import CALLS
from pulsed.reader.nvml.device import GPM_SUPPORT
from pulsed.reader.nvml.driver_session import XID
from pulsed.reader.nvml.field_values import FIELD_VALUES
from pulsed.reader.nvml.gpm import GPM_METRICS
from pulsed.reader.tick import Layout
from pulsed.translate.exporter_versions import ANY, first_version
from pulsed.translate.fields import DERIVED as COMPOSED
from pulsed.translate.fields import sources
from pulsed.translate.vocabulary import QUANTITIES, Group
from pulsed.translate.watches import GROUPS
from tests.hardware.table import chapter as known_kernels
from tools.class_docs import classes

_NVML = {name for call in CALLS for name in call.names} | {field.name for field in FIELD_VALUES} | {GPM_SUPPORT, XID}
_GPM = {metric.name for metric in GPM_METRICS}

HEAD = """\
# Metrics

The series of `/metrics`. The name after `pulsed_gpu_` is also the key in JSON (`/gpus`) and the column in CSV
(`pulsed export`). Units are base units: ratios 0..1, bytes, seconds, hertz, watts, joules, degrees Celsius.

**A missing reading is absent**, never 0. When a target's data is older than `source.stale_after`, its GPU series end,
and Prometheus marks them stale. Values are those of the last sample (`pulsed_gpu_last_sample_timestamp_seconds`).

GPU series have the labels `node`, `gpu` (index) and `uuid`; MIG instances also `mig_id` and `mig_profile`, with the
`uuid` of the board. `pulsed_gpu_info` has the rest. `node` is the host that an exporter's page names; else the host of
the target's URL, if it is another one; else the key `node`, else the name of pulsed's own host. Join and group by
`node, gpu, uuid`.

Three columns show which source has a quantity, where the GPU has it:

* *dcgmi*: the group of `source.dcgmi.groups` that reads it; `fields`: only with its number in `source.dcgmi.fields`.
* *exporter*: `yes`, or the oldest dcgm-exporter that certainly accepts it in its counters file.
* *NVML*: `yes`, or `GPM` on Hopper and newer only, for the source `nvml`.

On a MIG board, readings of the whole board (power, temperature, clocks, errors) are published once, for the board, so
`sum(pulsed_gpu_power_watts)` is correct.

`publish.series: lean`, the default, has at most 100 series per GPU, 3 more per raised check and one per XID code, and
all that the dashboards, rules and alerts use. `full` has every series of this page. The column *lean*:

* yes: the family is the same in both.
* current state: the one state that holds, with the value 1. `count by (class) (pulsed_gpu_workload_class == 1)` works
  in both; for shares of time use the counters of seconds.
* raised: checks that are worse than ok. `pulsed_health_checks` has the number of GPUs by check and state.
* if they differ: bounds. `X_bound_ratio{bound="upper"} or ignoring (bound) X_ratio` works in both.
* once above 0: counters by label; add `or 0 * pulsed_gpu_observed_seconds_total` where one may be absent.
* not 0 in 10 min: gauges that are 0 on most GPUs. `pulsed_quantity_gpus` distinguishes 0 from not measured.
* full: not in lean. `publish.include` adds families in their full form, `publish.exclude` removes families.

A counter that appears is published at 0 first, for two scrapes (30 s at least, 2 min at most), so that `increase()`
misses nothing.

`publish.passthrough: true` adds the source's own `DCGM_FI_*` series unchanged. From `dcgmi dmon` (live or a capture)
they are what dcgm-exporter 4.0 to 4.8.2 serves for the same fields, in its units, with these differences:

* On a MIG board, values of the board come once, without `GPU_I_*` labels, not on every instance. While boards are
  shown, instances whose board dmon does not name are left out.
* `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a gauge, because it is a rate.
* XIDs have the label `err_code`, but not `err_msg`.
* HELP texts are pulsed's. Fields without a metric below are left out.

From `nvml` they are those with a value in the column *NVML*, with the names, units and labels of DCGM's fields of the
same meaning.

## Computed
"""

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
    classes_, own = (*classes(), *known_kernels()), (*_owners(), *_jobstats(), *_own())
    return "\n".join([HEAD, *_computed(), *classes_, *_counted(), *_quantities(), *own]) + "\n"


def _counted() -> Iterator[str]:
    yield "\n## Counters of observed time\n"
    yield "They start with the first sample of a GPU (`pulsed_gpu_accounting_created_timestamp_seconds`)."
    yield "Quotients are exact at any scrape interval:"
    yield "`rate(pulsed_gpu_real_utilization_seconds_total[5m]) / rate(pulsed_gpu_observed_seconds_total[5m])`."
    yield "`X_unknown_seconds_total` is observed time in which X had no value.\n"
    yield "| metric | meaning | lean |\n|---|---|---|"
    for family in COUNTER_FAMILIES:
        if not family.name.endswith("_unknown_seconds_total"):
            series = _series(family.name, [family.label] if family.label else [])
            yield f"| {series} | {family.help} | {_lean(family)} |"
    unknown = [family.name for family in COUNTER_FAMILIES if family.name.endswith("_unknown_seconds_total")]
    names = ", ".join(f"`{name}`" for name in unknown)
    yield f"\nUnknown time: {names}."
    yield "In lean once above 0; that of real utilization always."


def _computed() -> Iterator[str]:
    yield "| metric | meaning | lean |\n|---|---|---|"
    for family in DERIVED:
        yield f"| {_series(family.name, family.labels)} | {family.help} | {_lean(family)} |"
    yield "\n## Over all GPUs\n\n| metric | type | meaning |\n|---|---|---|"
    for summary in SUMMARIES:
        labels = [label for label in summary.labels if label != "le"]
        yield f"| {_series(summary.name, labels)} | {summary.type} | {summary.help} |"


def _lean(family: Family) -> str:
    form = lean_form(family.name)
    return "full" if form is None else "raised" if family.name.endswith("health_check") else FORMS[form]


def _series(name: str, labels: Iterable[str]) -> str:
    """Return a metric with the labels that it has besides those of its GPU: `name{label}`."""
    joined = ",".join(labels)
    return f"`{name}{{{joined}}}`" if joined else f"`{name}`"


def _quantities() -> Iterator[str]:
    for group, title in CHAPTERS.items():
        head = "| metric | meaning | DCGM field, the first that is present | dcgmi | exporter | NVML | lean |"
        yield f"\n## {title}\n\n{head}\n|---|---|---|---|---|---|---|"
        numbered: dict[tuple[str, str, str], list[tuple[str, ...]]] = {}
        for (name, quantity), family in zip(QUANTITIES.items(), QUANTITY_FAMILIES, strict=True):
            if quantity.group == group:
                origins = [f"{field}" for field in sources(name)]
                if name in COMPOSED:
                    origins.append(COMPOSED[name])
                row = (family.name, quantity.meaning, ", ".join(origins), *_in_sources(name), _lean(family))
                numbered.setdefault(_without_number(*row[:3]), []).append(row)
        yield from (_row(rows) for rows in numbered.values())


def _in_sources(quantity: str) -> tuple[str, str, str]:
    """Return how the sources `dcgmi`, `exporter` and `nvml` have a quantity; empty texts for those that do not."""
    parts = COMPOSED[quantity].split(" ")[::2] if quantity in COMPOSED else []
    fields = [*sources(quantity), *(field for part in parts for field in sources(part))]
    ids = {field.id for field in fields}
    groups = [name for name, group in GROUPS.items() if not ids.isdisjoint((*group.fast, *group.slow))]
    since = min(first_version(field) for field in fields)
    return (groups[0] if groups else "fields", "yes" if since == ANY else f"{since}", _in_nvml(quantity))


def _in_nvml(quantity: str) -> str:
    """Return whether the source `nvml` has a quantity: `yes`, `GPM` (Hopper and newer), or nothing."""
    fields = {name for field in sources(quantity) for name in field.names}
    if quantity in COMPOSED:
        fields |= {name for part in COMPOSED[quantity].split(" ")[::2] for each in sources(part) for name in each.names}
    if fields & _NVML:
        return "yes"
    return "GPM" if fields & _GPM else ""


def _without_number(name: str, meaning: str, origin: str) -> tuple[str, str, str]:
    """Return a key that the rows of engines of one kind share (`nvdec0`, `nvdec1`); others have their own."""
    if not re.search(r"_nv[a-z]+\d_", name):
        return name, meaning, origin
    return re.sub(r"\d", "N", name), re.sub(r"\d", "N", meaning), re.sub(r"^\d+|\d", "N", origin)


def _row(rows: list[tuple[str, ...]]) -> str:
    name, meaning, origin, *rest = rows[0]
    if len(rows) > 1:
        engines = f"[0-{len(rows) - 1}]"
        last = rows[-1][2].split()[0]
        name, meaning = re.sub(r"\d", engines, name), re.sub(r"\d", "N", meaning)
        number, field = origin.split()
        origin = f"{number} to {last} {re.sub(r'[0-9]', engines, field)}"
    return f"| `{name}` | {meaning} | {origin} | {' | '.join(rest)} |"


def _owners() -> Iterator[str]:
    joined = "pulsed_gpu_owner_info * on (node, gpu, uuid, mig_id) group_left () pulsed_gpu_real_utilization_ratio"
    yield "\n## Owners\n"
    yield "`pulsed_gpu_owner_info` has a series per GPU and owner, with `kind` (`slurm_job`, `pod`, `process`) and,"
    yield "where known, `job_id`, `user`, `account`, `partition`, `namespace`, `pod`, `container`, `workload`,"
    yield "`workload_kind`, and the labels of `attribution.workloads.pod_labels` as `label_NAME`. To join them:"
    yield f"`{joined}`.\n"
    yield "The others exist per `job` (`job_id`, `user`, `account`, `partition`), `pod` (`namespace`, `pod`,"
    yield "`container`) and `workload` (`namespace`, `workload`, `workload_kind`):\n"
    yield "* Counters begin and end with the owner, and are exact between scrapes. Of a GPU that N owners share each"
    yield "  has 1/N, in `pulsed_workload_gpus` too."
    yield "* Workloads are those of `attribution.workloads`, with all their pods on the node. Their counters go on"
    yield "  while pods come and go, and begin with 0 when pulsed starts."
    yield "* At most `publish.max_owners` have series. `publish.exclude` removes families, such as `pulsed_workload_*`."
    yield "* `publish.owner_labels` puts the labels, without `kind`, on every series of a GPU; several owners are"
    yield "  separated by commas.\n"
    yield "| metric | type | meaning |\n|---|---|---|"
    yield "| `pulsed_gpu_owner_info` | info | Owners of the GPU, to be joined with its series |"
    yield from (f"| `{name}` | gauge | {help} |" for name, help in FINDING_FAMILIES.values())
    for family in families_of("job"):
        yield f"| `{family.full_name('job')}` | {family.type} | {family.help} |"
    for family in families_of("workload"):
        if family not in families_of("job") and family.name != "gpus":
            yield f"| `{family.full_name('workload')}` | {family.type} | {family.help} |"
    yield f"| `pulsed_workload_scale_hint` | gauge | {HINT_HELP} |"
    yield "| `pulsed_jobs_dropped_total{reason}` | counter | Owners without an account or series of their own |"


def _jobstats() -> Iterator[str]:
    yield "\n## Series of jobstats\n"
    yield "With `publish.compat: [jobstats]`, as jobstats' own exporter has them, with the labels `ordinal`,"
    yield "`minor_number`, `uuid` (of the MIG instance), `name`, `GPU_I_ID`, `jobid` and `userid` (empty without a"
    yield "job), and `node`. Jobs that share a GPU have a row each.\n"
    yield "| metric | type | meaning |\n|---|---|---|"
    for family in JOBSTATS:
        yield f"| `{family.name}` | gauge | {family.help} |"


def _own() -> Iterator[str]:
    yield "\n## Metrics of pulsed\n\nAlso `process_*`, the standard process metrics of Prometheus clients.\n"
    yield "| metric | type | meaning |\n|---|---|---|"
    board = TargetStore("node", [Target("demo", "demo", 1.0, 3.0)])
    board.targets[0].rejected["bad_value"] = 1
    board.targets[0].errors["scrape_failed"] = 1
    board.targets[0].kernel_log_error = ""
    board.targets[0].tick = ComputedTick("demo", 0.0, 0.0, 1.0, (), (), (), Layout("exporter", ()), ())
    telemetry = Telemetry(board)
    state = SourceState(LABELS, last_success=0.0, errors={"unreadable": 1})
    telemetry.attribution = lambda: [state]
    telemetry.count_request("/metrics", 200)
    for family in telemetry.registry.collect():
        if not family.name.startswith("process_"):
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
            yield f"| {_series(family.name + suffix, labels)} | {family.type} | {family.documentation} |"
