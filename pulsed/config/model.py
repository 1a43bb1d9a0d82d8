"""The configuration: every key with its kind, default and meaning, as one frozen tree of sections.

These models are the one truth about keys; CONFIGURATION.md and config.example.yaml are written from them. How files,
environment and flags become such a tree is `pulsed.config.load`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue, create_model, model_validator

from pulsed.compute.derive import ComputeSettings
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.peaks import ARCHITECTURE_NAMES, DEFAULT, LINKS, RESOURCES, Resource, peaks_by_architecture
from pulsed.compute.plausibility.rules import PlausibilitySettings
from pulsed.compute.real_utilization import PRESETS, Weights
from pulsed.compute.saturation import DEFAULT_SATURATORS, Saturators
from pulsed.compute.workload.class_table import RULES, ClassThresholds
from pulsed.compute.workload.classifier import Missing, Profile
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
    Factor,
    FileName,
    GpuList,
    HttpPath,
    Notation,
    PositiveCount,
    Ratio,
    Size,
    Switch,
    Text,
    XidSeverities,
)
from pulsed.errors import ConfigError
from pulsed.present.api.events import HEARTBEAT_SECONDS, MAX_SUBSCRIBERS
from pulsed.present.api.history import MAX_BYTES, SECONDS
from pulsed.present.api.sample_fields import DEFAULT_FIELDS, FIELDS, nearest_field
from pulsed.reader.exporter.scraper import masked

Preset = Literal["ai", "hpc", "mem", "custom"]

_FIELDS = "allowed: what METRICS.md lists, without pulsed_gpu_"
Kept = Annotated[
    Columns,
    Field(min_length=1),
    Notation("names", "names of quantities, such as [sm_active_ratio, power_watts]", "text"),
]


class Log(Section):
    """What the daemon writes to its standard error."""

    level: Literal["debug", "info", "warn", "error"] = Field(
        default="info", description="Least weight of what is written."
    )
    format: Literal["logfmt", "json"] = Field(default="logfmt", description="One line per entry, in this format.")


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
        description="Weights of the inputs (sm, tensor, dram, graphics_engine): "
        + ", ".join(
            f"`{name}` {weights.sm:g} {weights.tensor:g} {weights.dram:g} {weights.graphics_engine:g}"
            for name, weights in PRESETS.items()
        )
        + ", `custom` those of `weights`. Weights that are given imply `custom`.",
    )
    weights: WeightsSection | None = Field(default=None, description="Weights of your own.")
    min_coverage: Ratio = Field(
        default=0.5,
        description="Least share of the weights whose input must be present for a number to be published. The bounds "
        "are always published.",
    )
    histogram: Bounds = Field(
        default=ComputeSettings().histogram,
        description="Upper bounds of the buckets of `pulsed_gpu_real_utilization_distribution_ratio`, which counts "
        "every sample. Each is one more series per GPU. `[]`: no histogram.",
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
    """What a threshold of the class table decides, from the table itself."""
    uses = [
        f"`{rule.name}` needs `{condition.variable}` {'below' if condition.comparison == '<' else 'at or above'} this"
        for rule in RULES
        for condition in rule.conditions
        if condition.threshold == name
    ]
    return "; ".join(uses) or "With the profile `kempnerpulse`, `memory_utilization_ratio` at or above this is IO too"


if TYPE_CHECKING:
    ThresholdsSection = Section
else:  # one key per field of Compute's own table
    ThresholdsSection = create_model(
        "ThresholdsSection",
        __base__=Section,
        __doc__="The numbers of the class table.",
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
        default="pulsed",
        description="Whose rule for IO: `kempnerpulse` also takes a high `memory_utilization_ratio` for a busy copy "
        "engine.",
    )
    hold: DurationOrNone = Field(
        default=ComputeSettings().hold,
        description="A change of class counts once the samples of the new class cover this much time: a sample of 15 s "
        "counts at once, a flicker of 100 ms does not; with 0 everything counts at once. `raw_class` is never held.",
    )
    thresholds: ThresholdsSection = Field(
        default=ThresholdsSection(), description="The numbers of the class table: ratios, and bytes per second."
    )


def _peak(resource: Resource) -> tuple[Any, Any]:
    """Declare a peak as a key; the default is the table's."""
    if resource in LINKS:
        meaning = f"Bytes per second and direction over {resource}. Unset: as the link or the product says."
        return Factor | None, Field(default=None, description=meaning, examples=[50e9])
    return Ratio | None, Field(
        default=None, description=f"Highest {resource} activity in practice. Unset: the table's.", examples=[0.9]
    )


if TYPE_CHECKING:
    PeaksByArchitecture = Section
else:  # one key per resource and architecture of Compute's own tables
    PeaksSection = create_model(
        "PeaksSection",
        __base__=Section,
        __doc__="What each resource reaches in practice.",
        **{resource: _peak(resource) for resource in RESOURCES},
    )
    PeaksByArchitecture = create_model(
        "PeaksByArchitecture",
        __base__=Section,
        __doc__="Practical peaks of your own.",
        **{
            name: (
                PeaksSection | None,
                Field(
                    default=None,
                    description=f"Of {name} GPUs." if name != DEFAULT else "Of all architectures without their own.",
                ),
            )
            for name in ARCHITECTURE_NAMES
        },
    )


class SaturationSection(Section):
    """How near a GPU is to the limits of its hardware."""

    peaks: PeaksByArchitecture = Field(
        default=PeaksByArchitecture(), description="Practical peaks of your own, by architecture."
    )

    def saturators(self) -> Saturators:
        """What Compute needs to know."""
        given = self.model_dump(exclude_none=True)["peaks"]
        return Saturators(peaks_by_architecture(given)) if given else DEFAULT_SATURATORS


_PLAUSIBLE_KEYS = (
    "enabled",
    "busy_utilization_ratio",
    "stuck_seconds",
    "stuck_samples",
    "frozen_seconds",
    "frozen_samples",
    "moved_ratio",
    "power_max_watts",
)
"""What of Compute's own table can be set: the rest is what no hardware does."""


def _plausible(name: str) -> tuple[Any, Any]:
    """Declare a number of that table as a key, in the words of its docstring."""
    (default,) = [field.default for field in fields(PlausibilitySettings) if field.name == name]
    found = re.search(
        rf"^ +{name}: (.*?)(?=^ +\w+: |^ *$)", PlausibilitySettings.__doc__ or "", re.MULTILINE | re.DOTALL
    )
    said = " ".join(found[1].split()) if found else name
    kinds = {"enabled": Switch, "samples": Count, "seconds": Duration, "ratio": Ratio}
    kind = kinds.get(name.rpartition("_")[2], Factor)
    return kind, Field(default=default, description=said[0].upper() + said[1:])


def _refusal(name: str, value: Any) -> str:
    """Say what Compute's own table wants instead of this number; empty when it takes it."""
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
        """What Compute needs to know."""
        return PlausibilitySettings(**self.model_dump())


if TYPE_CHECKING:
    PlausibilitySection = _Plausibility
else:
    PlausibilitySection = create_model(
        "PlausibilitySection",
        __base__=_Plausibility,
        __doc__=_Plausibility.__doc__,
        **{name: _plausible(name) for name in _PLAUSIBLE_KEYS},
    )


class HealthSection(Section):
    """Whether the GPUs are in order. HEALTH.md lists every check, with its thresholds."""

    disabled: CheckIds = Field(
        default=(), description="Checks that are not judged and not published. A list, or names with commas."
    )
    thresholds: CheckThresholds = Field(
        default={},
        description="Other thresholds: by check, then by state, or by measure and state where several measures of a "
        "check have the same state.",
        examples=[{"temp_memory": {"warn": 90, "hot": 95}}],
    )
    xids: XidSeverities = Field(
        default={},
        description="Another severity for an XID; `ok` counts it and lets it change no state.",
        examples=[{109: "warn"}],
    )
    pcie_width_max: Count = Field(
        default=0,
        description="Lanes that are all that a riser gives; fewer are still a fault. 0: what the GPU says.",
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
        """What Compute needs to know."""
        return HealthSettings(self.thresholds, frozenset(self.disabled), self.xids, self.pcie_width_max)


class Idle(Section):
    """When an idle GPU is held by somebody, and when it is free."""

    held_memory: Size = Field(
        default=int(ComputeSettings().held_memory_bytes),
        description="With at least so much device memory in use an idle GPU counts as held, also if no pod or job is "
        "known to have it. A CUDA context takes some 300 to 550 MiB on data centre GPUs; with none, at most 128 MiB "
        "were seen. NVIDIA drivers before 510 count what they reserve for themselves as in use: choose more there.",
    )


class Compute(Section):
    """What is worked out from the readings."""

    missing: Missing = Field(
        default="bounds",
        description="What a missing input is: `bounds` anything that physics allows, `zero` 0, as older tools have it.",
    )
    real_utilization: RealUtilizationSection = Field(
        default=RealUtilizationSection(), description="How much of a GPU does real work."
    )
    workload: WorkloadSection = Field(default=WorkloadSection(), description="What kind of work a GPU does.")
    saturation: SaturationSection = Field(
        default=SaturationSection(), description="How near a GPU is to the limits of its hardware."
    )
    plausibility: PlausibilitySection = Field(
        default=PlausibilitySection(), description="Which inputs are not believed: they count as missing."
    )
    idle: Idle = Field(default=Idle(), description="When an idle GPU is held by somebody, and when it is free.")


class Publish(Section):
    """What is republished."""

    passthrough: Switch = Field(
        default=False,
        description="Also republish the source's own `DCGM_FI_*` series, for existing dashboards and alerts.",
    )


class HistorySection(Section):
    """What is kept in memory of the last minutes, for `/gpus/{gpu}/history`."""

    seconds: Duration = Field(default=SECONDS, description="How long a sample is kept.")
    max_bytes: Size = Field(
        default=MAX_BYTES,
        description="How much memory the samples of all GPUs may take; beyond it the oldest are dropped. With the "
        "default fields a sample has some 150 bytes, and 10 to 90 once it is compressed.",
    )
    fields: Kept = Field(
        default=DEFAULT_FIELDS,
        description="What is kept of each sample: any canonical name, `real_utilization_ratio`, "
        "`real_utilization_lower_ratio`, `real_utilization_upper_ratio`, `saturation_ratio`, `workload_class`, "
        "`raw_class`, `health_state`. A list, or names with commas.",
    )

    def problems(self) -> Iterator[Problem]:
        """Find fields that nobody knows."""
        for name in self.fields:
            if name not in FIELDS:
                near = nearest_field(name)
                yield "fields", f"has {name!r}, which is no field; " + (f"did you mean {near}?" if near else _FIELDS)


class EventsSection(Section):
    """Server-sent events, at `/events`."""

    max_subscribers: Count = Field(
        default=MAX_SUBSCRIBERS, description="How many readers there may be at once; more get a 503. 0: none at all."
    )
    heartbeat: Duration = Field(
        default=HEARTBEAT_SECONDS,
        description="After so long without an event a comment is sent, for proxies that close what is silent.",
    )


class Web(Section):
    """Who may ask over HTTP, and how much of the daemon they may take up."""

    config_file: FileName | None = Field(
        default=None,
        description="Web configuration file of Prometheus' exporter-toolkit: TLS, users with passwords, headers, a "
        "rate limit. Read again when it, or a file that it names, changes. Unset: plain HTTP for everybody.",
        examples=["/etc/pulsed/web.yml"],
    )
    open_probes: Switch = Field(
        default=False,
        description="Answer `/-/healthy`, `/-/ready` and `/health` without a password, for probes that have none. "
        "TLS and certificates are asked for all the same.",
    )
    systemd_socket: Switch = Field(
        default=False, description="Serve on the sockets that systemd hands over, instead of on those of `listen`."
    )
    max_connections: PositiveCount = Field(
        default=512,
        description="How many connections may be open. One more closes those that are idle; the one more is refused "
        "only when all are being answered.",
    )
    request_timeout: Duration = Field(
        default=10.0, description="How long a client may take to send a request, and for the handshake of TLS."
    )
    keep_alive: Duration = Field(
        default=120.0,
        description="How long a connection stays open between two requests; more than the scrape interval is cheapest.",
    )


class Config(Section):
    """The whole configuration."""

    listen: Addresses = Field(
        default=(":9401",), description="Where to serve HTTP. Without a host: on all interfaces. Port 0: any free one."
    )
    telemetry_path: HttpPath = Field(default="/metrics", description="Path of the metrics page.")
    max_requests: Count = Field(
        default=40, description="How many requests of the metrics page are served at once; more get a 503. 0: no limit."
    )
    enable_lifecycle: Switch = Field(
        default=False, description="Whether `POST /-/reload` is allowed. SIGHUP and a change of the file always reload."
    )
    state_dir: FileName | None = Field(
        default=None,
        description="Folder for what must outlive a restart. Unset: nothing is kept.",
        examples=["/var/lib/pulsed"],
    )
    node: Text | None = Field(
        default=None, description="Name of this host. Unset: its host name.", examples=["gpu-node-1"]
    )
    gpus: GpuList | None = Field(
        default=None,
        description="Which GPUs to show. Unset: all; `pulsed snapshot` and `pulsed export` on a node's own GPUs then "
        "show those that CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, SLURM_STEP_GPUS or SLURM_JOB_GPUS leave a job.",
        examples=["0,2-3"],
    )
    web: Web = Field(default=Web(), description="Who may ask over HTTP, and how much they may take up.")
    log: Log = Field(default=Log(), description="What the daemon writes to its standard error.")
    source: SourceSection = Field(default=SourceSection(), description="Where the readings come from.")
    compute: Compute = Field(default=Compute(), description="What is worked out from them.")
    health: HealthSection = Field(default=HealthSection(), description="Whether the GPUs are in order.")
    publish: Publish = Field(default=Publish(), description="What is republished.")
    history: HistorySection = Field(default=HistorySection(), description="What is kept in memory of the last minutes.")
    events: EventsSection = Field(default=EventsSection(), description="Server-sent events.")

    def compute_settings(self) -> ComputeSettings:
        """Return what Compute needs to know."""
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
        )

    def masked(self) -> dict[str, JsonValue]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
        dump: dict[str, JsonValue] = self.model_dump(mode="json")
        shown: Any = dump["source"]
        shown["exporter"]["targets"] = [masked(target) for target in self.source.exporter.targets]
        return dump
