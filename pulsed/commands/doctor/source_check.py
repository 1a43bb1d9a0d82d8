"""A look at the sources: which of them work here, and what each says. Nothing is changed, nothing keeps running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pulsed.collector.collector import Pipeline
from pulsed.collector.source_factory import node_name, sources_of
from pulsed.compute.tick import ComputedTick
from pulsed.config import Config
from pulsed.errors import ConfigError, ProfilingHeld, SourceEnded, SourceError
from pulsed.reader.dcgmi.child import find
from pulsed.reader.dcgmi.source import DcgmiSource
from pulsed.reader.dcgmi.version import described, versions
from pulsed.reader.tick import Layout, Source
from pulsed.translate.fields import AMBIGUOUS_NAME, BY_NAME, FIRST_BASE_UNIT_ID
from pulsed.translate.vocabulary import NOTHING

log = logging.getLogger(__name__)

TICKS = 4
"""What a live dcgmi may say before it is judged: profiling counters need one or two samples to begin with."""

LIVE_SECONDS = 0.5
"""Between these samples: nobody wants to wait for the interval of the daemon."""

PATIENCE_SECONDS = 30.0
"""For one source. An engine that hangs is told by then."""

VERSION_SECONDS = 5.0

_NO_LAYOUT = Layout("exporter", ())


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """What became of trying one source.

    Attributes:
        kind: of the source.
        target: what was read.
        error: why it does not work, with the remedy; empty if it does.
        version: of the software behind it, as far as it tells.
        tick: the last thing that it said.
        lost: DCGM fields that it was asked for and cannot give, by reason.
        why: by the same reasons, the refusal in words, with the remedy.
    """

    kind: str
    target: str
    error: str = ""
    version: str = ""
    tick: ComputedTick | None = None
    lost: Mapping[str, Sequence[int]] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether it can be served from."""
        return self.tick is not None

    @property
    def layout(self) -> Layout:
        """The series of the last thing that it said."""
        return self.tick.canonical.raw.layout if self.tick else _NO_LAYOUT

    @property
    def is_blind(self) -> bool:
        """Whether it names GPUs and says nothing about any."""
        return self.tick is not None and all(reading == NOTHING for reading in self.tick.canonical.readings)

    @property
    def limited(self) -> bool:
        """Whether somebody else, most likely a dcgm-exporter, holds the profiling hardware and so knows more."""
        return ProfilingHeld.reason in self.lost


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """What `pulsed serve` takes.

    Attributes:
        probes: of the sources; more than one only for several exporters.
        why: in one clause.
    """

    probes: tuple[SourceCheck, ...]
    why: str


async def probe_all(config: Config) -> list[SourceCheck]:
    """Try every source that the configuration allows, all at the same time; never raises what a source raises.

    Args:
        config: `auto` tries what it would choose from; another kind only itself.
    """
    kinds = [config.source.kind]
    if config.source.kind == "auto":  # which gathers several exporters without asking the host engine
        kinds = ["exporter"] if len(config.source.exporter.targets) > 1 else ["dcgmi", "exporter"]
    return [found for kind in await asyncio.gather(*(_probe_kind(kind, config) for kind in kinds)) for found in kind]


async def _probe_kind(kind: str, config: Config) -> list[SourceCheck]:
    if kind == "dcgmi":
        config = config.model_copy(update={"source": config.source.model_copy(update={"interval": LIVE_SECONDS})})
    try:
        sources = sources_of(kind, config)
    except ConfigError as error:
        return [SourceCheck(kind, "", str(error))]
    return list(await asyncio.gather(*(probe(source, config) for source in sources)))


async def probe(source: Source, config: Config, patience: float = PATIENCE_SECONDS) -> SourceCheck:
    """Try one source; never raises.

    Args:
        source: is closed afterwards.
        config: says how to compute.
        patience: seconds that it may take.
    """
    heard: list[ComputedTick] = []
    version, error = "", ""
    try:
        version = await _version_before(source, config)
        await asyncio.wait_for(_listen(source, config, heard), patience)
    except (SourceError, SourceEnded) as failure:
        error = str(failure)
    except asyncio.TimeoutError:
        error = f"{source.target} said nothing for {patience:g} s. See whether it hangs"
    except Exception as bug:
        log.exception("pulsed could not look at a source; please report this", extra={"target": source.target})
        error = f"internal error: {bug!r}. Please report this"
    lost, why = (source.lost, source.why) if isinstance(source, DcgmiSource) else ({}, {})
    await source.close()
    if not heard:
        return SourceCheck(source.kind, source.target, error, version)
    layout = heard[-1].canonical.raw.layout
    if source.kind == "exporter":
        version = release_of(layout)
    return SourceCheck(source.kind, source.target, "", version, heard[-1], lost, why)


async def _listen(source: Source, config: Config, heard: list[ComputedTick]) -> None:
    """Read until it is known what the source can say."""
    pipeline = Pipeline(config.compute_settings(), node_name(config))
    for _ in range(TICKS):
        heard.append(pipeline.process(await source.read()))
        if source.kind != "dcgmi" or all(result.real_utilization.coverage == 1 for result in heard[-1].results):
            return


async def _version_before(source: Source, config: Config) -> str:
    if source.kind != "dcgmi" or config.source.dcgmi.host:  # `dcgmi -v` asks this machine's engine only
        return ""
    return described(await versions(find(config.source.dcgmi.path), VERSION_SECONDS))


def has_new_names(layout: Layout) -> bool:
    """Whether a page calls any field as DCGM does since 4.6."""
    names = {series.name for series in layout.series} - {AMBIGUOUS_NAME}
    return any(
        name.startswith("DCGM_") and (name != field.names[0] or field.id >= FIRST_BASE_UNIT_ID)
        for name in names
        for field in BY_NAME.get(name, ())
    )


def release_of(layout: Layout) -> str:
    """Tell from a page which dcgm-exporter it is of; empty if it looks like none."""
    rows = [series for series in layout.series if series.name in BY_NAME and series.name != AMBIGUOUS_NAME]
    if any(field.id >= FIRST_BASE_UNIT_ID for series in rows for field in BY_NAME[series.name]):
        return "dcgm-exporter 4.9 or newer"
    # dcgm-exporter#655. Rows about links had the small letter before.
    if any("hostname" in (names := dict(series.labels)) and "nvlink" not in names for series in rows):
        return "dcgm-exporter 4.8.3 or newer"
    return "dcgm-exporter before 4.8.3" if rows else ""


def choose(probes: Sequence[SourceCheck], kind: str) -> SourceChoice | None:
    """Tell what the source `kind` takes; None if nothing works.

    Args:
        probes: of all that it may take, the preferred one first.
        kind: of the configuration.
    """
    working = [probe for probe in probes if probe.works]
    if not working:
        return None
    if kind != "auto":
        return SourceChoice(tuple(working), f"source.kind is {kind}")
    if len({probe.kind for probe in probes}) == 1:
        return SourceChoice(tuple(working), "there are several source.exporter.targets")
    first = next((probe for probe in working if not probe.limited), working[0])
    if first.limited:
        why = "nothing else works, though the profiling counters are held by another process"
    elif first is probes[0]:
        why = "it works, and auto tries it first"
    elif probes[0].works:
        why = (
            f"the profiling counters are held by another process, so that {first.kind} says more than {probes[0].kind}"
        )
    else:
        why = f"it works, and {probes[0].kind} does not"
    return SourceChoice((first,), why)
