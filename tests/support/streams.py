"""How busy a working GPU is from tick to tick, as three named streams, for stand-ins and benchmarks.

All values are pure functions of their arguments, so that processes that share nothing show the same stream.
"""

from __future__ import annotations

import math
import zlib
from typing import Literal, get_args

StreamName = Literal["steady", "wave", "random"]
"""`steady`: three quarters, with noise. `wave`: up and down, with noise. `random`: another load at each step."""

STREAMS: tuple[StreamName, ...] = get_args(StreamName)

NOISE = 0.02
"""How much a value differs from the one before at most, as a share of its range."""

WAVE_STEPS = 200
"""Steps of a period of `wave`: 20 s at 10 Hz."""


def noise(key: str, step: int) -> float:
    """Return a number from 0 to 1 that changes with each step."""
    return zlib.crc32(f"{key} {step}".encode()) / 2**32


def load(stream: StreamName, gpu: str, step: int) -> float:
    """Return how busy a GPU is at a step, from 0.2 to 0.95."""
    chance = noise(gpu, step)
    match stream:
        case "steady":
            return 0.75 + NOISE * chance
        case "wave":
            return 0.55 + 0.33 * math.sin(2 * math.pi * step / WAVE_STEPS) + NOISE * chance
        case "random":
            return 0.2 + 0.75 * chance
