"""Daemon: CPU and memory of running daemons, 8 GPUs each, scraped every 15 s."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.daemon import Daemon, free_port, serving
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import NvmlStandin, compiled
from tests.support.nvml_standin.library import usage as usage_of
from tests.support.standin.install import install
from tests.support.standin.scenario import Scenario, gpus
from tools.bench.captures import capture
from tools.bench.children import Usage, child
from tools.bench.exporters import url
from tools.bench.figure import Bar, Figure

SCRAPE_SECONDS = 15.0
SCRAPES = 2
TICKS = 600
"""A minute of 10 Hz: longer than the measurement, so that no value comes twice."""

AS_PROMETHEUS = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}


KEMPNERPULSE = "KempnerPulse --export all, 10 Hz: CPU"
"""Measured where `kempnerpulse` is on the path (`pip install kempnerpulse==0.5.0`)."""

KEMPNERPULSE_FIELDS = "100,101,140,150,155,156,202,203,204,251,252,253,449," + ",".join(map(str, range(1001, 1011)))

NVML_DELAYS = {
    "nvmlDeviceGetUtilizationRates": 3,
    "nvmlDeviceGetMemoryInfo_v2": 12,
    "nvmlDeviceGetFieldValues": 100,
    "nvmlDeviceGetFanSpeed": 137,
    "nvmlDeviceGetComputeRunningProcesses_v3": 2250,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 2250,
    "nvmlGpmSampleGet": 1000,
    "nvmlGpmMetricsGet": 2000,
}
"""Microseconds that the stand-in's calls take: utilization, memory, fan and processes as reported of a driver
(MangoHud#2104), field values and profiling counters assumed, and not known to be those of any hardware."""


class _Case(NamedTuple):
    """A daemon; its CPU is compared with the case `than`, which comes before it, or with prometheus_client."""

    name: str
    arguments: tuple[str, ...]
    cpu: Bar | None = None
    environment: Mapping[str, str] = {}
    report: Path | None = None
    than: str = ""


def run() -> Iterator[Figure]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recording = folder / "capture.txt"
        recording.write_text(capture(TICKS), encoding="utf-8")
        exporters = free_port()
        stack.enter_context(child("tools.bench.exporters", exporters, 1))
        driver = NvmlStandin(
            compiled(folder / "nvml"), folder / "nvml.scenario", [boards.hopper(index) for index in range(8)]
        )
        driver.write(fixed=1, **{f"{function}.delay_us": delay for function, delay in NVML_DELAYS.items()})
        dcgmi = install(folder, Scenario(gpus=gpus("hopper", 8)))
        kempnerpulse = shutil.which("kempnerpulse")
        cases = (
            _Case("demo, 1 s", ("--source", "demo")),
            _Case(
                "dmon capture, 10 Hz",
                (
                    *("--source", "replay", "--set", f"source.replay.path={recording}"),
                    *("--set", "source.replay.loop=true", "--set", "source.interval=0.1"),
                ),
                Bar("value", 1.5),
            ),
            _Case(
                "live dcgmi, 10 Hz",
                (
                    *("--source", "dcgmi", "--set", "source.interval=100ms"),
                    *("--set", f"source.dcgmi.path={dcgmi}"),
                ),
                Bar("ratio", 1 / 1.2) if kempnerpulse else Bar("value", 1.5),
                than=KEMPNERPULSE if kempnerpulse else "",
            ),
            _Case(
                "live dcgmi, 10 Hz, KempnerPulse's fields",
                (
                    *("--source", "dcgmi", "--set", "source.interval=100ms"),
                    *("--set", f"source.dcgmi.path={dcgmi}", "--set", "source.dcgmi.groups=[]"),
                    *("--set", f"source.dcgmi.fields=[{KEMPNERPULSE_FIELDS}]"),
                ),
                Bar("ratio", 1 / 1.2) if kempnerpulse else None,
                than=KEMPNERPULSE if kempnerpulse else "",
            ),
            *(
                _Case(
                    f"nvml, {interval}",
                    ("--source", "nvml", "--set", f"source.interval={interval}"),
                    Bar("ratio", 1 / most),
                    driver.environment(folder / interval),
                    folder / interval,
                    than,
                )
                for interval, most, than in (("1s", 1.8, "demo, 1 s"), ("100ms", 1.6, "live dcgmi, 10 Hz"))
            ),
            _Case(
                "exporter over HTTP, 1 s",
                (
                    *("--source", "exporter", "--set", f"source.exporter.targets=[{url(exporters, 0)}]"),
                    *("--set", "source.interval=1"),
                ),
            ),
        )
        beside = _kempnerpulse(stack, kempnerpulse, folder) if kempnerpulse else None
        yield from _measured(stack, folder, cases, url(exporters, 0), beside)


def _kempnerpulse(stack: contextlib.ExitStack, program: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start an installed KempnerPulse on the stand-in in a folder."""
    process = subprocess.Popen(
        [program, "--backend", "dcgm", "--poll", "0.1", "--export", "all", "--show-all"],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
    )
    stack.callback(process.wait, 10)
    stack.callback(process.terminate)
    return process


def _measured(
    stack: contextlib.ExitStack,
    folder: Path,
    cases: tuple[_Case, ...],
    page: str,
    kempnerpulse: subprocess.Popen[bytes] | None,
) -> Iterator[Figure]:
    """Run all at the same time: none needs as much as a tenth of a core."""
    port = free_port()
    begun = time.monotonic()
    republisher = stack.enter_context(child("tools.bench.client_app", port, page, 1))
    start = Figure("prometheus_client republishes: start", time.monotonic() - begun, "s")
    yield start
    daemons: list[Daemon] = []
    for case in cases:
        begun = time.monotonic()
        daemons.append(stack.enter_context(serving(folder, *case.arguments, ready=True, **case.environment)))
        spent = time.monotonic() - begun
        yield Figure(f"{case.name}: start to ready", spent, "s", start, Bar("value", 1), "to within 0.05 s")
    time.sleep(1)  # the first second is not the usual one
    beside = Usage(kempnerpulse.pid) if kempnerpulse else None
    baseline, usages = Usage(republisher.pid), [Usage(daemon.process.pid) for daemon in daemons]
    for _ in range(SCRAPES):
        time.sleep(SCRAPE_SECONDS / 2)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).close()
        for daemon in daemons:
            daemon.get("/metrics", AS_PROMETHEUS)
        time.sleep(SCRAPE_SECONDS / 2)
    cpu = Figure("prometheus_client republishes every 1 s: CPU", baseline.cpu_percent(), "% of a core")
    memory = Figure("prometheus_client republishes: memory", baseline.resident_megabytes(), "MB")
    yield from (cpu, memory)
    figures = {"": cpu}
    if beside is not None:
        note = f"{beside.resident_megabytes():.0f} MB"
        figures[KEMPNERPULSE] = Figure(KEMPNERPULSE, beside.cpu_percent(), "% of a core", note=note)
        yield figures[KEMPNERPULSE]
    for case, usage in zip(cases, usages, strict=True):
        figures[case.name] = Figure(
            f"{case.name}: CPU", usage.cpu_percent(), "% of a core", figures[case.than], case.cpu
        )
        yield figures[case.name]
        yield Figure(f"{case.name}: memory", usage.resident_megabytes(), "MB", memory, note="history of half a minute")
    for case, daemon in zip(cases, daemons, strict=True):
        if case.report is not None:
            daemon.stop()
            standin = usage_of(case.report)
            percent = 100 * standin.cpu / standin.seconds
            per_second = standin.calls / standin.seconds
            note = f"part of the figure above; {per_second:.0f} calls a second"
            yield Figure(f"{case.name}: CPU of the delays in the stand-in", percent, "% of a core", note=note)
