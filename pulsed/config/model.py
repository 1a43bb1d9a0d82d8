"""The configuration: every key with its kind, default and meaning, as one frozen tree of sections.

CONFIGURATION.md and config.example.yaml are generated from these models. `pulsed.config.load` makes such a tree from
files, environment and flags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue

from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.settings import ComputeSettings
from pulsed.config.adapter import AdapterSection
from pulsed.config.attribution import AttributionSection
from pulsed.config.compute import ComputeSection
from pulsed.config.health import HealthSection
from pulsed.config.kubernetes import KubernetesSection
from pulsed.config.prices import PricesSection
from pulsed.config.section import Problem, Section
from pulsed.config.source import SourceSection
from pulsed.config.values import (
    Addresses,
    Count,
    Duration,
    ExternalUrl,
    Families,
    FieldNames,
    FileName,
    GpuList,
    HttpPath,
    PositiveCount,
    Programs,
    Ratio,
    RoutePrefix,
    Size,
    Switch,
    Text,
)
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.events import HEARTBEAT_SECONDS, MAX_SUBSCRIBERS
from pulsed.present.api.history import MAX_BYTES, SECONDS
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, FIELDS
from pulsed.present.exposition.catalog import NAMES, OWN_PREFIXES, Catalog, SeriesChoice, catalog, matching
from pulsed.present.exposition.owner_families import MAX_OWNERS
from pulsed.present.exposition.page import PageSettings
from pulsed.present.owner_groups import SCALE_TARGET
from pulsed.reader.exporter.scraper import masked
from pulsed.suggestions import did_you_mean

_FAMILIES = "allowed: names of METRICS.md and patterns such as pulsed_gpu_ecc_*"
_FIELDS = "allowed: what METRICS.md lists, without pulsed_gpu_"


class LogSection(Section):
    """What the daemon writes to its standard error."""

    level: Literal["debug", "info", "warn", "error"] = Field(default="info", description="Minimum level.")
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="Line format.")


class PublishSection(Section):
    """What is republished."""

    series: SeriesChoice = Field(
        default="lean",
        description="Series per GPU on `/metrics`: `lean` is at most 100, with everything that dashboards, rules and "
        "alerts use; `full` is every state, check and counter from 0 (METRICS.md).",
    )
    include: Families = Field(default=(), description="Families to publish in full as well, such as those not in lean.")
    exclude: Families = Field(
        default=(), description="Families of GPUs and owners not to publish; goes before `include`."
    )
    passthrough: Switch = Field(
        default=False,
        description="Also publish the source's own `DCGM_FI_*` series.",
    )
    compat: Programs = Field(
        default=(),
        description="Also publish the series of other exporters: `jobstats` is the `nvidia_gpu_*` series that jobstats "
        "and jobscope query.",
    )
    owner_labels: Switch = Field(
        default=False,
        description="Put the labels of the owners (`job_id`, `pod`, ...) on every series of a GPU, as dcgm-exporter "
        "does. Each owner starts new series; without it, join `pulsed_gpu_owner_info`.",
    )
    max_owners: Count = Field(
        default=MAX_OWNERS,
        description="Jobs and pods with series of their own, some 10 each, and workloads likewise. Later ones are in "
        "`/jobs` and `/workloads` only, and counted in `pulsed_jobs_dropped_total`.",
    )
    scale_target: Ratio = Field(
        default=SCALE_TARGET,
        description="Real utilization above which `pulsed_workload_scale_hint` is 1; below half of it, it is -1.",
    )

    def problems(self) -> Iterator[Problem]:
        """Yield patterns without a family, and names of families that are always published."""
        for key, pattern in (
            *(("include", each) for each in self.include),
            *(("exclude", each) for each in self.exclude),
        ):
            if pattern.startswith(OWN_PREFIXES):
                yield key, f"has {pattern!r}, which is about pulsed itself and always published; remove it"
            elif not matching(pattern):
                yield key, f"has {pattern!r}, which is not a family; {did_you_mean(pattern, NAMES, _FAMILIES)}"

    def catalog(self) -> Catalog:
        """Return the families of the page."""
        return catalog(self.series, self.include, self.exclude)


class HistorySection(Section):
    """What is kept in memory of the last minutes, for `/gpus/{gpu}/history`."""

    seconds: Duration = Field(default=SECONDS, description="How long a sample is kept.")
    max_bytes: Size = Field(
        default=MAX_BYTES,
        description="Memory limit over all GPUs; the oldest samples are dropped (sizes: OPERATIONS.md).",
    )
    fields: FieldNames = Field(
        default=DEFAULT_FIELDS,
        description="Stored fields: any quantity of METRICS.md without `pulsed_gpu_`, or "
        + ", ".join(f"`{name}`" for name in FIELDS if name not in QUANTITIES)
        + ".",
    )

    def problems(self) -> Iterator[Problem]:
        """Yield unknown fields."""
        for name in self.fields:
            if name not in FIELDS:
                yield "fields", f"has {name!r}, which is not a field; {did_you_mean(name, FIELDS, _FIELDS)}"


class EventsSection(Section):
    """Server-sent events, at `/events`."""

    max_subscribers: Count = Field(default=MAX_SUBSCRIBERS, description="Concurrent clients; more get 503. 0: none.")
    heartbeat: Duration = Field(
        default=HEARTBEAT_SECONDS,
        description="Send a comment after this time without an event, to keep proxies from closing the connection.",
    )


class WebSection(Section):
    """HTTP access and its limits."""

    config_file: FileName | None = Field(
        default=None,
        description="Web configuration file of Prometheus' exporter-toolkit: TLS, users, headers, rate limit "
        "(SECURITY.md). Reloaded when it or a file it names changes. Unset: plain HTTP.",
        examples=["/etc/pulsed/web.yml"],
    )
    external_url: ExternalUrl | None = Field(
        default=None,
        description="URL under which clients reach pulsed, for example through a proxy. Links refer to it, and its "
        "path is the default of `route_prefix`. Unset: links are relative.",
        examples=["https://example.org/gpu-node-1/pulsed"],
    )
    route_prefix: RoutePrefix | None = Field(
        default=None,
        description="Path before the path of every page, `telemetry_path` and probes included. Unset: the path of "
        "`external_url`. `/`: none, for a proxy that removes the path.",
        examples=["/"],
    )
    open_probes: Switch = Field(
        default=False,
        description="Serve `/-/healthy`, `/-/ready` and `/health` without a password.",
    )
    systemd_socket: Switch = Field(default=False, description="Serve on the sockets of systemd instead of `listen`.")
    max_connections: PositiveCount = Field(
        default=256,
        description="Open connections. At the limit those are closed that are idle or do not read their answers, first "
        "of the client with the most connections.",
    )
    request_timeout: Duration = Field(default=10.0, description="Time to send a request, and for the TLS handshake.")
    keep_alive: Duration = Field(
        default=120.0,
        description="How long idle connections stay open; best above the scrape interval.",
    )

    @property
    def prefix(self) -> str:
        """Path before every route, without a slash at the end."""
        return self.external_path if self.route_prefix is None else self.route_prefix

    @property
    def external_path(self) -> str:
        """Path of the external URL, without a slash at the end; empty without one."""
        return urlsplit(self.external_url or "").path


class Config(Section):
    """The whole configuration."""

    listen: Addresses = Field(
        default=(":9401",),
        description="Addresses to serve HTTP on. Without a host: all interfaces. Port 0: any free port.",
    )
    telemetry_path: HttpPath = Field(default="/metrics", description="Path of the metrics page.")
    max_requests: Count = Field(
        default=40, description="Concurrent requests of the metrics page; more get 503. 0: no limit."
    )
    enable_lifecycle: Switch = Field(
        default=False, description="Allow `POST /-/reload` and `POST /-/forget`. SIGHUP and file changes always reload."
    )
    state_dir: FileName | None = Field(
        default=None,
        description="Folder for state that survives a restart, of one daemon only. Unset: nothing is kept.",
        examples=["/var/lib/pulsed"],
    )
    node: Text | None = Field(
        default=None, description="Name of this host. Unset: its host name.", examples=["gpu-node-1"]
    )
    gpus: GpuList | None = Field(
        default=None,
        description="GPUs to show. Unset: all; `pulsed snapshot` and `pulsed export` on a node's own GPUs then follow "
        "CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, SLURM_STEP_GPUS or SLURM_JOB_GPUS.",
        examples=["0,2-3"],
    )
    web: WebSection = Field(default=WebSection(), description="HTTP access and its limits.")
    log: LogSection = Field(default=LogSection(), description="Log on standard error.")
    source: SourceSection = Field(default=SourceSection(), description="Where readings come from.")
    compute: ComputeSection = Field(default=ComputeSection(), description="Derived values.")
    health: HealthSection = Field(default=HealthSection(), description="Health checks (HEALTH.md).")
    kubernetes: KubernetesSection = Field(default=KubernetesSection(), description="The Kubernetes API.")
    adapter: AdapterSection = Field(default=AdapterSection(), description="`pulsed adapter`.")
    attribution: AttributionSection = Field(default=AttributionSection(), description="Owners of the GPUs.")
    prices: PricesSection = Field(default=PricesSection(), description="Prices of GPU time and energy.")
    publish: PublishSection = Field(default=PublishSection(), description="What is published.")
    history: HistorySection = Field(
        default=HistorySection(), description="Recent samples in memory, for `/gpus/{gpu}/history`."
    )
    events: EventsSection = Field(default=EventsSection(), description="Server-sent events, `/events`.")

    def compute_settings(self) -> ComputeSettings:
        """Return the settings of Compute."""
        utilization, workload = self.compute.real_utilization, self.compute.workload
        return ComputeSettings(
            weights=utilization.chosen_weights(),
            preset_name=utilization.preset,
            min_coverage=utilization.min_coverage,
            missing=self.compute.missing,
            profile=workload.profile,
            thresholds=ClassThresholds(**workload.thresholds.model_dump()),
            hold=workload.hold,
            held_memory_bytes=self.compute.idle.held_memory,
            histogram=utilization.histogram,
            saturators=self.compute.saturation.saturators(),
            plausible=self.compute.plausibility.plausible(),
            health=self.health.settings(),
            forget_after=self.health.forget_after,
        )

    def page_settings(self) -> PageSettings:
        """Return the settings of the metrics page."""
        return PageSettings(
            self.publish.catalog(),
            self.compute.saturation.saturators().peaks,
            self.publish.passthrough,
            self.publish.owner_labels,
            self.publish.compat,
        )

    def masked(self) -> dict[str, JsonValue]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
        dump: dict[str, JsonValue] = self.model_dump(mode="json")
        shown: Any = dump["source"]
        shown["exporter"]["targets"] = [masked(target) for target in self.source.exporter.targets]
        return dump
