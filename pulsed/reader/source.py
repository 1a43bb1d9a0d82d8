"""What every source of ticks has, and what every kind of source declares about itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, Self, runtime_checkable

from pulsed.errors import SourceError
from pulsed.model.raw_tick import MAX_GPUS, RawTick
from pulsed.settings import Settings


class Source(Protocol):
    """A source of ticks of one target. One folder per kind; no source depends on another."""

    @property
    def kind(self) -> str:
        """`source.kind` of the configuration: `exporter`, `replay`, `demo`."""

    @property
    def target(self) -> str:
        """What is read, in human-readable form; the label `target` of `pulsed_source_info`."""

    @property
    def interval(self) -> float:
        """Nominal seconds between two ticks."""

    @property
    def failures(self) -> Collection[type[SourceError]]:
        """The errors that this source may raise: their counters start at 0."""

    @property
    def restarts(self) -> int:
        """Restarts of the source's child process; 0 where there is none."""

    async def read(self) -> RawTick:
        """Wait for the next tick.

        Raises:
            SourceError: this attempt failed; calling again is allowed and is how a source recovers.
            SourceEnded: there will be no more ticks.
        """

    async def close(self) -> None:
        """Close files, sockets and children. Safe to call twice."""


@runtime_checkable
class LimitedSource(Protocol):
    """A source that may deliver less than another kind of source could here."""

    @property
    def is_limited(self) -> bool:
        """Whether it does; known after its first tick."""


@dataclass(frozen=True, slots=True)
class SourceSection(Settings):
    """Base of the settings of a kind of source, which are its section of the configuration.

    The module `source` beside the one of the section has a function `open_sources` that takes the section and a
    `SourceRequest` and returns the sources, one per target. It reads nothing yet, and raises `ConfigError`.

    Attributes:
        does: what it does, for the documentation of `source.kind`.
        least_interval: shortest `source.interval`, seconds; less is an error. 0: the source itself raises it.
        is_candidate: whether `auto` tries it, in the order of the kinds.
        is_synthetic: whether its GPUs are none of this or another host now, and have no owners there.
        interval: seconds between two ticks, by default those without a `source.interval`; None: the source decides.
        max_gpus: most GPUs and MIG instances of a tick.
    """

    does: ClassVar[str]
    least_interval: ClassVar[float] = 0.1
    is_candidate: ClassVar[bool] = False
    is_synthetic: ClassVar[bool] = False
    interval: float | None = field(default=1.0, kw_only=True)
    max_gpus: int = field(default=MAX_GPUS, kw_only=True)

    @property
    def reads_this_host(self) -> bool:
        """Whether its GPUs are those of this machine, as far as the configuration tells."""
        return False

    def lacks(self) -> str:
        """Return what the kind needs and is not set, as the end of an error message; empty for nothing."""
        return ""

    def completed(self, interval: float | None, max_gpus: int) -> Self:
        """Return the section with the settings of all kinds.

        Args:
            interval: `source.interval`; None to keep the default.
        """
        return replace(self, interval=self.interval if interval is None else interval, max_gpus=max_gpus)


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What a source is made for.

    Attributes:
        node: name of this host.
        hurried: for a command, which starts with all targets at once, instead of spreading many over the interval,
            and plays a recording as fast as it can be read.
        superchips: patterns of the product names of GPUs with a chip-to-chip link.
    """

    node: str
    hurried: bool = False
    superchips: Collection[str] = ()
