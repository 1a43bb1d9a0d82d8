"""The configuration: every key with its kind, default and meaning, as one frozen tree of sections.

These models are the one truth about keys; CONFIGURATION.md and config.example.yaml are written from them. How files,
environment and flags become such a tree is `pulsed.config.load`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue, create_model, model_validator

from pulsed.compute.compute import Settings
from pulsed.compute.real_utilization import PRESETS, Weights
from pulsed.compute.rules import RULES, Thresholds
from pulsed.compute.workload import Missing, Profile
from pulsed.config.section import Problem, Section
from pulsed.config.source import Source
from pulsed.config.values import (
    Addresses,
    Bounds,
    Count,
    Duration,
    Factor,
    FileName,
    GpuList,
    HttpPath,
    Ratio,
    Size,
    Switch,
    Text,
)
from pulsed.reader.scraper import masked

Preset = Literal["ai", "hpc", "mem", "custom"]


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


class RealUtilization(Section):
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
        default=Settings().histogram,
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
            for field in fields(Thresholds)
        },
    )


class Workload(Section):
    """What kind of work a GPU does."""

    profile: Profile = Field(
        default="pulsed",
        description="Whose rule for IO: `kempnerpulse` also takes a high `memory_utilization_ratio` for a busy copy "
        "engine.",
    )
    hold: Duration = Field(
        default=Settings().hold,
        description="A change of class counts once the samples of the new class cover this much time: a sample of 15 s "
        "counts at once, a flicker of 100 ms does not. `raw_class` is never held.",
    )
    thresholds: ThresholdsSection = Field(
        default=ThresholdsSection(), description="The numbers of the class table: ratios, and bytes per second."
    )


class Idle(Section):
    """When an idle GPU is held by somebody, and when it is free."""

    held_memory: Size = Field(
        default=int(Settings().held_memory_bytes),
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
    real_utilization: RealUtilization = Field(
        default=RealUtilization(), description="How much of a GPU does real work."
    )
    workload: Workload = Field(default=Workload(), description="What kind of work a GPU does.")
    idle: Idle = Field(default=Idle(), description="When an idle GPU is held by somebody, and when it is free.")


class Publish(Section):
    """What is republished."""

    passthrough: Switch = Field(
        default=False,
        description="Also republish the source's own `DCGM_FI_*` series, for existing dashboards and alerts.",
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
    log: Log = Field(default=Log(), description="What the daemon writes to its standard error.")
    source: Source = Field(default=Source(), description="Where the readings come from.")
    compute: Compute = Field(default=Compute(), description="What is worked out from them.")
    publish: Publish = Field(default=Publish(), description="What is republished.")

    def compute_settings(self) -> Settings:
        """Return what Compute needs to know."""
        utilization, workload = self.compute.real_utilization, self.compute.workload
        return Settings(
            weights=utilization.chosen_weights(),
            preset_name=utilization.preset,
            min_coverage=utilization.min_coverage,
            missing=self.compute.missing,
            profile=workload.profile,
            thresholds=Thresholds(**workload.thresholds.model_dump()),
            hold=workload.hold,
            held_memory_bytes=self.compute.idle.held_memory,
            histogram=utilization.histogram,
        )

    def masked(self) -> dict[str, JsonValue]:
        """Return all settings as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
        dump: dict[str, JsonValue] = self.model_dump(mode="json")
        shown: Any = dump["source"]
        shown["exporter"]["targets"] = [masked(target) for target in self.source.exporter.targets]
        return dump
