"""A look at this machine: which sources work, and what each of them says. Nothing is changed, nothing keeps running."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pulsed.compute.tick import ComputedTick
from pulsed.config import Config
from pulsed.errors import SourceEnded, SourceError
from pulsed.feed import Pipeline
from pulsed.reader.tick import Source
from pulsed.sources import node_name, sources_of

TICKS = 3
"""What a live dcgmi may say before it is judged: profiling counters need one or two samples to begin with."""

PATIENCE_SECONDS = 30.0
"""For one source. An engine that hangs is told by then."""

_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]+)")


@dataclass(frozen=True, slots=True)
class Probe:
    """What became of trying one source.

    Attributes:
        kind: of the source.
        target: what was read.
        error: why it does not work, with the remedy; empty if it does.
        tick: the last thing that it said.
        lost: DCGM fields that it was asked for and cannot give, by reason.
    """

    kind: str
    target: str
    error: str = ""
    tick: ComputedTick | None = None
    lost: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether it can be served from."""
        return self.tick is not None


def driver_version(root: Path = Path("/")) -> str:
    """The version of the NVIDIA kernel driver that is loaded; empty if there is none.

    Args:
        root: where the file system begins.
    """
    try:
        said = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = _DRIVER.search(said)
    return found[1] if found else "unknown"


async def probe_all(config: Config) -> list[Probe]:
    """Try every source that the configuration allows, all at the same time.

    Args:
        config: `auto` tries what it would choose from; another kind only itself.
    """
    kinds = ("dcgmi", "exporter") if config.source.kind == "auto" else (config.source.kind,)
    sources = [source for kind in kinds for source in sources_of(kind, config)]
    return list(await asyncio.gather(*(probe(source, config) for source in sources)))


async def probe(source: Source, config: Config, patience: float = PATIENCE_SECONDS) -> Probe:
    """Try one source; never raises what the source raises.

    Args:
        source: is closed afterwards.
        config: says how to compute.
        patience: seconds that it may take.
    """
    pipeline = Pipeline(config.compute_settings(), node_name(config))
    tick: ComputedTick | None = None
    error = ""
    try:
        for _ in range(TICKS):
            tick = pipeline.process(await asyncio.wait_for(source.read(), patience))
            if source.kind != "dcgmi" or all(result.real_utilization.coverage == 1 for result in tick.results):
                break
    except SourceEnded as end:
        error = str(end)
    except SourceError as failure:
        error = str(failure)
    except asyncio.TimeoutError:
        error = f"{source.target} said nothing for {patience:g} s. See whether it hangs"
    lost = getattr(source, "lost", {})
    await source.close()
    return Probe(source.kind, source.target, "" if tick else error, tick, lost)
