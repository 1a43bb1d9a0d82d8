"""Daemon: CPU at 8 GPUs, scraped every 15 s, on streams whose values change with each tick, beside KempnerPulse."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import Daemon, environment, free_port, serving
from tests.support.standin.install import install as install_dcgmi
from tests.support.standin.scenario import Scenario, gpus
from tests.support.standin.signals import Stream
from tests.support.streams import STREAMS
from tools.bench.children import Usage, child
from tools.bench.exporters import url
from tools.bench.figure import Bar, Figure, Skipped
from tools.bench.installed import BUILD, install
from tools.bench.ticks import GPUS

SECONDS, SCRAPE_SECONDS = 60.0, 15.0
WARM_UP_SECONDS = 5.0

AS_PROMETHEUS = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}

KEMPNERPULSE = "kempnerpulse==0.5.0"

AT_1_HZ = Bar("value", 0.5)
AT_10_HZ = Bar("ratio", 1 / 2.2)


def run() -> Iterator[Figure]:
    try:
        kempnerpulse = install(KEMPNERPULSE, BUILD / KEMPNERPULSE)
    except Skipped as reason:
        print(f"  without KempnerPulse: {reason}")
        kempnerpulse = None
    daemons: dict[str, Daemon] = {}
    baselines: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def serve(name: str, *settings: str) -> None:
            flags = [flag for setting in settings for flag in ("--set", setting)]
            daemons[name] = stack.enter_context(serving(folder, *flags))

        for stream in STREAMS:
            (programs := folder / stream).mkdir()
            dcgmi = install_dcgmi(programs, Scenario(gpus=gpus("hopper", GPUS), load=Stream(stream)))
            for rate, interval in (("1 Hz", "1s"), ("10 Hz", "100ms")):
                settings = ("source.kind=dcgmi", f"source.dcgmi.path={dcgmi}", f"source.interval={interval}")
                serve(f"{stream}, dcgmi, {rate}", *settings)
            exporter = free_port()
            stack.enter_context(child("tools.bench.exporters", exporter, 1, stream))
            settings = ("source.kind=exporter", f"source.exporter.targets=[{url(exporter, 0)}]", "source.interval=1s")
            serve(f"{stream}, exporter, 1 Hz", *settings)
            if kempnerpulse is not None:
                baselines[f"{stream}, dcgmi, 10 Hz"] = stack.enter_context(_exporting(kempnerpulse, programs)).pid
        yield from _measured(daemons, baselines)


@contextlib.contextmanager
def _exporting(package: Path, programs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run KempnerPulse's `--export all` at 10 Hz on the `dcgmi` of a folder until the block ends."""
    variables = environment(PYTHONPATH=str(package), PATH=f"{programs}:{os.environ['PATH']}", PYTHONWARNINGS="ignore")
    options = ["--backend", "dcgm", "--poll", "0.1", "--export", "all", "--show-all"]
    program = [sys.executable, str(package / "bin" / "kempnerpulse"), *options]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, env=variables) as process:
        try:
            yield process
        finally:
            process.terminate()


def _measured(daemons: dict[str, Daemon], baselines: dict[str, int]) -> Iterator[Figure]:
    """Run all at the same time: none needs as much as a tenth of a core."""
    time.sleep(WARM_UP_SECONDS)
    theirs = {name: Usage(pid) for name, pid in baselines.items()}
    ours = {name: Usage(daemon.process.pid) for name, daemon in daemons.items()}
    for _ in range(int(SECONDS / SCRAPE_SECONDS)):
        time.sleep(SCRAPE_SECONDS / 2)
        for daemon in daemons.values():
            daemon.get("/metrics", AS_PROMETHEUS)
        time.sleep(SCRAPE_SECONDS / 2)
    spent = {name: usage.cpu_percent() for name, usage in ours.items()}
    figures = {
        name: Figure(f"{name}: KempnerPulse --export all", usage.cpu_percent(), "% of a core")
        for name, usage in theirs.items()
    }
    for name, percent in spent.items():
        if baseline := figures.get(name):
            yield baseline
        bar = AT_10_HZ if baseline else None if name.endswith("10 Hz") else AT_1_HZ
        yield Figure(name, percent, "% of a core", baseline, bar, f"{ours[name].resident_megabytes():.0f} MB")
