"""The source `demo`: one simulated node whose eight GPUs do recognisable things. Here are its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pulsed.config.settings import setting
from pulsed.config.values import WholeNumber
from pulsed.reader.source import SourceSection


@dataclass(frozen=True, slots=True)
class DemoSettings(SourceSection):
    """For the kind `demo`."""

    does: ClassVar[str] = "simulates eight GPUs"
    is_synthetic: ClassVar[bool] = True

    seed: WholeNumber = setting(0, "Seed of the simulation.")
    interval: float = field(default=1.0, kw_only=True)
