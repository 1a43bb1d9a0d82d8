"""A soak: three days of two GPUs at 10 Hz, played as fast as possible, with owners that come and go, and clients.

Memory must stay flat, and the counters must be those of an exact sum over all samples.
"""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, cycle
from pathlib import Path

from tests.support.daemon import Daemon, serving
from tools.bench.children import Usage
from tools.bench.figure import Bar, Figure

HERTZ_VARIABLE = "SOAK_HERTZ"
"""Variable of the environment: samples a second of the recording, 10 by default; fewer take less CPU."""

HOURS = 72
GPUS = 2
OWNER_SECONDS = 30.0
PHASES = 4
"""Other owners after `OWNER_SECONDS`, in turn; the same pods return."""

FLAT_MEGABYTES = 2.0
"""Growth in the third day. Before, what is kept fills up: the minutes of a day, owners for a day after their end."""

MAX_DRIFT = 1e-8
"""Relative to the exact sum: timestamps are floats of seconds since 1970, which are off by 1e-7 s each."""

DOCUMENTS = ("/metrics", "/gpus", "/jobs?limit=100", "/history?points=60", "/events/recent?limit=500", "/health/gpus")
PAUSE_SECONDS = 0.5


def run() -> Iterator[Figure]:
    hertz = float(os.environ.get(HERTZ_VARIABLE, "10"))
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        pages.mkdir()
        count = int(PHASES * OWNER_SECONDS * hertz)
        for number in range(count):
            (pages / f"{number:06}.prom").write_text(_page(number, hertz))
        source = {"kind": "replay", "interval": 1 / hertz, "replay": {"path": str(pages), "speed": 0, "loop": True}}
        state = f"state_dir={Path(folder) / 'state'}"
        with serving(Path(folder), "--set", f"source={json.dumps(source)}", "--set", state, ready=False) as daemon:
            usage, hours = Usage(daemon.process.pid), list[float]()
            paths = cycle(DOCUMENTS)
            while len(hours) < HOURS:
                answer = daemon.get(next(paths))
                assert answer.status == 200, answer.text
                if _samples(daemon) >= (len(hours) + 1) * 3600 * hertz:
                    hours.append(usage.resident_megabytes())
                time.sleep(PAUSE_SECONDS)
            cpu = usage.cpu_seconds()
            drift = max(_drift(daemon.get("/metrics").text, count, hertz))
    note = "MB by hour: " + ", ".join(f"{each:.0f}" for each in hours)
    yield Figure(f"growth, hours 2 to {HOURS} at {hertz:g} Hz", hours[-1] - hours[1], "MB", note=note)
    before = HOURS - 24
    yield Figure(
        f"growth, hours {before} to {HOURS}", hours[-1] - hours[before - 1], "MB", bar=Bar("value", FLAT_MEGABYTES)
    )
    yield Figure("memory at the end", hours[-1], "MB")
    yield Figure("drift of counters from an exact sum", drift, "", bar=Bar("value", MAX_DRIFT))
    yield Figure("CPU", cpu, "s")


def _drift(page: str, count: int, hertz: float) -> Iterator[float]:
    """Yield the relative error of the integral of SM activity of each GPU, for the samples that this page has."""
    for gpu in range(GPUS):
        labels = rf'\{{[^}}]*gpu="{gpu}"[^}}]*\}} (\S+)'
        observed, active = (
            float(re.search(rf"^pulsed_gpu_{name}_seconds_total{labels}", page, re.MULTILINE)[1])  # type: ignore[index]
            for name in ("observed", "sm_active")
        )
        sums = [Fraction(0), *accumulate(Fraction(f"{0.9 * _activity(at)[gpu]:.6f}") for at in range(count))]
        passes, rest = divmod(round(observed * hertz) + 1, count)  # the first sample covers nothing
        exact = (passes * sums[-1] + sums[rest] - sums[1]) / Fraction(hertz)
        yield float(abs(Fraction(active) / exact - 1))


def _samples(daemon: Daemon) -> float:
    found = re.search(r"^pulsed_source_samples_total\{[^}]*\} (\S+)", daemon.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _activity(number: int) -> Sequence[float]:
    """Return how busy each GPU is on this page."""
    noise = random.Random(number)
    return [noise.random() for _ in range(GPUS)]


def _page(number: int, hertz: float) -> str:
    phase = int(number / hertz / OWNER_SECONDS)
    lines = []
    for gpu, busy in enumerate(_activity(number)):
        labels = (
            f'{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="node",'
            f'namespace="n{gpu % 2}",pod="train-{phase}-{gpu // 2}",container="main"}}'
        )
        values = {
            "DEV_GPU_UTIL": int(100 * busy),
            "DEV_POWER_USAGE": 100 + 500 * busy,
            "DEV_TOTAL_ENERGY_CONSUMPTION": 10**9 + int(number / hertz * 300_000),
            "DEV_FB_USED": 1000 + int(70_000 * busy),
            "DEV_FB_FREE": 80_000 - int(70_000 * busy),
            "DEV_GPU_TEMP": 40 + int(30 * busy),
            "PROF_GR_ENGINE_ACTIVE": busy,
            "PROF_SM_ACTIVE": 0.9 * busy,
            "PROF_SM_OCCUPANCY": 0.4 * busy,
            "PROF_PIPE_TENSOR_ACTIVE": 0.5 * busy,
            "PROF_DRAM_ACTIVE": 0.6 * busy,
        }
        for name, value in values.items():
            text = f"{value:.6f}" if isinstance(value, float) else str(value)
            lines.append(f"DCGM_FI_{name}{labels} {text}\n")
    return "".join(sorted(lines))
