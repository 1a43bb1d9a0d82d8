"""Render docs/metrics.md from the tables that the Prometheus page is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pulsed.background_tasks import FAILURES
from pulsed.daemon.collection import attribution_families, discovery_families
from pulsed.daemon.features import FeatureSet
from pulsed.daemon.node_conditions import report_family
from pulsed.daemon.notify import notification_family
from pulsed.daemon.otlp_push import PUSHED, push_families
from pulsed.daemon.state_file import WriteStatus
from pulsed.daemon.state_folder import state_families
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import CheckState, NodeHealth
from pulsed.model.host import PORT_COUNTERS, CpuReading, HostFacts, InfinibandPort
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.model.target_store import DiscoveryList, Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.owners.attribution import LABELS
from pulsed.owners.attribution.source import SourceState
from pulsed.owners.report.owner_totals import families_of
from pulsed.present.exposition.catalog import SUMMARIES
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED
from pulsed.present.exposition.host_families import cpu_families, node_families
from pulsed.present.exposition.jobstats_series import FAMILIES as JOBSTATS
from pulsed.present.exposition.owner_families import FINDING_FAMILIES, WITHOUT_SERIES_HELP
from pulsed.present.exposition.telemetry import Telemetry, task_families
from tools.class_docs import classes
from tools.metric_rows import Row, mark_of, table
from tools.quantity_docs import quantities

HEAD = """\
# Metrics

```sh
curl -s localhost:9401/metrics | grep '^# HELP'   # what this node has
pulsed doctor                                     # which inputs it lacks, and how to add them
```

[Computed](#computed) · [counters of observed time](#counters-of-observed-time) · [quantities of DCGM](#quantities) ·
[owners](#owners) · [workload class](#workload-class) · [pulsed itself](#metrics-of-pulsed)

* **A missing reading is absent**, never 0. So is data older than `source.stale_after`. The column *absent* has further
  cases on the default, [lean](#lean-and-full) page; `lean`: only a full page has it.
* Units are base units; ratios are 0 to 1. Names after `pulsed_gpu_` are also keys in JSON and columns in CSV.
* Every series of a GPU has the labels `node`, `gpu` (index) and `uuid`: join and group by these. MIG instances add
  `mig_id` and `mig_profile` to the `uuid` of their board. Power, temperature, clocks and errors are the board's alone.
* `node` is the host that the exporter's page names, otherwise that of the target's URL, otherwise the key `node`.
* In a row of several metrics, meanings (`a / b`) and fields have the same order.
* New counters are 0 for two scrapes, so that `increase()` misses nothing.

## Lean and full

`publish.series: lean`, the default, has all that dashboards, rules and alerts use: at most 100 series per GPU, 3 more
per raised check, one per XID code. `full` has all. `publish.include` adds families in full, `publish.exclude` removes
some. On a lean page:

* state sets have only their current state: `count by (class) (pulsed_gpu_workload_class == 1)`;
* counters by label begin once above 0: add `or 0 * pulsed_gpu_observed_seconds_total`;
* equal bounds are absent: `X_bound_ratio{bound="upper"} or ignoring (bound) X_ratio` works on both;
* `pulsed_quantity_gpus` distinguishes a quantity that is 0 from one that is not measured;
* `pulsed_gpu_info` lacks `serial` and `vbios_version`.

## Passthrough

`publish.passthrough: true` adds the source's own `DCGM_FI_*` series for the fields below. From `dcgmi dmon` they have
dcgm-exporter's units, without `GPU_I_*` labels and `err_msg`.

## Computed
"""

OWNERS_HEAD = """
## Owners

```promql
pulsed_gpu_owner_info * on (node, gpu, uuid, mig_id) group_left () pulsed_gpu_real_utilization_ratio
```

`pulsed_gpu_owner_info` has a series per GPU and owner: `kind` (`slurm_job`, `pod`, `container`, `process`), the labels
below, and `attribution.workloads.pod_labels` as `label_NAME`.

|labels|of|
|-|-|
|`job_id`, `user`, `account`, `partition`|`pulsed_job_*`|
|`namespace`, `pod`, `container`|`pulsed_pod_*`|
|`namespace`, `workload`, `workload_kind`|`pulsed_workload_*`|

The last two have the same metrics as the first. They begin and end with the owner; those of a workload continue
while its pods come and go. N owners of a shared GPU have 1/N each. `publish.max_owners` limits them.
"""

JOBSTATS_HEAD = """
## Series of jobstats

With `publish.compat: [jobstats]`, those of jobstats' own exporter. Labels: `ordinal`, `minor_number`, `uuid`, `name`,
`GPU_I_ID`, `jobid`, `userid`, `node`.
"""


def metrics() -> str:
    """Return the text of docs/metrics.md."""
    classes_, own = (*classes(), *_confirmation()), (*_owners(), *_jobstats(), *_own())
    return "\n".join([HEAD, *_computed(), *classes_, *_counted(), *quantities(), *own]) + "\n"


def _confirmation() -> Iterator[str]:
    script = "[known work](../tools/hardware.py)"
    yield f"\n`make hardware` compares the rules and MFU with {script}; it has not run on hardware."
    yield "`pulsed_gpu_mfu_ratio` follows arXiv 2605.20799: r = 0.78 over 608 jobs on H100."


def _counted() -> Iterator[str]:
    yield "\n## Counters of observed time\n"
    yield "Their [quotients](operations.md#queries) are exact at any scrape interval.\n"
    known = [family for family in COUNTER_FAMILIES if not family.name.endswith("_unknown_seconds_total")]
    yield from table(
        Row((family.name,), family.help, (family.label,) if family.label else (), mark_of(family)) for family in known
    )
    names = ", ".join(f"`{family.name}`" for family in COUNTER_FAMILIES if family not in known)
    yield f"\nUnknown time: {names}."
    yield "Observed time in which the value was missing; absent at 0, except that of real utilization."


def _computed() -> Iterator[str]:
    yield from table(
        Row((family.name,), family.help, _own_labels(family.labels), mark_of(family), _type(family.type))
        for family in DERIVED
    )
    yield "\n## Over all GPUs\n"
    yield from table(
        Row((summary.name,), summary.help, _own_labels(summary.labels), type=_type(summary.type))
        for summary in SUMMARIES
    )


def _owners() -> Iterator[str]:
    yield OWNERS_HEAD
    helps = {
        "pulsed_gpu_owner_info": "Owners of the GPU, to be joined with its series",
        **dict(FINDING_FAMILIES.values()),
    }
    helps |= {family.full_name("job"): family.help for family in families_of("job")}
    of_workloads = [family for family in families_of("workload") if family not in families_of("job")]
    helps |= {family.full_name("workload"): family.help for family in of_workloads if family.name != "gpus"}
    helps |= {
        "pulsed_jobs_dropped_total": "Owners without an account or series of their own",
        "pulsed_owners_without_series": WITHOUT_SERIES_HELP,
    }
    labels = {"pulsed_jobs_dropped_total": ("reason",), "pulsed_owners_without_series": ("group",)}
    yield from table(Row((name,), text, labels.get(name, ())) for name, text in helps.items())


def _jobstats() -> Iterator[str]:
    yield JOBSTATS_HEAD
    yield from table(Row((family.name,), family.help) for family in JOBSTATS)


def _own() -> Iterator[str]:
    yield "\n## Metrics of pulsed\n\nAlso the standard `process_*`.\n"
    store = TargetStore("node", [Target("demo", "demo", 1.0, 3.0)])
    store.targets[0].rejected["bad_value"] = 1
    store.targets[0].errors["scrape_failed"] = 1
    store.targets[0].kernel_log_error = ""
    store.targets[0].tick = Tick(RawTick("demo", Unix(0.0), Monotonic(0.0), 1.0, Layout("exporter", ()), ()), [])
    port = InfinibandPort("mlx5_0", "1", "", "ACTIVE", "LinkUp", 5e10, dict.fromkeys(PORT_COUNTERS, 0))
    store.set_host(HostFacts(Unix(0.0), (), ports=(port,)), NodeHealth((CheckState("gpu_missing", "ok"),)))
    telemetry = Telemetry(store, lambda now: _of_features(store))
    telemetry.count_request("/metrics", 200)
    yield from table(
        [
            *_rows(each for each in telemetry.registry.collect() if not each.name.startswith("process_")),
            *(
                Row((family.name,), f"{family.documentation}; pushed only")
                for family in text_string_to_metric_families(PUSHED)
            ),
        ]
    )


def _of_features(store: TargetStore) -> Iterator[Metric]:
    yield from discovery_families([DiscoveryList("kubernetes", "/api/v1/pods", True, Unix(0.0))])
    yield from attribution_families([SourceState(LABELS, last_success=Unix(0.0), errors={"unreadable": 1})])
    yield from node_families(store)
    yield from cpu_families("node", [CpuReading("", "0", 0.0, 0.0, 0.0, 0.0, 0.0)])
    yield from state_families([WriteStatus(Path("state.json"), "")], 0)
    yield from push_families(Counter())
    yield report_family(is_up=True)
    yield notification_family({})
    features = FeatureSet()
    features.failures["history"] += 1
    FAILURES["accounts"] += 1
    yield from features.metrics(Monotonic(0.0))
    yield from task_families()


def _rows(families: Iterable[Metric]) -> Iterator[Row]:
    for family in families:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels)
        yield Row((family.name + suffix,), family.documentation, _own_labels(labels), type=_type(family.type))


def _own_labels(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(label for label in labels if label != "le")


def _type(type: str) -> str:
    """Return the type of a family whose name does not show it; empty for others."""
    return "" if type in ("counter", "gauge") else type
