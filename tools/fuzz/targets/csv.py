"""CSV that replay reads: through Translate and Compute, exported, and read again."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import BadCapture
from pulsed.model.raw_tick import Labels, RawTick
from pulsed.model.tick import Tick
from pulsed.present.csv import pulsed_csv
from pulsed.reader.replay.exported_csv import csv_ticks, interval_of
from tools.bench.ticks import computed_ticks
from tools.fuzz.target import FuzzTarget

_PATH = Path("export.csv")
_IDENTITY = "time,node,gpu,uuid,mig_id,mig_profile,model"


def _read(data: bytes) -> list[RawTick]:
    interval_of(_opened(data), _PATH)
    return [tick for tick in csv_ticks(_opened(data), _PATH, 1.0) if tick is not None]


def _opened(data: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")


def _verify(data: bytes, outcome: Any) -> None:
    if isinstance(outcome, BadCapture):
        assert outcome.remedy
        return
    clocks: dict[Labels, float] = {}
    for tick in outcome:
        for labels in {series.labels for series in tick.layout.series}:
            assert tick.clock > clocks.get(labels, -inf), "the clock of a GPU does not grow"
            clocks[labels] = tick.clock
    assert all(len(tick.values) == len(tick.layout.series) for tick in outcome)
    times = [round(tick.time * 1000) for tick in outcome]
    if any(before >= after for before, after in pairwise(times)):
        return  # exports that were appended to one another; an export has their times, and no mark between them
    first = _exported(_read(_exported(outcome)))  # without implausible values, which health has seen
    second = _exported(_read(first))
    assert second == first, f"{second!r}, exported again, instead of {first!r}"


def _exported(ticks: Sequence[RawTick]) -> bytes:
    pipeline = Pipeline(GpuTable(), "node")
    return _written("all", map(pipeline.process, ticks))


def _written(columns: str, ticks: Iterator[Tick]) -> bytes:
    out = io.StringIO(newline="")
    names = pulsed_csv.columns(columns)
    pulsed_csv.write_header(out, names)
    for tick in ticks:
        pulsed_csv.write_tick(out, names, tick)
    return out.getvalue().encode()


def _seeds() -> Iterator[bytes]:
    yield _written("default", iter(computed_ticks(2, 3)))
    yield _written(f"{_IDENTITY},power_watts,health_state,workload_class", iter(computed_ticks(1, 2)))
    row = b"2026-01-01T00:00:00.000Z,0,70.5\n"
    yield b"\xef\xbb\xbftime,gpu,power_watts\r\n" + row + b'2026-01-01T01:00:01+01:00,"0",71\n'
    yield b'time,gpu,model\n2026-01-01T00:00:00Z,0,"a ""b"", c\nd"\n2026-01-01T00:00:01Z,0,\n'
    yield b"time,uuid,power_watts\n" + row + b"time,uuid,power_watts\n" + row + b"2026-01-01T00:00:09.1Z,0,1e3"
    yield b"timestamp,gpu_id,gpu_util_pct\n1767225600.00,0,1\n"


CSV = FuzzTarget(
    "csv",
    _read,
    (BadCapture,),
    _verify,
    _seeds,
    (
        *(b"time,gpu,", b"uuid", b"node", b"mig_id", b"mig_profile", b"model", b"power_watts", b"sm_active_ratio"),
        *(b"2026-01-01T00:00:00.000Z", b"0001-01-01T00:00Z", b"9999-12-31T23:59:59.999999Z", b"+23:59", b"-00:00"),
        *(b'"', b'""', b"\r\n", b"1e308", b"-0.0", b"nan", b"gpu_utilization_ratio", b"memory_used_bytes", b"1_0"),
    ),
)
