"""What sampling costs the work on a GPU: throughput of a known kernel beside `pulsed record` at several intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tools.hardware.kernels import KERNELS
from tools.hardware.runner import play_in_child, recording

INTERVALS = ("", "1s", "100ms")
"""Of sampling; empty: nothing is sampled."""

REPEATS = 3

KERNEL = next(kernel for kernel in KERNELS if kernel.name == "tensor_heavy")


def rounds_per_second(seconds: float, source: str, started: Callable[[str], None]) -> Mapping[str, float]:
    """Return the median throughput of the kernel by interval; all intervals take turns, at like clocks and heat.

    Raises:
        NotPossible: the kernel fails, or the source does not read the GPU.
    """
    found: dict[str, list[float]] = {interval: [] for interval in INTERVALS}
    for _ in range(REPEATS):
        for interval, rates in found.items():
            started(f"{KERNEL.name}, {f'sampled every {interval}' if interval else 'not sampled'}")
            with ExitStack() as stack:
                folder = stack.enter_context(TemporaryDirectory())
                if interval:
                    options = ("--set", f"source.interval={interval}")
                    stack.enter_context(recording(Path(folder, "record.ndjson.gz"), source, options))
                played = play_in_child(KERNEL, seconds)
            rates.append(played.rounds / (played.ended - played.begun))
    return {interval: median(rates) for interval, rates in found.items()}


def price(rates: Mapping[str, float]) -> str:
    """Return how much less the kernel does at each interval than without sampling."""
    return "\n".join(
        f"sampled every {interval}: {100 * (1 - rate / rates['']):+.2f} % of throughput lost"
        for interval, rate in rates.items()
        if interval
    )
