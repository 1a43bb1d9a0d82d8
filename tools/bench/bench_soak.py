"""Soak: an hour of 10 Hz, 8 GPUs and 40 fields, through all layers into a history that fills; memory must stay flat."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import psutil

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.api.history import History
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.dmon.parser import DmonParser
from tools.bench.captures import capture
from tools.bench.figure import Bar, Figure

TICKS = 36_000
INTERVAL = 0.1
EVERY = 150
"""Ticks between two scrapes: 15 s."""


def run() -> Iterator[Figure]:
    lines = capture(600).splitlines()
    parser, board = DmonParser(), TargetStore("node", [Target("replay", "soak", INTERVAL, 10 * TICKS)])
    pipeline, telemetry = Pipeline(ComputeSettings(), "node"), Telemetry(board)
    pages = Pages(board, telemetry)
    history, process = History(), psutil.Process()
    resident: list[float] = []
    done, begun = 0, time.process_time()
    while done < TICKS:
        for line in lines:
            found = parser.feed(line)
            if found is None:
                continue
            moment = done * INTERVAL
            raw = RawTick("soak", moment, moment, INTERVAL, found.layout, found.values, found.rejected)
            tick = pipeline.process(raw)
            board.targets[0].accept(tick, moment)
            history.add(tick)
            done += 1
            if done % EVERY == 0:
                pages.page(moment, openmetrics=True, gzip=True)
            if done % (TICKS // 4) == 0:
                gc.collect()
                resident.append(process.memory_info().rss / 2**20)
    spent = (time.process_time() - begun) / TICKS * 1e3
    yield Figure("a tick, scrapes included", spent, "ms", bar=Bar("value", 1.5 / 100 / 10 * 1e3), note="1.5 % at 10 Hz")
    first = Figure("memory after a quarter of an hour", resident[0], "MB")
    yield first
    yield Figure("memory after half an hour", resident[1], "MB", first)
    yield Figure("memory after an hour", resident[-1], "MB", first)
    growth = max(0.0, resident[-1] - resident[0])
    yield Figure("growth from the first quarter to the end", growth, "MB", bar=Bar("value", 1.0))
