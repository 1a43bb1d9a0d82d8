"""Readings of a run of the known kernels: a folder with the record of the source and what the kernels did.

Both go through the pipeline again whenever they are evaluated, so that results are those of today's rules.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pulsed.apps.ticks import collect
from pulsed.config.configuration import load
from pulsed.model.computed_tick import Result
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading
from tests.support.ticks import readings_of, results_of
from tools.hardware.cuda import GpuFacts
from tools.hardware.play import Played

READINGS = Path(__file__).with_name("readings")
"""Runs on hardware, a folder each."""

RECORD, RUN = "record.ndjson.gz", "run.json"

SETTLING_SECONDS = 1.0
"""After the first launch: the clocks rise, and dcgmi's samples are up to a second late."""


class Run(NamedTuple):
    """A run.

    Attributes:
        gpu: what was measured.
        driver: version of the kernel driver.
        date: such as `2026-01-31`.
        source: kind of the source.
        played: one per kernel.
        skipped: reasons, by the name of a kernel.
    """

    gpu: GpuFacts
    driver: str
    date: str
    source: str
    played: Sequence[Played]
    skipped: Mapping[str, str]


class Sample(NamedTuple):
    """The GPU of the run in one tick."""

    time: float
    interval: float
    reading: Reading
    result: Result
    driver: str


def kept_runs() -> list[Path]:
    """Return the folders of all runs on hardware."""
    return sorted(path.parent for path in READINGS.glob(f"*/{RUN}"))


def write_run(folder: Path, run: Run) -> None:
    """Write all of a run except its record."""
    document = run._asdict() | {"gpu": run.gpu._asdict(), "played": [played._asdict() for played in run.played]}
    (folder / RUN).write_text(json.dumps(document, indent=1) + "\n")


def read_run(folder: Path) -> Run:
    document = json.loads((folder / RUN).read_text())
    gpu, played = GpuFacts(**document.pop("gpu")), [Played(**each) for each in document.pop("played")]
    return Run(gpu=gpu, played=played, **document)


def samples(record: Path, uuid: str) -> list[Sample]:
    """Play a record through the pipeline with default settings; return what it has of one whole GPU."""
    found = []

    def keep(tick: Tick) -> None:
        for device, reading, result in zip(tick.devices, readings_of(tick), results_of(tick), strict=True):
            if device.whole and device.entity.uuid == uuid:
                found.append(Sample(tick.time, tick.interval, reading, result, device.driver_version))

    flags = ("source.kind=replay", f"source.replay.path={record}", "source.replay.speed=0")
    config = load(None, flags, {})
    asyncio.run(collect(config, config.compute_settings(), lambda target: False, keep, is_logged=False))
    return found


def during(found: Sequence[Sample], played: Played) -> list[Sample]:
    """Return the samples whose interval lies in the time of a kernel."""
    begin = played.begun + SETTLING_SECONDS
    return [sample for sample in found if begin <= sample.time - sample.interval and sample.time <= played.ended]
