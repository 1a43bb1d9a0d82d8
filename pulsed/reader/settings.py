"""Settings of the sources: which kind is read, how often, and the registry of all kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from pulsed.config.settings import Problem, Settings, setting
from pulsed.config.values import Duration, PositiveCount
from pulsed.model.raw_tick import MAX_GPUS
from pulsed.reader.dcgmi import DcgmiSettings
from pulsed.reader.demo import DemoSettings
from pulsed.reader.exporter import ExporterSettings
from pulsed.reader.nvml import NvmlSettings
from pulsed.reader.replay import ReplaySettings
from pulsed.reader.source import SourceSection

STALE_INTERVALS = 3
"""Number of intervals without a new sample after which data is stale, if `source.stale_after` is not set."""

_SECTION = "Source `{}`.".format


def _kinds(name: str) -> str:
    """Return the description of the key `kind`."""
    kinds = ", ".join(f"`{kind}` {section.does}" for kind, section in SECTIONS.items())
    return f"{kinds}. `auto`: the first that works of `dcgmi`, the exporter at `source.exporter.targets`, and `nvml`."


PRICE = "Sampling costs GPU time: at 100ms some 2 % of the latency of decoding on GB300, at 5s nothing."
"""For where an interval is chosen."""


@dataclass(frozen=True, slots=True)
class SourceSettings(Settings):
    """Where the readings come from. Each field with a `SourceSection` registers a kind of source by its name."""

    kind: SourceKind = setting("auto", _kinds)
    interval: Duration | None = setting(
        None,
        "Time between samples. Unset: 15s for `exporter`, as recorded for `replay`, 1s for others. Minimum: 1s for "
        f"`exporter`, 10ms for `replay`, 100ms for others. {PRICE}",
        example="15s",
    )
    stale_after: Duration | None = setting(
        None,
        "Older data leaves /metrics and is marked stale in the API. Unset: three intervals, at least 2s.",
        example="45s",
    )
    max_gpus: PositiveCount = setting(
        MAX_GPUS, "Limit of GPUs and MIG instances of one target. A target with more fails."
    )
    dcgmi: DcgmiSettings = setting(DcgmiSettings(), _SECTION)
    exporter: ExporterSettings = setting(ExporterSettings(), _SECTION)
    nvml: NvmlSettings = setting(NvmlSettings(), _SECTION)
    replay: ReplaySettings = setting(ReplaySettings(), _SECTION)
    demo: DemoSettings = setting(DemoSettings(), _SECTION)

    def problems(self) -> Iterator[Problem]:
        """Find an interval that the kind cannot keep, a timeout above it, and what the kind needs and lacks."""
        exporter = self.exporter.completed(self.interval, self.max_gpus)
        if self.kind in ("auto", "exporter") and (exporter.timeout or 0.0) > exporter.interval:
            yield (
                "exporter.timeout",
                f"is {exporter.timeout:g} s, and the interval {exporter.interval:g} s; allowed: at most the interval",
            )
        section = self.section(self.kind)
        if section is not None and self.interval is not None and self.interval < section.min_interval:
            yield (
                "interval",
                f"is {self.interval:g} s; allowed for the kind {self.kind}: {section.min_interval:g} s and up",
            )
        if self.kind == "auto" and self.exporter.discovery != "static":
            yield (
                "kind",
                f"is auto, without discovery; set exporter for source.exporter.discovery: {self.exporter.discovery}",
            )
        if section is not None and (lacking := section.lacks()):
            yield "kind", f"is {self.kind}, which needs {lacking}"

    def without_effect(self) -> Iterator[Problem]:
        """Yield the sections of other kinds."""
        for kind, section in SECTIONS.items():
            is_read = section.is_candidate if self.kind == "auto" else kind == self.kind
            if not is_read:
                yield kind, f"source.kind is {self.kind}"

    def section(self, kind: str) -> SourceSection | None:
        """Return the section of a kind of source; None for `auto`."""
        section: SourceSection | None = None if kind == "auto" else getattr(self, kind)
        return section

    def scrapes(self) -> ExporterSettings:
        """Return how exporters are scraped."""
        return self.exporter.completed(self.interval, self.max_gpus)

    def check_files(self) -> None:
        """Raise `ConfigError` if exporters may be scraped, and the file with their password cannot be read."""
        if self.kind in ("exporter", "auto"):
            self.exporter.check_password_file()

    def seconds(self) -> float | None:
        """Return the seconds between two samples; None when the source decides (`replay`)."""
        section = self.section(self.kind)
        return self.interval if self.interval is not None or section is None else section.interval

    @property
    def reads_this_host(self) -> bool:
        """Whether the GPUs belong to this machine, according to the configuration."""
        return (self.section(self.kind) or self.dcgmi).reads_this_host

    @property
    def is_synthetic(self) -> bool:
        """Whether the GPUs do not exist on this or another host now."""
        section = self.section(self.kind)
        return section is not None and section.is_synthetic


SECTIONS: Mapping[str, SourceSection] = {
    each.name: each.default for each in fields(SourceSettings) if isinstance(each.default, SourceSection)
}
"""The kinds of sources but `auto`, with the defaults of their sections."""

CANDIDATES = tuple(kind for kind, section in SECTIONS.items() if section.is_candidate)
"""The kinds that `auto` tries, the preferred one first."""

KINDS = ("auto", *SECTIONS)

if TYPE_CHECKING:
    SourceKind = str
else:  # the annotation of `kind`, which is read when the kinds are known
    SourceKind = Literal[KINDS]
