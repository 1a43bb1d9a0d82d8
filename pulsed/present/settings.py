"""Settings of the outputs: published series, samples in memory, and events."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pulsed.compute.peaks import Peaks
from pulsed.config.settings import ListKind, Problem, Settings, setting
from pulsed.config.values import Count, Duration, ExternalUrl, FieldNames, Ratio, Size, Switch, not_empty, one_of
from pulsed.errors import did_you_mean
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, FIELDS
from pulsed.present.exposition.catalog import NAMES, OWN_PREFIXES, SeriesChoice, catalog
from pulsed.present.exposition.owner_families import MAX_OWNERS
from pulsed.present.exposition.page import COMPATIBLE, PageSettings
from pulsed.present.otlp.settings import OtlpSettings
from pulsed.present.promql.scale_rules import SCALE_TARGET

HISTORY_SECONDS = 600.0
HISTORY_BYTES = 8 * 2**20
DAY_BYTES = 8 * 2**20

MAX_SUBSCRIBERS = 32
HEARTBEAT_SECONDS = 15.0
"""Maximum time without a message, so that proxies keep the connection and both sides notice its end."""

_FAMILIES = "allowed: names of docs/metrics.md and patterns such as pulsed_gpu_ecc_*"
_FIELDS = "allowed: what docs/metrics.md lists, without pulsed_gpu_"

Families = Annotated[
    tuple[str, ...],
    ListKind(
        "family",
        "names of docs/metrics.md, with * for any characters, such as [pulsed_gpu_ecc_*]",
        not_empty,
        "text",
        single=False,
        words=True,
    ),
]
Programs = Annotated[
    tuple[str, ...],
    ListKind(
        "program",
        f"some of {', '.join(COMPATIBLE)}",
        one_of(COMPATIBLE, "is not a program that pulsed has series for"),
        "text",
        single=False,
        words=True,
    ),
]


@dataclass(frozen=True, slots=True)
class PublishSettings(Settings):
    """Published series."""

    series: SeriesChoice = setting(
        "lean",
        "Series per GPU on `/metrics`: `lean` has at most 100, `full` all (docs/metrics.md).",
    )
    include: Families = setting((), "Families to publish in full as well.")
    exclude: Families = setting((), "Families of GPUs and owners not to publish; goes before `include`.")
    passthrough: Switch = setting(False, "Also publish the source's own `DCGM_FI_*` series.")
    compat: Programs = setting(
        (),
        "Also publish series of other exporters: `jobstats`, the `nvidia_gpu_*` that jobstats and jobscope query.",
    )
    owner_labels: Switch = setting(
        False,
        "Put the owners' labels (`job_id`, `pod`, ...) on every series of a GPU, as dcgm-exporter does. Each "
        "owner starts new series.",
    )
    max_owners: Count = setting(
        MAX_OWNERS,
        "Jobs and pods with series, some 10 each, and workloads likewise. `pulsed_owners_without_series` "
        "counts the rest.",
    )
    scale_target: Ratio = setting(
        SCALE_TARGET, "Target of autoscalers, for the rules `workload:pulsed_*_ratio:scale` of `pulsed rules`."
    )
    grafana_url: ExternalUrl | None = setting(
        None,
        "Grafana with the dashboards of pulsed, to which the page links.",
        example="https://grafana.example.org",
    )
    otlp: OtlpSettings = setting(OtlpSettings(), "Sends metrics by OTLP/HTTP.")

    def problems(self) -> Iterator[Problem]:
        """Yield patterns without a family, and names of families that are always published."""
        for key, pattern in (
            *(("include", each) for each in self.include),
            *(("exclude", each) for each in self.exclude),
        ):
            if pattern.startswith(OWN_PREFIXES):
                yield key, f"has {pattern!r}, which is about pulsed itself and always published; remove it"
            elif not fnmatch.filter(NAMES, pattern):
                yield key, f"has {pattern!r}, which is not a family; {did_you_mean(pattern, NAMES, _FAMILIES)}"

    def page(self, peaks: Mapping[str, Peaks]) -> PageSettings:
        """Return the settings of the metrics page, with practical peaks by architecture."""
        families = catalog(self.series, self.include, self.exclude)
        return PageSettings(families, peaks, self.passthrough, self.owner_labels, self.compat)


@dataclass(frozen=True, slots=True)
class HistorySettings(Settings):
    """Samples of the last minutes in memory, for `/gpus/{gpu}/history`."""

    seconds: Duration = setting(HISTORY_SECONDS, "How long a sample is kept.")
    max_bytes: Size = setting(
        HISTORY_BYTES, "Memory limit over all GPUs; the oldest samples are dropped (sizes: docs/operations.md)."
    )
    day_max_bytes: Size = setting(
        DAY_BYTES,
        "Memory limit of the last day's minutes: 8 MiB hold 17 GPUs. With `state_dir`, the minutes of up to 64 GPUs"
        " survive a restart.",
    )
    fields: FieldNames = setting(
        DEFAULT_FIELDS,
        "Stored fields: any quantity of docs/metrics.md without `pulsed_gpu_`, or "
        + ", ".join(f"`{name}`" for name in FIELDS if name not in QUANTITIES)
        + ".",
    )

    def problems(self) -> Iterator[Problem]:
        """Yield unknown fields."""
        for name in self.fields:
            if name not in FIELDS:
                yield "fields", f"has {name!r}, which is not a field; {did_you_mean(name, FIELDS, _FIELDS)}"


@dataclass(frozen=True, slots=True)
class EventsSettings(Settings):
    """Server-sent events, at `/events`."""

    max_subscribers: Count = setting(MAX_SUBSCRIBERS, "Concurrent clients; more get 503. 0: none.")
    heartbeat: Duration = setting(
        HEARTBEAT_SECONDS,
        "Time without an event after which a comment is sent.",
    )
