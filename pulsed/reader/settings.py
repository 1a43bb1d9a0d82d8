"""Settings of the sources: which kind is read, how often, and those of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pulsed.model.raw_tick import MAX_GPUS
from pulsed.reader.dcgmi.settings import DcgmiSettings
from pulsed.reader.exporter.settings import ExporterSettings
from pulsed.reader.nvml.settings import LEAST_INTERVAL, NvmlSettings
from pulsed.reader.replay.settings import ReplaySettings
from pulsed.settings import Duration, PositiveCount, Problem, Settings, WholeNumber, setting

Kind = Literal["auto", "dcgmi", "exporter", "nvml", "replay", "demo"]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a kind of source can be read.

    Attributes:
        least: shortest `source.interval`, seconds; less is an error. 0: the source itself raises it.
        default: seconds when `source.interval` is not set; None: the source decides.
    """

    least: float
    default: float | None


CADENCES: Mapping[str, Cadence] = {
    "auto": Cadence(0.0, None),  # each candidate keeps its own
    "dcgmi": Cadence(0.0, DcgmiSettings().interval),
    "exporter": Cadence(1.0, ExporterSettings().interval),
    "nvml": Cadence(LEAST_INTERVAL, NvmlSettings().interval),
    "replay": Cadence(0.01, None),
    "demo": Cadence(0.1, 1.0),
}
"""One line per kind of source."""

STALE_INTERVALS = 3
"""After so many intervals without a new sample data is stale, when `source.stale_after` is not set."""


@dataclass(frozen=True, slots=True)
class DemoSettings(Settings):
    """For the kind `demo`."""

    seed: WholeNumber = setting(0, "Seed of the simulation.")


@dataclass(frozen=True, slots=True)
class SourceSettings(Settings):
    """Where the readings come from."""

    kind: Kind = setting(
        "auto",
        "`dcgmi` runs `dcgmi dmon`, `exporter` scrapes dcgm-exporters, `nvml` reads the driver (`pip "
        "install 'pulsed[nvml]'`), `replay` plays a recording, `demo` simulates eight GPUs. `auto`: `dcgmi` "
        "if the host engine answers, else the exporter at `source.exporter.targets`, else `nvml`.",
    )
    interval: Duration | None = setting(
        None,
        "Time between samples. Unset: 15s for `exporter`, as recorded for `replay`, else 1s. Minimum: 1s "
        "for `exporter`, 10ms for `replay`, else 100ms (`dcgmi` raises less to it).",
        example="15s",
    )
    stale_after: Duration | None = setting(
        None, "Older data leaves /metrics and is marked stale in the API. Unset: three intervals.", example="45s"
    )
    max_gpus: PositiveCount = setting(
        MAX_GPUS, "Limit of GPUs and MIG instances of one target. A target with more fails."
    )
    dcgmi: DcgmiSettings = setting(DcgmiSettings(), "Source `dcgmi`.")
    exporter: ExporterSettings = setting(ExporterSettings(), "Source `exporter`.")
    nvml: NvmlSettings = setting(NvmlSettings(), "Source `nvml`.")
    replay: ReplaySettings = setting(ReplaySettings(), "Source `replay`.")
    demo: DemoSettings = setting(DemoSettings(), "Source `demo`.")

    def problems(self) -> Iterator[Problem]:
        """Find an interval that the kind cannot keep, and what the kind needs and lacks."""
        least = CADENCES[self.kind].least
        if self.interval is not None and self.interval < least:
            yield "interval", f"is {self.interval:g} s; allowed for the kind {self.kind}: {least:g} s and up"
        if self.kind == "auto" and self.exporter.discovery != "static":
            yield (
                "kind",
                f"is auto, without discovery; set exporter for source.exporter.discovery: {self.exporter.discovery}",
            )
        if self.kind == "replay" and self.replay.path is None:
            yield "kind", "is replay, which needs a recording; set source.replay.path"

    def seconds(self) -> float | None:
        """Return the seconds between two samples; None when the source decides (`replay`)."""
        return CADENCES[self.kind].default if self.interval is None else self.interval
