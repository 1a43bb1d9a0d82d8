"""A soak: ten hours of 8 GPUs at 10 Hz, played as fast as possible, with owners that come and go, and clients."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from tests.support.daemon import Daemon, serving
from tools.bench.children import Usage
from tools.bench.figure import Bar, Figure

HERTZ_VARIABLE = "SOAK_HERTZ"
"""Variable of the environment: samples a second of the recording, 10 by default; fewer take less CPU."""

HOURS = 10
GPUS = 8
OWNER_SECONDS = 30.0
PHASES = 4
"""Other owners after `OWNER_SECONDS`, in turn; the same pods return."""

FLAT_MEGABYTES = 5.0
"""Growth from the second to the last hour: the minutes of a day take 0.16 MB an hour, the rest is noise."""

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
                assert daemon.get(next(paths)).status == 200
                if _samples(daemon) >= (len(hours) + 1) * 3600 * hertz:
                    hours.append(usage.resident_megabytes())
                time.sleep(PAUSE_SECONDS)
            cpu = usage.cpu_seconds()
    note = "MB by hour: " + ", ".join(f"{each:.0f}" for each in hours)
    yield Figure(
        f"growth, hours 2 to {HOURS} at {hertz:g} Hz",
        hours[-1] - hours[1],
        "MB",
        bar=Bar("value", FLAT_MEGABYTES),
        note=note,
    )
    yield Figure("memory at the end", hours[-1], "MB")
    yield Figure("CPU", cpu, "s")


def _samples(daemon: Daemon) -> float:
    found = re.search(r"^pulsed_source_samples_total\{[^}]*\} (\S+)", daemon.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _page(number: int, hertz: float) -> str:
    phase, noise = int(number / hertz / OWNER_SECONDS), random.Random(number)
    lines = []
    for gpu in range(GPUS):
        labels = (
            f'{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="node",'
            f'namespace="n{gpu % 2}",pod="train-{phase}-{gpu // 2}",container="main"}}'
        )
        busy = noise.random()
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
