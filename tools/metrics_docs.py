"""The text of METRICS.md, from the tables that the page itself is made from."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.collector.target_store import Target, TargetStore
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.translate.fields import DERIVED as COMPOSED
from pulsed.translate.fields import sources
from pulsed.translate.vocabulary import QUANTITIES, Group

HEAD = """\
# Metrics

What `/metrics` serves. Every name is `pulsed_gpu_` and a word of pulsed's one vocabulary, which is also the key in JSON
(`/gpus`) and the column in CSV (`pulsed export`). Units are base units: ratios 0..1, bytes, seconds, hertz, watts,
joules, degrees Celsius.

**A missing reading is absent**: never 0. A target whose data is older than `source.stale_after` loses its GPU series,
so that Prometheus marks them stale. Values are those of the last sample; `pulsed_gpu_last_sample_timestamp_seconds`
says when that was.

Every GPU series has the labels `gpu` (index) and `uuid`; a MIG instance also `mig_id` and `mig_profile`, its `uuid`
being that of the board; with several targets or hosts also `node`. All else about a GPU is in `pulsed_gpu_info`. Scrape
with `honor_labels: true`.

On a MIG board, what DCGM only knows of the whole board (power, temperature, clocks, errors) is published once, for the
board, and never repeated on its instances: `sum(pulsed_gpu_power_watts)` is right.

`publish.passthrough: true` adds the source's own `DCGM_FI_*` series, unchanged. From `dcgmi dmon` (live or a capture)
they are those that a dcgm-exporter with classic names (4.0 to 4.8.2) serves for the same fields, in its units and with
its labels as far as dmon tells them, so that its dashboard works without it. What is different:

* On a MIG board the exporter repeats the board's values on every instance. Here they come once, without `GPU_I_*`
  labels, so that sums are right; an instance's own values come from the instances only. While boards are shown,
  instances of which dmon does not tell the board are left out.
* Only true counters are declared so: `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a rate, and a gauge.
* XIDs have the label `err_code`, but not `err_msg`.
* HELP is in pulsed's words, and fields that no metric below is made from are left out.

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
    """The whole page."""
    return "\n".join([HEAD, *_computed(), *_counted(), *_quantities(), *_own()]) + "\n"


def _counted() -> Iterator[str]:
    yield "\n## Counted\n"
    yield "Over observed time, from the first sample of a GPU on (`pulsed_gpu_accounting_created_timestamp_seconds`)."
    yield "The quotient of two of them is exact for any scrape interval:"
    yield "`rate(pulsed_gpu_real_utilization_seconds_total[5m]) / rate(pulsed_gpu_observed_seconds_total[5m])`.\n"
    yield "| metric | labels | meaning |\n|---|---|---|"
    for family in COUNTER_FAMILIES:
        yield f"| `{family.name}` | {f'`{family.label}`' if family.label else ''} | {family.help} |"


def _computed() -> Iterator[str]:
    yield "| metric | labels | meaning |\n|---|---|---|"
    for family in DERIVED:
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {labels} | {family.help} |"


def _quantities() -> Iterator[str]:
    for group, title in CHAPTERS.items():
        yield f"\n## {title}\n\n| metric | meaning | from DCGM field, the first that is there |\n|---|---|---|"
        for (name, quantity), family in zip(QUANTITIES.items(), QUANTITY_FAMILIES, strict=True):
            if quantity.group == group:
                origins = [f"{field}" for field in sources(name)]
                if name in COMPOSED:
                    origins.append(COMPOSED[name])
                yield f"| `{family.name}` | {quantity.meaning} | {', '.join(origins)} |"


def _own() -> Iterator[str]:
    yield "\n## About pulsed itself\n\n| metric | type | labels | meaning |\n|---|---|---|---|"
    board = TargetStore("node", [Target("demo", "demo", 1.0, 3.0)])
    board.targets[0].rejected["bad_value"] = 1
    board.targets[0].errors["scrape_failed"] = 1
    telemetry = Telemetry(board)
    telemetry.count_request("/metrics", 200)
    for family in telemetry.registry.collect():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        shown = " ".join(f"`{label}`" for label in labels)
        yield f"| `{family.name}{suffix}` | {family.type} | {shown} | {family.documentation} |"
