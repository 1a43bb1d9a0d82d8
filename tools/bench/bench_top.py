"""`pulsed top` in a terminal of 170x66 cells: time to the first frame, CPU and memory, and the cost of the daemon."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemon import environment, serving
from tests.support.waiting import until
from tools.bench.children import Usage
from tools.bench.figure import Bar, Figure

SECONDS = 20.0
WARM_UP_SECONDS = 4.0

STARTS = 5
"""The best of so many: whatever else runs only makes it later."""

WIDTH, HEIGHT = 170, 66

PULSED_TOP = [sys.executable, "-m", "pulsed", "top"]

KEMPNERPULSE = Figure("KempnerPulse 0.5.0's view of 8 GPUs at 1 Hz", 29.0, "% of a core", note="measured once, 36 MB")
"""Where no `kempnerpulse` is on the path (`pip install kempnerpulse`) to measure."""


def run() -> Iterator[Figure]:
    arguments = ("--source=demo", "--set", "publish.passthrough=true")
    with tempfile.TemporaryDirectory() as name, serving(Path(name), *arguments) as daemon:
        url = f"http://{daemon.address}"
        daemon.get("/gpus")  # the first request of the API imports it
        idle = Usage(daemon.process.pid)
        time.sleep(SECONDS)
        alone = idle.cpu_percent()
        starts = [_start(url) for _ in range(STARTS)]
        yield Figure("pulsed top: first frame", min(frame for frame, _ in starts), "s", bar=Bar("value", 0.5))
        yield Figure("pulsed top: first frame with GPUs", min(gpus for _, gpus in starts), "s")
        kempnerpulse = _kempnerpulse(url)
        yield kempnerpulse
        for count, bar in ((1, Bar("value", 3)), (8, None)):
            with Screen(PULSED_TOP + [url] * count) as screen:
                screen.read(WARM_UP_SECONDS)
                usage, server = Usage(screen.process.pid), Usage(daemon.process.pid)
                screen.read(SECONDS)
                what = f"pulsed top: {8 * count} GPUs at 1 Hz"
                yield Figure(what, usage.cpu_percent(), "% of a core", kempnerpulse if count == 1 else None, bar)
                yield Figure(f"{what}: memory", usage.resident_megabytes(), "MB")
                if count == 1:
                    yield Figure(f"{what}: the daemon's part", server.cpu_percent() - alone, "% of a core")


def _kempnerpulse(url: str) -> Figure:
    """Return what the installed KempnerPulse takes to show the same GPUs."""
    program = shutil.which("kempnerpulse")
    if not program:
        return KEMPNERPULSE
    source = ["--backend", "prometheus", "--source", f"{url}/metrics", "--poll", "1", "--show-all"]
    with Screen([program, *source], b"Real util") as screen:
        screen.read(WARM_UP_SECONDS)
        usage = Usage(screen.process.pid)
        screen.read(SECONDS)
        note = f"{usage.resident_megabytes():.0f} MB"
        return Figure("KempnerPulse's view of 8 GPUs at 1 Hz", usage.cpu_percent(), "% of a core", note=note)


def _start(url: str) -> tuple[float, float]:
    """Return the seconds to the first frame, and to the first one with GPUs."""
    with Screen([*PULSED_TOP, url]) as screen:
        return screen.first_frame, screen.first_gpus


class Screen:
    """A program that shows GPUs on a terminal.

    Attributes:
        first_frame: seconds from the start of the process to its first frame.
        first_gpus: the same to the first frame with GPUs.
    """

    def __init__(self, command: list[str], gpus: bytes = b"H100") -> None:
        """Show GPUs by a command; `gpus` is on the screen once there are some."""
        self.first_frame = self.first_gpus = 0.0
        self._command, self._gpus = command, gpus

    def __enter__(self) -> Screen:
        self._terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        begun = time.monotonic()
        variables = environment(TERM="xterm-256color", COLORTERM="truecolor")
        variables.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            self._command, stdin=inner, stdout=inner, stderr=inner, env=variables, start_new_session=True,
        )  # fmt: skip
        os.close(inner)
        seen = b""
        while b"GPU" not in seen or self._gpus not in seen:
            seen += self.read(0.02)
            if b"pulsed" in seen and not self.first_frame:
                self.first_frame = time.monotonic() - begun
        self.first_gpus = time.monotonic() - begun
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        until(lambda: self.read(0.05) is not None and self.process.poll() is not None)
        os.close(self._terminal)

    def read(self, seconds: float) -> bytes:
        """Read what is drawn for so long."""
        deadline, seen = time.monotonic() + seconds, b""
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                try:
                    seen += os.read(self._terminal, 65536)
                except OSError:  # the program has ended
                    break
        return seen
