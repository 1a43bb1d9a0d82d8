"""The configuration: every key with its kind, default and meaning, as one frozen tree of sections.

These models are the one truth about keys; CONFIGURATION.md and config.example.yaml are written from them. How files,
environment and flags become such a tree is `pulsed.config.load`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, create_model, model_validator

from pulsed.compute.derive import ComputeSettings
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.peaks import ARCHITECTURE_NAMES, DEFAULT, LINKS, RESOURCES, Resource, peaks_by_architecture
from pulsed.compute.plausibility.rules import PlausibilitySettings
from pulsed.compute.real_utilization import PRESETS, Weights
from pulsed.compute.saturation import DEFAULT_SATURATORS, Saturators
from pulsed.compute.workload.class_table import RULES, ClassThresholds, Profile
from pulsed.compute.workload.classifier import Missing
from pulsed.config.attribution import AttributionSection
from pulsed.config.kubernetes import KubernetesSection
from pulsed.config.prices import PricesSection
from pulsed.config.section import Problem, Section
from pulsed.config.source import SourceSection
from pulsed.config.values import (
    Addresses,
    Bounds,
    CheckIds,
    CheckThresholds,
    Columns,
    Count,
    Duration,
    DurationOrNone,
    ExternalUrl,
    Factor,
    Families,
    FileName,
    GpuList,
    HttpPath,
    KernelLogPath,
    Notation,
    PositiveCount,
    Programs,
    Ratio,
    RoutePrefix,
    Size,
    Switch,
    Text,
    XidSeverities,
)
from pulsed.errors import ConfigError
from pulsed.present.api.events import HEARTBEAT_SECONDS, MAX_SUBSCRIBERS
from pulsed.present.api.history import MAX_BYTES, SECONDS
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, FIELDS
from pulsed.present.exposition.catalog import NAMES, OWN_PREFIXES, Catalog, SeriesChoice, catalog, matching
from pulsed.present.exposition.owner_families import MAX_OWNERS
from pulsed.reader.exporter.scraper import masked
from pulsed.suggestions import did_you_mean
from pulsed.translate.vocabulary import QUANTITIES

_DEFAULTS = ComputeSettings()

Preset = Literal["ai", "hpc", "mem", "custom"]

_FAMILIES = "allowed: names of METRICS.md and patterns such as pulsed_gpu_ecc_*"
_FIELDS = "allowed: what METRICS.md lists, without pulsed_gpu_"
Kept = Annotated[
    Columns,
    Field(min_length=1),
    Notation("names", "names of quantities, such as [sm_active_ratio, power_watts]", "text"),
]


class Log(Section):
    """What the daemon writes to its standard error."""

    level: Literal["debug", "info", "warn", "error"] = Field(default="info", description="Minimum level.")
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="Line format.")


class WeightsSection(Section):
    """How much each input counts, scaled to sum to 1; one left out counts nothing."""

    sm: Factor = Field(default=0.0, description="Weight of `sm_active_ratio`.", examples=[0.4])
    tensor: Factor = Field(default=0.0, description="Weight of `tensor_active_ratio`.", examples=[0.3])
    dram: Factor = Field(default=0.0, description="Weight of `dram_active_ratio`.", examples=[0.2])
    graphics_engine: Factor = Field(
        default=0.0, description="Weight of `graphics_engine_active_ratio`.", examples=[0.1]
    )

    def problems(self) -> Iterator[Problem]:
        """Find weights that cannot be scaled."""
        if not 0 < self.sm + self.tensor + self.dram + self.graphics_engine < float("inf"):
            yield "sm", "and the other weights are all 0; allowed: at least one above 0"


class RealUtilizationSection(Section):
    """How much of a GPU does real work, as one number."""

    preset: Preset = Field(
        default="ai",
        description="Weights of sm, tensor, dram, graphics_engine: "
        + ", ".join(
            f"`{name}` {weights.sm:g} {weights.tensor:g} {weights.dram:g} {weights.graphics_engine:g}"
            for name, weights in PRESETS.items()
        )
        + ", or `custom`, which is the default if `weights` are set.",
    )
    weights: WeightsSection | None = Field(default=None, description="Custom weights, scaled to a sum of 1.")
    min_coverage: Ratio = Field(
        default=_DEFAULTS.min_coverage,
        description="Publish a value if at least this share of the weights has its input. Bounds are always published.",
    )
    histogram: Bounds = Field(
        default=_DEFAULTS.histogram,
        description="Bucket bounds of `pulsed_gpu_real_utilization_distribution_ratio`, a series per GPU each. `[]` "
        "turns it off.",
    )

    @model_validator(mode="before")
    @classmethod
    def _imply_custom(cls, given: Any) -> Any:
        """Weights that are given are meant, whatever the default preset is."""
        if isinstance(given, dict) and given.get("weights") is not None and "preset" not in given:
            return {**given, "preset": "custom"}
        return given

    def problems(self) -> Iterator[Problem]:
        """Find a preset that contradicts the weights."""
        if self.preset == "custom" and self.weights is None:
            yield "preset", "is custom, which needs weights; set compute.real_utilization.weights"
        if self.preset != "custom" and self.weights is not None:
            yield "preset", f"is {self.preset}, but weights are given; write custom, or leave one of the two out"

    def chosen_weights(self) -> Weights:
        """The weights of the preset, or the given ones, scaled to sum to 1."""
        return PRESETS[self.preset] if self.weights is None else Weights(**self.weights.model_dump())


def _threshold(name: str) -> str:
    """Return which conditions of the class table use a threshold."""
    uses = [
        f"`{rule.name}`: `{condition.variable}` {condition.comparison} this"
        + (f" (only with the profile `{rule.only}`)" if rule.only else "")
        for rule in RULES
        for condition in rule.conditions
        if condition.threshold == name
    ]
    return "; ".join(uses) or "`io` with the profile `kempnerpulse`: `memory_utilization_ratio` >= this"


if TYPE_CHECKING:
    ThresholdsSection = Section
else:  # one key per field of Compute's own table
    ThresholdsSection = create_model(
        "ThresholdsSection",
        __base__=Section,
        **{
            field.name: (
                Ratio if field.name.endswith("_ratio") else Factor,
                Field(default=field.default, description=f"{_threshold(field.name)}."),
            )
            for field in fields(ClassThresholds)
        },
    )


class WorkloadSection(Section):
    """What kind of work a GPU does."""

    profile: Profile = Field(
        default=_DEFAULTS.profile,
        description="`kempnerpulse` has the rules of KempnerPulse 0.5: a high `memory_utilization_ratio` counts as IO, "
        "and memory activity alone does not make a GPU `memory_bound`.",
    )
    hold: DurationOrNone = Field(
        default=_DEFAULTS.hold,
        description="A new class counts once its samples cover this time, so that flicker is left out. 0: at once.",
    )
    thresholds: ThresholdsSection = Field(
        default=ThresholdsSection(), description="Thresholds of the class table: ratios, and bytes per second."
    )


def _peak(resource: Resource) -> tuple[Any, Any]:
    """Declare a peak as a key; the default is the table's."""
    if resource in LINKS:
        meaning = f"Peak of {resource}, bytes per second and direction. Unset: of the link or product."
        return Factor | None, Field(default=None, description=meaning, examples=[50e9])
    return Ratio | None, Field(default=None, description=f"Peak {resource} activity.", examples=[0.9])


if TYPE_CHECKING:
    PeaksByArchitecture = Section
else:  # one key per resource and architecture of Compute's own tables
    PeaksSection = create_model(
        "PeaksSection",
        __base__=Section,
        **{resource: _peak(resource) for resource in RESOURCES},
    )
    PeaksByArchitecture = create_model(
        "PeaksByArchitecture",
        __base__=Section,
        **{
            name: (
                PeaksSection | None,
                Field(
                    default=None,
                    description=f"{name.capitalize()} GPUs."
                    if name != DEFAULT
                    else "All architectures without a value.",
                ),
            )
            for name in ARCHITECTURE_NAMES
        },
    )


class SaturationSection(Section):
    """How near a GPU is to the limits of its hardware."""

    peaks: PeaksByArchitecture = Field(
        default=PeaksByArchitecture(),
        description="Practical peaks by architecture, in place of the built-in ones.",
    )

    def saturators(self) -> Saturators:
        """Return the settings of Compute."""
        given = self.model_dump(exclude_none=True)["peaks"]
        return Saturators(peaks_by_architecture(given)) if given else DEFAULT_SATURATORS


_PLAUSIBLE_KEYS = {
    "enabled": "Look for implausible inputs.",
    "busy_utilization_ratio": "From this `gpu_utilization_ratio` on, kernels certainly ran.",
    # The driver's figure is a mean over up to 1 s (nvml.h), and DCGM's values are late by part of a second (DCGM#170).
    "stuck_seconds": "Zero activity on such a busy GPU counts as stuck after this time.",
    "stuck_samples": "And after this many different samples; a scrape can repeat one.",
    "frozen_seconds": "Constant values count as frozen after this time; dcgm-exporter's default interval is 30 s.",
    "frozen_samples": "And after this many samples.",
    # A hung job has constant activity, and power that changes by a few percent.
    "moved_ratio": "A load change by this much (utilization points, or a share of power) must change activity.",
    "power_max_watts": "Higher power is implausible.",
}
"""The settings of `PlausibilitySettings` that can be configured, with their descriptions."""


def _plausible(name: str, description: str) -> tuple[Any, Any]:
    """Declare a number of that table as a key."""
    (default,) = [field.default for field in fields(PlausibilitySettings) if field.name == name]
    kinds = {"enabled": Switch, "samples": Count, "seconds": Duration, "ratio": Ratio}
    kind = kinds.get(name.rpartition("_")[2], Factor)
    return kind, Field(default=default, description=description)


def _refusal(name: str, value: Any) -> str:
    """Return what is allowed instead of this number; empty if the number is allowed."""
    try:
        PlausibilitySettings(**{name: value})
    except ConfigError as error:
        return error.remedy
    return ""


class _Plausibility(Section):
    """Which inputs are not believed: they count as missing."""

    def problems(self) -> Iterator[Problem]:
        """Find numbers that Compute's own table does not allow."""
        for name, value in self.model_dump().items():
            if remedy := _refusal(name, value):
                yield name, f"is {value:g}; {remedy}"

    def plausible(self) -> PlausibilitySettings:
        """Return the settings of Compute."""
        return PlausibilitySettings(**self.model_dump())


if TYPE_CHECKING:
    PlausibilitySection = _Plausibility
else:
    PlausibilitySection = create_model(
        "PlausibilitySection",
        __base__=_Plausibility,
        **{name: _plausible(name, description) for name, description in _PLAUSIBLE_KEYS.items()},
    )


class HealthSection(Section):
    """Whether the GPUs are in order. HEALTH.md lists every check, with its thresholds."""

    disabled: CheckIds = Field(default=(), description="Checks that are not evaluated and not published.")
    thresholds: CheckThresholds = Field(
        default={},
        description="Thresholds by check, then by state, or by measure and state (HEALTH.md).",
        examples=[{"temp_memory": {"warn": 90, "hot": 95}}],
    )
    xids: XidSeverities = Field(
        default={},
        description="Severity by XID. `ok`: count it, but do not change the state.",
        examples=[{109: "warn"}],
    )
    kernel_log: KernelLogPath = Field(
        default="auto",
        description="Read XIDs and lost GPUs from the kernel log, with their exact times. `auto`: from /dev/kmsg, if "
        "the source reads GPUs of this machine and pulsed may read it; `off`; or the path of a file with records of "
        "/dev/kmsg, lines of dmesg, or a journal export.",
    )
    forget_after: DurationOrNone = Field(
        default=_DEFAULTS.forget_after,
        description="Forget a GPU that has been absent for this time: its health, counters and history. 0: never. "
        "`pulsed health --forget GPU` forgets it at once.",
    )
    pcie_width_max: Count = Field(
        default=0,
        description="PCIe lanes that the riser provides; fewer are a fault. 0: as the GPU reports.",
        examples=[8],
    )

    def problems(self) -> Iterator[Problem]:
        """Find checks, thresholds and severities that do not exist."""
        tries: dict[str, Callable[[], HealthSettings]] = {
            "disabled": lambda: HealthSettings(disabled=frozenset(self.disabled)),
            "thresholds": lambda: HealthSettings(self.thresholds),
        }
        for key, attempt in tries.items():
            try:
                attempt()
            except ConfigError as error:  # noqa: PERF203 - each key has its own
                yield key, f"cannot be used: {error}"

    def settings(self) -> HealthSettings:
        """Return the settings of Compute."""
        return HealthSettings(self.thresholds, frozenset(self.disabled), self.xids, self.pcie_width_max)


class Idle(Section):
    """When an idle GPU counts as held."""

    held_memory: Size = Field(
        default=int(_DEFAULTS.held_memory_bytes),
        description="An idle GPU whose owners are unknown counts as held with this much device memory in use. A CUDA "
        "context takes 300 to 550 MiB, an unused GPU at most 128 MiB; drivers before 510 also count their "
        "reserve: set more.",
    )


class Compute(Section):
    """What is worked out from the readings."""

    missing: Missing = Field(
        default=_DEFAULTS.missing,
        description="Missing inputs are anything within physical `bounds`, or `zero` as in older tools.",
    )
    real_utilization: RealUtilizationSection = Field(
        default=RealUtilizationSection(), description="The share of a GPU that does work."
    )
    workload: WorkloadSection = Field(default=WorkloadSection(), description="Workload class.")
    saturation: SaturationSection = Field(
        default=SaturationSection(), description="Distance to the limits of the hardware."
    )
    plausibility: PlausibilitySection = Field(
        default=PlausibilitySection(), description="Implausible inputs, which count as missing."
    )
    idle: Idle = Field(default=Idle(), description="Whether an idle GPU is held or free.")


class Publish(Section):
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
        "and jobscope query (OPERATIONS.md).",
    )
    owner_labels: Switch = Field(
        default=False,
        description="Put the labels of the owners (`job_id`, `user`, `namespace`, `pod`, ...) on every series of a "
        "GPU, as dcgm-exporter does. Each owner starts new series; without it, join `pulsed_gpu_owner_info`.",
    )
    max_owners: Count = Field(
        default=MAX_OWNERS,
        description="Jobs and pods with series of their own, some 10 each. Later ones are in `/jobs` only, and counted "
        "in `pulsed_jobs_dropped_total`.",
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
        description="Memory limit over all GPUs; the oldest samples are dropped. With the "
        "default fields a sample has some 150 bytes, and 10 to 90 once it is compressed.",
    )
    fields: Kept = Field(
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


class Web(Section):
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
        default=512,
        description="Open connections. At the limit idle ones are closed; only if none is idle is the new one refused.",
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
        description="Folder for state that survives a restart. Unset: nothing is kept.",
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
    web: Web = Field(default=Web(), description="HTTP access and its limits.")
    log: Log = Field(default=Log(), description="Log on standard error.")
    source: SourceSection = Field(default=SourceSection(), description="Where readings come from.")
    compute: Compute = Field(default=Compute(), description="Derived values.")
    health: HealthSection = Field(default=HealthSection(), description="Health checks (HEALTH.md).")
    kubernetes: KubernetesSection = Field(default=KubernetesSection(), description="The Kubernetes API.")
    attribution: AttributionSection = Field(default=AttributionSection(), description="Owners of the GPUs.")
    prices: PricesSection = Field(default=PricesSection(), description="Prices of GPU time and energy.")
    publish: Publish = Field(default=Publish(), description="What is published.")
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

    def masked(self) -> dict[str, JsonValue]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
        dump: dict[str, JsonValue] = self.model_dump(mode="json")
        shown: Any = dump["source"]
        shown["exporter"]["targets"] = [masked(target) for target in self.source.exporter.targets]
        return dump
