"""The source `replay`: recordings and their playback. Here are its settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pulsed.config.settings import ListKind, Problem, setting
from pulsed.config.values import Factor, FileName, Moment, Switch, not_empty
from pulsed.reader.source import SourceSection

DEFAULT_START = 1767225600.0
"""The time of the first tick unless another is given: 2026-01-01T00:00:00Z."""


Columns = Annotated[
    tuple[str, ...],
    ListKind("column", "names of columns, such as [GPUTL, POWER]", not_empty, "text", single=False, words=True),
]


@dataclass(frozen=True, slots=True)
class ReplaySettings(SourceSection):
    """A recording, and how it is played.

    Attributes:
        interval: seconds between two ticks, not of a record; by default the usual one of its kind.
        max_gpus: most entities of a tick, except of a record.
    """

    does: ClassVar[str] = "plays a recording"
    min_interval: ClassVar[float] = 0.01
    is_synthetic: ClassVar[bool] = True

    path: FileName | os.PathLike[str] | None = setting(
        None,
        "Required for `replay`: a record of `pulsed record`, a capture of `dcgmi dmon`, a saved page, or a folder "
        "of pages in order.",
        example="/var/lib/pulsed/capture.txt",
    )
    columns: Columns = setting((), "Short names of the columns of a capture without a header.")
    speed: Factor = setting(1.0, "Playback speed; 0: as fast as possible. Timestamps stay the same.")
    loop: Switch = setting(False, "Repeat at the end.")
    start: Moment | None = setting(
        None,
        "Time of the first sample, except for records. Unset: 2026-01-01T00:00:00Z.",
        example="2026-01-01T00:00:00Z",
    )
    interval: float | None = field(default=None, kw_only=True)

    def lacks(self) -> str:
        """Return that a recording is not set."""
        return "a recording; set source.replay.path" if self.path is None else ""

    def unusable(self) -> Iterator[Problem]:
        """Yield a recording that is not there."""
        if self.path is not None and not os.path.exists(self.path):
            yield "path", f"{os.fspath(self.path)} does not exist; name a recording, a saved page, or a folder of pages"

    @property
    def begin(self) -> float:
        """Unix seconds of the first tick, except of a record."""
        return DEFAULT_START if self.start is None else self.start
