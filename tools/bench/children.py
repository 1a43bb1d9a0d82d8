"""Processes that a benchmark needs beside itself, and how much they take."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from tests.support.daemon import environment


@contextlib.contextmanager
def child(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a module of this package until the block ends; returns once it has printed a first line: it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"{module} ended with exit code {process.wait(10)}")
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()  # type: ignore[union-attr] # it is a pipe


class Usage:
    """What a process takes from now on.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._begun, self._cpu = time.monotonic(), self._total()

    def cpu_percent(self) -> float:
        """CPU since the beginning, percent of one core."""
        return 100 * self.cpu_seconds() / (time.monotonic() - self._begun)

    def cpu_seconds(self) -> float:
        """CPU since the beginning, threads that have ended included."""
        return self._total() - self._cpu

    def resident_megabytes(self) -> float:
        """Resident memory now, in units of 10^6 bytes."""
        return float(self._process.memory_info().rss) / 1e6

    def _total(self) -> float:
        # Its CPU clock (clock_getcpuclockid(3)). /proc/PID/stat has steps of 10 ms: 0.03 % of a core in half a minute.
        return time.clock_gettime(~self._process.pid << 3 | 2)
