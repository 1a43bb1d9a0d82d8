"""What every source of ticks has."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from pulsed.errors import SourceError
from pulsed.model.raw_tick import RawTick


class Source(Protocol):
    """A source of ticks of one target. One module per kind; no source depends on another."""

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
