"""The interface of attribution sources: which owners have which device now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from pulsed.model.owner import Owners


@dataclass(frozen=True, slots=True)
class Claims:
    """What a source found at one look.

    Attributes:
        owners: of each device that has any, by the key of the device (see `device_key`).
        is_complete: whether a device of this host that is not in `owners` is free; else its owners are unknown.
        rejected: entries that could not be read, counted by reason.
    """

    owners: Mapping[str, Owners] = field(default_factory=dict)
    is_complete: bool = False
    rejected: Mapping[str, int] = field(default_factory=dict)


NO_CLAIMS = Claims()


@dataclass(slots=True)
class SourceState:
    """The state of one source.

    Attributes:
        up: whether the last look succeeded.
        claims: in force now.
        last_success: Unix time of the last look that succeeded; None before the first, and then it is not published.
        succeeded: the same in monotonic seconds.
        errors: failed looks and unreadable entries, by reason.
        message: the error of the last look; empty while up.
    """

    name: str
    up: bool = False
    claims: Claims = NO_CLAIMS
    last_success: float | None = None
    succeeded: float = -inf
    errors: dict[str, int] = field(default_factory=dict)
    message: str = ""

    def succeed(self, time: float, now: float) -> None:
        """Note that a look succeeded at a Unix time, which is a moment in monotonic seconds."""
        self.last_success, self.succeeded = time, now

    def age(self, now: float) -> float:
        """Return the seconds since the last look that succeeded, at a moment in monotonic seconds; infinite if none."""
        return now - self.succeeded


class AttributionSource(Protocol):
    """Something of this host that assigns devices to owners. Equal sources are not started again by a reload."""

    @property
    def name(self) -> str:
        """Unique; the label `source` of its metrics."""

    @property
    def interval(self) -> float:
        """Seconds between two looks."""

    @property
    def absence(self) -> str:
        """What it means that `read` returns None, and what to do to have the source."""

    async def read(self) -> Claims | None:
        """Return what is claimed now; None where this host does not have what the source reads. Must not block.

        Raises:
            AttributionError: it cannot be read; the claims of the last look remain in force for a while.
        """

    async def close(self) -> None:
        """Release connections."""
