"""Render docs/metrics.md from the tables that the Prometheus page is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pulsed.apps.adapter.app import AdapterTelemetry
from pulsed.apps.adapter.cluster_gpus import ClusterGpus, PodNames, pod_reader
from pulsed.background_tasks import FAILURES
from pulsed.daemon.collection import attribution_families, discovery_families
from pulsed.daemon.feature_set import FeatureSet
from pulsed.daemon.node_conditions import report_family
from pulsed.daemon.notify import notification_family
from pulsed.daemon.otlp_push import PUSHED, push_families
from pulsed.daemon.state_file import WriteStatus
from pulsed.daemon.state_folder import state_families
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess
from pulsed.kubernetes.exporter_pods import PageAddress
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.workload_resolver import WorkloadResolver
from pulsed.model.computed_tick import ComputedTick
from pulsed.model.health import CheckState, NodeHealth
from pulsed.model.host import PORT_COUNTERS, CpuReading, HostFacts, InfinibandPort
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.model.target_store import DiscoveryList, Target, TargetStore
from pulsed.owners.attribution.attribution import LABELS
from pulsed.owners.attribution.pod_workloads import PodSettings
from pulsed.owners.attribution.source import SourceState
from pulsed.present.exposition.catalog import SUMMARIES
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED
from pulsed.present.exposition.host_families import cpu_families, node_families
from pulsed.present.exposition.jobstats_series import FAMILIES as JOBSTATS
from pulsed.present.exposition.owner_families import FINDING_FAMILIES, HINT_HELP, WITHOUT_SERIES_HELP
from pulsed.present.exposition.telemetry import Telemetry, task_families
from pulsed.present.owner_totals import families_of
from pulsed.reader.exporter.scraper import Scraper
from pulsed.reader.exporter.settings import ExporterSettings
from tools.class_docs import classes
from tools.hardware.readings import kept_runs
from tools.metric_rows import Row, mark_of, series, table
from tools.quantity_docs import quantities

HEAD = """\
# Metrics

The series of `/metrics`. Names after `pulsed_gpu_` are also keys in JSON and columns in CSV. Units are base units:
ratios 0..1, bytes, seconds, hertz, watts, joules, degrees Celsius. Metrics of one row have their meanings (`a / b`) and
fields in the same order.

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

|mark|series in lean|
|-|-|
|none|as in full|
|*current*|only the current state, 1: `count by (class) (pulsed_gpu_workload_class == 1)`|
|*brief*|without `serial` and `vbios_version`|
|*raised*|only checks worse than ok; `pulsed_health_checks` has the number of GPUs|
|*differing*|if they differ: `X_bound_ratio{bound="upper"} or ignoring (bound) X_ratio` works in both|
|*counted*|once above 0: add `or 0 * pulsed_gpu_observed_seconds_total`|
|*recent*|if not 0 in 10 min; `pulsed_quantity_gpus` distinguishes 0 from not measured|
|*full*|none|

## Passthrough

`publish.passthrough: true` adds the source's own `DCGM_FI_*` series: those of fields on this page, with HELP texts of
pulsed. `nvml` has the fields that it reads; `dcgmi dmon` those of dcgm-exporter 4.0 to 4.8.2, in its units, but:

* Values of a MIG board come once, without `GPU_I_*` labels. Instances of boards that dmon does not name are absent.
* `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`, a rate, is a gauge.
* XIDs have the label `err_code`, but no `err_msg`.

## Computed
"""

OWNERS_HEAD = """
## Owners

`pulsed_gpu_owner_info` has a series per GPU and owner, with `kind` (`slurm_job`, `pod`, `container`,
`process`), all labels below,
and `attribution.workloads.pod_labels` as `label_NAME`. Join it:
`pulsed_gpu_owner_info * on (node, gpu, uuid, mig_id) group_left () pulsed_gpu_real_utilization_ratio`.

`pulsed_job_*` have the labels `job_id`, `user`, `account`, `partition`. The same metrics exist as `pulsed_pod_*`
(`namespace`, `pod`, `container`) and `pulsed_workload_*` (`namespace`, `workload`, `workload_kind`).

* Counters begin and end with the owner. N owners of a shared GPU have 1/N each, in `pulsed_workload_gpus` too.
* A workload (`attribution.workloads`) has all its pods on the node. Its counters continue while pods come and go, and
  restart with pulsed.
* `publish.max_owners` limits them; `publish.owner_labels` adds the labels to every series of a GPU, several owners
  separated by commas.
"""

JOBSTATS_HEAD = """
## Series of jobstats

With `publish.compat: [jobstats]`: as from jobstats' own exporter, and with `node`. Labels: `ordinal`, `minor_number`,
`uuid` (of the MIG instance), `name`, `GPU_I_ID`, `jobid`, `userid`. Each job of a shared GPU has its series.
"""

ADAPTER_HEAD = """
## Metrics of the adapter

`/metrics` of `pulsed adapter`, without a certificate of `adapter.client_names`; also `pulsed_http_requests_total` and
`process_*`.
"""


def metrics() -> str:
    """Return the text of docs/metrics.md."""
    classes_, own = (*classes(), *_confirmation()), (*_owners(), *_jobstats(), *_own(), *_adapter())
    return "\n".join([HEAD, *_computed(), *classes_, *_counted(), *quantities(), *own]) + "\n"


def _confirmation() -> Iterator[str]:
    ran = "" if kept_runs() else "; it has not run on hardware yet"
    yield f"\n`make hardware` compares the rules and MFU with [known kernels](../tools/hardware/README.md){ran}."
    yield (
        "`pulsed_gpu_mfu_ratio` is as published (arXiv 2605.20799): on GEMMs of H100 within 2 points of MFU, after a"
        " correction for tiles that counters do not allow; over 608 jobs r = 0.78."
    )


def _counted() -> Iterator[str]:
    yield "\n## Counters of observed time\n"
    yield "Their [quotients](operations.md#queries) are exact at any scrape interval.\n"
    known = [family for family in COUNTER_FAMILIES if not family.name.endswith("_unknown_seconds_total")]
    yield from table(
        Row((series(family.name, [family.label] if family.label else []),), family.help, mark_of(family))
        for family in known
    )
    names = ", ".join(f"`{family.name}`" for family in COUNTER_FAMILIES if family not in known)
    yield f"\nUnknown time: {names}."
    yield "Observed time in which the value was missing; *counted*, except that of real utilization."


def _computed() -> Iterator[str]:
    yield from table(Row((series(family.name, family.labels),), family.help, mark_of(family)) for family in DERIVED)
    yield "\n## Over all GPUs\n"
    yield from table(
        Row((series(summary.name, (label for label in summary.labels if label != "le")),), summary.help)
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
        "pulsed_workload_scale_hint": HINT_HELP,
        "pulsed_jobs_dropped_total{reason}": "Owners without an account or series of their own",
        "pulsed_owners_without_series{group}": WITHOUT_SERIES_HELP,
    }
    yield from table(Row((name,), text) for name, text in helps.items())


def _jobstats() -> Iterator[str]:
    yield JOBSTATS_HEAD
    yield from table(Row((family.name,), family.help) for family in JOBSTATS)


def _own() -> Iterator[str]:
    yield "\n## Metrics of pulsed\n\nAlso the standard `process_*`.\n"
    store = TargetStore("node", [Target("demo", "demo", 1.0, 3.0)])
    store.targets[0].rejected["bad_value"] = 1
    store.targets[0].errors["scrape_failed"] = 1
    store.targets[0].kernel_log_error = ""
    store.targets[0].tick = ComputedTick(RawTick("demo", 0.0, 0.0, 1.0, Layout("exporter", ()), ()), (), (), ())
    port = InfinibandPort("mlx5_0", "1", "", "ACTIVE", "LinkUp", 5e10, dict.fromkeys(PORT_COUNTERS, 0))
    store.set_host(HostFacts(0.0, (), ports=(port,)), NodeHealth((CheckState("gpu_missing", "ok"),)))
    telemetry = Telemetry(store, lambda now: _of_features(store))
    telemetry.count_request("/metrics", 200)
    yield from table(
        [
            *_rows(each for each in telemetry.registry.collect() if not each.name.startswith("process_")),
            *(
                Row((family.name,), f"{family.documentation}; *pushed only*")
                for family in text_string_to_metric_families(PUSHED)
            ),
        ]
    )


def _of_features(store: TargetStore) -> Iterator[Metric]:
    yield from discovery_families([DiscoveryList("file", "targets.json", True, 0.0)])
    yield from attribution_families([SourceState(LABELS, last_success=0.0, errors={"unreadable": 1})])
    yield from node_families(store)
    yield from cpu_families("node", [CpuReading("", "0", 0.0, 0.0, 0.0, 0.0, 0.0)])
    yield from state_families([WriteStatus(Path("state.json"), "")], 0)
    yield from push_families(Counter())
    yield report_family(is_up=True)
    yield notification_family({})
    features = FeatureSet()
    features.failures["history"] += 1
    FAILURES["accounts"] += 1
    yield from features.metrics(0.0)
    yield from task_families()


def _adapter() -> Iterator[str]:
    yield ADAPTER_HEAD
    client = ApiClient(ClusterAccess("https://127.0.0.1"))
    watch = ResourceWatch(client, "", {}, pod_reader([], []))
    names = PodNames(WorkloadResolver(client), PodSettings(""))
    telemetry = AdapterTelemetry(ClusterGpus(Scraper(ExporterSettings()), watch, names, PageAddress(), 0.0), watch)
    yield from table(_rows(each for each in telemetry.families() if each.name.startswith("pulsed_adapter_")))


def _rows(families: Iterable[Metric]) -> Iterator[Row]:
    for family in families:
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        yield Row((series(family.name + suffix, labels),), family.documentation)
