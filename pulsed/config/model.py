"""The configuration: every key with its kind, default and meaning, as one frozen tree of sections.

CONFIGURATION.md and config.example.yaml are generated from these models. `pulsed.config.load` makes such a tree from
files, environment and flags.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import urlsplit

from pulsed.compute.class_table import ClassThresholds
from pulsed.compute.settings import ComputeSettings
from pulsed.config.adapter import AdapterSection
from pulsed.config.attribution import AttributionSection
from pulsed.config.compute import ComputeSection
from pulsed.config.health import HealthSection
from pulsed.config.kubernetes import KubernetesSection
from pulsed.config.prices import PricesSection
from pulsed.config.schema import shown_settings
from pulsed.config.source import SourceSection
from pulsed.config.values import Addresses, ExternalUrl, Families, GpuList, Programs
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.events import HEARTBEAT_SECONDS, MAX_SUBSCRIBERS
from pulsed.present.api.history import MAX_BYTES, SECONDS
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, FIELDS
from pulsed.present.exposition.catalog import NAMES, OWN_PREFIXES, Catalog, SeriesChoice, catalog, matching
from pulsed.present.exposition.owner_families import MAX_OWNERS
from pulsed.present.exposition.page import PageSettings
from pulsed.present.owner_groups import SCALE_TARGET
from pulsed.settings import (
    Count,
    Duration,
    FieldNames,
    FileName,
    HttpPath,
    PositiveCount,
    Problem,
    Ratio,
    RoutePrefix,
    Settings,
    Size,
    Switch,
    Text,
    setting,
)
from pulsed.suggestions import did_you_mean

_FAMILIES = "allowed: names of METRICS.md and patterns such as pulsed_gpu_ecc_*"
_FIELDS = "allowed: what METRICS.md lists, without pulsed_gpu_"


@dataclass(frozen=True, slots=True)
class LogSection(Settings):
    """What the daemon writes to its standard error."""

    level: Literal["debug", "info", "warn", "error"] = setting("info", "Minimum level.")
    format: Literal["logfmt", "json"] = setting("logfmt", "Line format.")


@dataclass(frozen=True, slots=True)
class PublishSection(Settings):
    """What is republished."""

    series: SeriesChoice = setting(
        "lean",
        "Series per GPU on `/metrics`: `lean` is at most 100, with everything that dashboards, rules and "
        "alerts use; `full` is every state, check and counter from 0 (METRICS.md).",
    )
    include: Families = setting((), "Families to publish in full as well, such as those not in lean.")
    exclude: Families = setting((), "Families of GPUs and owners not to publish; goes before `include`.")
    passthrough: Switch = setting(False, "Also publish the source's own `DCGM_FI_*` series.")
    compat: Programs = setting(
        (),
        "Also publish the series of other exporters: `jobstats` is the `nvidia_gpu_*` series that jobstats "
        "and jobscope query.",
    )
    owner_labels: Switch = setting(
        False,
        "Put the labels of the owners (`job_id`, `pod`, ...) on every series of a GPU, as dcgm-exporter "
        "does. Each owner starts new series; without it, join `pulsed_gpu_owner_info`.",
    )
    max_owners: Count = setting(
        MAX_OWNERS,
        "Jobs and pods with series of their own, some 10 each, and workloads likewise. Later ones are in "
        "`/jobs` and `/workloads` only, and counted in `pulsed_jobs_dropped_total`.",
    )
    scale_target: Ratio = setting(
        SCALE_TARGET, "Real utilization above which `pulsed_workload_scale_hint` is 1; below half of it, it is -1."
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


@dataclass(frozen=True, slots=True)
class HistorySection(Settings):
    """What is kept in memory of the last minutes, for `/gpus/{gpu}/history`."""

    seconds: Duration = setting(SECONDS, "How long a sample is kept.")
    max_bytes: Size = setting(
        MAX_BYTES, "Memory limit over all GPUs; the oldest samples are dropped (sizes: OPERATIONS.md)."
    )
    fields: FieldNames = setting(
        DEFAULT_FIELDS,
        "Stored fields: any quantity of METRICS.md without `pulsed_gpu_`, or "
        + ", ".join(f"`{name}`" for name in FIELDS if name not in QUANTITIES)
        + ".",
    )

    def problems(self) -> Iterator[Problem]:
        """Yield unknown fields."""
        for name in self.fields:
            if name not in FIELDS:
                yield "fields", f"has {name!r}, which is not a field; {did_you_mean(name, FIELDS, _FIELDS)}"


@dataclass(frozen=True, slots=True)
class EventsSection(Settings):
    """Server-sent events, at `/events`."""

    max_subscribers: Count = setting(MAX_SUBSCRIBERS, "Concurrent clients; more get 503. 0: none.")
    heartbeat: Duration = setting(
        HEARTBEAT_SECONDS,
        "Send a comment after this time without an event, to keep proxies from closing the connection.",
    )


@dataclass(frozen=True, slots=True)
class WebSection(Settings):
    """HTTP access and its limits."""

    config_file: FileName | None = setting(
        None,
        "Web configuration file of Prometheus' exporter-toolkit: TLS, users, headers, rate limit "
        "(SECURITY.md). Reloaded when it or a file it names changes. Unset: plain HTTP.",
        example="/etc/pulsed/web.yml",
    )
    external_url: ExternalUrl | None = setting(
        None,
        "URL under which clients reach pulsed, for example through a proxy. Links refer to it, and its "
        "path is the default of `route_prefix`. Unset: links are relative.",
        example="https://example.org/gpu-node-1/pulsed",
    )
    route_prefix: RoutePrefix | None = setting(
        None,
        "Path before the path of every page, `telemetry_path` and probes included. Unset: the path of "
        "`external_url`. `/`: none, for a proxy that removes the path.",
        example="/",
    )
    open_probes: Switch = setting(False, "Serve `/-/healthy`, `/-/ready` and `/health` without a password.")
    systemd_socket: Switch = setting(False, "Serve on the sockets of systemd instead of `listen`.")
    max_connections: PositiveCount = setting(
        256,
        "Open connections. At the limit those are closed that are idle or do not read their answers, first "
        "of the client with the most connections.",
    )
    request_timeout: Duration = setting(10.0, "Time to send a request, and for the TLS handshake.")
    keep_alive: Duration = setting(120.0, "How long idle connections stay open; best above the scrape interval.")

    @property
    def prefix(self) -> str:
        """Path before every route, without a slash at the end."""
        return self.external_path if self.route_prefix is None else self.route_prefix

    @property
    def external_path(self) -> str:
        """Path of the external URL, without a slash at the end; empty without one."""
        return urlsplit(self.external_url or "").path


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """The whole configuration."""

    listen: Addresses = setting(
        (":9401",), "Addresses to serve HTTP on. Without a host: all interfaces. Port 0: any free port."
    )
    telemetry_path: HttpPath = setting("/metrics", "Path of the metrics page.")
    max_requests: Count = setting(40, "Concurrent requests of the metrics page; more get 503. 0: no limit.")
    enable_lifecycle: Switch = setting(
        False, "Allow `POST /-/reload` and `POST /-/forget`. SIGHUP and file changes always reload."
    )
    state_dir: FileName | None = setting(
        None,
        "Folder for state that survives a restart, of one daemon only. Unset: nothing is kept.",
        example="/var/lib/pulsed",
    )
    node: Text | None = setting(None, "Name of this host. Unset: its host name.", example="gpu-node-1")
    gpus: GpuList | None = setting(
        None,
        "GPUs to show. Unset: all; `pulsed snapshot` and `pulsed export` on a node's own GPUs then follow "
        "CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, SLURM_STEP_GPUS or SLURM_JOB_GPUS.",
        example="0,2-3",
    )
    web: WebSection = setting(WebSection(), "HTTP access and its limits.")
    log: LogSection = setting(LogSection(), "Log on standard error.")
    source: SourceSection = setting(SourceSection(), "Where readings come from.")
    compute: ComputeSection = setting(ComputeSection(), "Derived values.")
    health: HealthSection = setting(HealthSection(), "Health checks (HEALTH.md).")
    kubernetes: KubernetesSection = setting(KubernetesSection(), "The Kubernetes API.")
    adapter: AdapterSection = setting(AdapterSection(), "`pulsed adapter`.")
    attribution: AttributionSection = setting(AttributionSection(), "Owners of the GPUs.")
    prices: PricesSection = setting(PricesSection(), "Prices of GPU time and energy.")
    publish: PublishSection = setting(PublishSection(), "What is published.")
    history: HistorySection = setting(HistorySection(), "Recent samples in memory, for `/gpus/{gpu}/history`.")
    events: EventsSection = setting(EventsSection(), "Server-sent events, `/events`.")

    def compute_settings(self) -> ComputeSettings:
        """Return the settings of Compute."""
        utilization, workload = self.compute.real_utilization, self.compute.workload
        return ComputeSettings(
            weights=utilization.chosen_weights(),
            preset_name=utilization.preset,
            min_coverage=utilization.min_coverage,
            missing=self.compute.missing,
            profile=workload.profile,
            thresholds=ClassThresholds(**asdict(workload.thresholds)),
            hold=workload.hold,
            held_memory_bytes=self.compute.idle.held_memory,
            histogram=utilization.histogram,
            peaks=self.compute.saturation.practical_peaks(),
            plausible=self.compute.plausibility.plausible(),
            health=self.health.settings(),
            forget_after=self.health.forget_after,
        )

    def page_settings(self) -> PageSettings:
        """Return the settings of the metrics page."""
        return PageSettings(
            self.publish.catalog(),
            self.compute.saturation.practical_peaks(),
            self.publish.passthrough,
            self.publish.owner_labels,
            self.publish.compat,
        )

    def masked(self) -> dict[str, object]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
        return shown_settings(self)
