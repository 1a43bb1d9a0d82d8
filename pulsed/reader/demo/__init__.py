"""The source `demo`: simulated GPUs that do recognisable things. Here are its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pulsed.config.settings import setting
from pulsed.config.values import WholeNumber
from pulsed.reader.source import SourceSection


@dataclass(frozen=True, slots=True)
class DemoSettings(SourceSection):
    """For the kind `demo`."""

    does: ClassVar[str] = "simulates GPUs"
    is_synthetic: ClassVar[bool] = True

    scene: Literal["node", "cluster"] = setting(
        "node",
        "Simulated hardware: `node`, eight GPUs, or `cluster`, eight nodes with eight GPUs each; one node stops "
        "answering.",
    )
    seed: WholeNumber = setting(0, "Seed of the simulation.")
    interval: float = field(default=1.0, kw_only=True)
