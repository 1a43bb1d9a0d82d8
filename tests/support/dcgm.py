"""NVIDIA's programs without a GPU: nv-hostengine, dcgmi and dcgm-exporter on NVIDIA's mock of the driver's library.

`python -m tests.support.dcgm PROFILE` runs them, and pulsed on them, until Ctrl-C; see docs/architecture.md. The
archive's folder is the variable TEST_DCGM, or `shared/dcgm/real` beside the checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pulsed.die_with_parent import dying_with_parent
from tests.support.daemon import free_port
from tests.support.tools import missing
from tests.support.waiting import SECONDS, until

_FOLDERS = [Path(__file__).resolve().parents[depth] / "shared/dcgm/real" for depth in (3, 4)]
_ARCHIVES = "dcgm-*.tar.xz"

BOARDS = ("t4", "a100", "l40s", "h100", "b200", "gb200", "gb300")
"""The profiles of the mock."""

COUNTERS = "pulsed-counters.csv"

NO_CHANGES: Mapping[str, object] = {}


def real_folder() -> Path:
    """Return the folder with the archive and the recorded outputs; the test is skipped without it, in CI it fails."""
    places = [Path(place)] if (place := os.environ.get("TEST_DCGM")) else _FOLDERS
    return next((folder for folder in places if list(folder.glob(_ARCHIVES))), None) or missing(
        f"{' and '.join(map(str, places))} have no {_ARCHIVES}: set TEST_DCGM to the folder with DCGM's programs"
    )


def programs() -> Path:
    """Return the folder with the programs, unpacked once for each user of this machine."""
    archive = max(real_folder().glob(_ARCHIVES))
    name = f"{archive.name.removesuffix('.tar.xz')}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulsed"
    unpacked = cache / f"{name}-{archive.stat().st_size}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".dcgm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            fresh = Path(tempfile.mkdtemp(dir=cache))
            subprocess.run(["tar", "--extract", "--xz", "--file", archive, "--directory", fresh], check=True)
            (fresh / name).rename(unpacked)
            fresh.rmdir()
    return unpacked


class RealDcgm:
    """The programs on one profile of the mock, with a state of their own.

    Args:
        folder: for the state; empty.
        profile: one of `BOARDS`.
        gpus: how many of the profile's GPUs there are; None for all.
        changes: of the profile, by dotted path.

    Attributes:
        dcgmi: path of a `dcgmi` that finds its libraries.
        board: the profile, as the mock reads it.
        host: address of the engine, as dcgmi takes it.
        page: address of the exporter's page.
    """

    def __init__(self, folder: Path, profile: str, gpus: int | None, changes: Mapping[str, object]) -> None:
        self._programs, self._folder = programs(), folder
        configuration = yaml.safe_load((self._programs / "configs" / f"mock-nvml-config-{profile}.yaml").read_text())
        configuration["devices"] = configuration["devices"][:gpus]
        for path, value in changes.items():
            *parents, last = path.split(".")
            section = configuration
            for name in parents:
                section = section[int(name) if isinstance(section, list) else name]
            section[last] = value
        self.board: dict[str, Any] = configuration
        self._configuration, self._overrides = folder / "config.yaml", folder / "overrides.yaml"
        self.write_board()
        self._port, self._exporter_port = free_port(), free_port()
        self.host, self.page = f"127.0.0.1:{self._port}", f"http://127.0.0.1:{self._exporter_port}/metrics"
        self.dcgmi = folder / "dcgmi"
        self.dcgmi.write_text(
            f"#!/bin/sh\nexport LD_LIBRARY_PATH={shlex.quote(self.environment()['LD_LIBRARY_PATH'])}\n"
            f'exec {shlex.quote(str(self._programs / "dcgmi"))} "$@"\n'
        )
        self.dcgmi.chmod(0o755)
        self.engine: subprocess.Popen[bytes] | None = None
        self.exporter: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """Return the variables with which a process loads the mock as its driver."""
        return {
            "MOCK_NVML_CONFIG": str(self._configuration),
            "MOCK_NVML_OVERRIDES": str(self._overrides),
            "MOCK_NVML_OVERRIDES_TTL": "100ms",
            "LD_LIBRARY_PATH": f"{self._programs / 'nvml'}:{self._programs}",
        }

    def write_board(self) -> None:
        """Give the mock the profile; what runs keeps the one before."""
        self._configuration.write_text(json.dumps(self.board))  # in YAML the mock takes texts of digits for numbers

    def gpu(self, index: int, path: str) -> Any:
        """Return a value of the profile: that of the GPU, otherwise the default of all."""
        for section in (self.board["devices"][index], self.board["device_defaults"], self.board):
            value: Any = section
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                return value
        raise KeyError(path)

    def control(self, *words: str) -> None:
        """Change the mock with `nvml-mock-ctl`."""
        self._run("nvml-mock-ctl", *words).check_returncode()

    def split(self, gpu: int, count: int) -> None:
        """Add MIG instances to a GPU of the engine."""
        words = [str(self._programs / "libdcgm.so.4"), self.host, str(gpu), str(count)]
        command = [sys.executable, "-m", "tests.support.fake_mig", *words]
        subprocess.run(command, check=True, env=os.environ | self.environment(), timeout=SECONDS)
        self.control("set", "--gpu", str(gpu), "mig.mode_current=enabled")

    def run_dcgmi(self, subcommand: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run `dcgmi` on the engine to its end."""
        return self._run("dcgmi", subcommand, "--host", self.host, *options)

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs / program), *words]
        variables = os.environ | self.environment()
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=variables)

    def start_engine(self, *options: str) -> None:
        """Start the host engine, and wait until it accepts connections."""
        words = ("-n", "-b", "127.0.0.1", "-p", str(self._port), "--pid", str(self._folder / "engine.lock"))
        log = ("--log-level", "ERROR", "-f", str(self._folder / "engine.log"))
        engine = self.engine = self._start("nv-hostengine", *words, *log, *options)

        def accepts() -> bool:
            assert engine.poll() is None, (self._folder / "nv-hostengine.out").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1.0):
                return True
            return False

        until(accepts)

    def counters(self, name: str = COUNTERS) -> Path:
        """Return a file of counters that is in the archive."""
        return self._programs / name

    def start_exporter(self, counters: Path | None = None) -> None:
        """Start the exporter on the engine, and wait until its page has a GPU."""
        counters = counters or self.counters()
        where = ("-r", self.host, "-a", f"127.0.0.1:{self._exporter_port}")
        self.exporter = self._start("dcgm-exporter", *where, "-f", str(counters), "-c", "1000")
        until(lambda: b"DCGM_FI_DEV" in self.exporter_page())

    def exporter_page(self) -> bytes:
        """Return the exporter's page; empty if it does not answer."""
        with contextlib.suppress(OSError), urllib.request.urlopen(self.page, timeout=5.0) as answer:
            return bytes(answer.read())
        return b""

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{program}.out").open("wb") as output:
            return subprocess.Popen(
                dying_with_parent([str(self._programs / program), *words]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | self.environment(),
                start_new_session=True,
            )

    def stop_engine(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the engine."""
        _end(self.engine, number)

    def stop_exporter(self) -> None:
        """End the exporter."""
        _end(self.exporter, signal.SIGTERM)

    def stop(self) -> None:
        """End everything that runs."""
        self.stop_exporter()
        self.stop_engine()

    def serves(self, source: str) -> tuple[str, ...]:
        """Return the options of pulsed for one of the three sources: `dcgmi`, `exporter`, or `nvml`."""
        options = {
            "dcgmi": (f"source.dcgmi.path={self.dcgmi}", f"source.dcgmi.host={self.host}"),
            "exporter": (f"source.exporter.targets=[{self.page}]", "source.interval=1s"),
            "nvml": (),
        }[source]
        return ("--source", source, *(word for option in options for word in ("--set", option)))

    def variables(self, source: str) -> dict[str, str]:
        """Return the variables of pulsed for a source."""
        return self.environment() if source == "nvml" else {}


def _end(process: subprocess.Popen[bytes] | None, number: signal.Signals) -> None:
    if process is None or process.poll() is not None:
        return
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(SECONDS)


@contextlib.contextmanager
def running(
    profile: str, gpus: int | None = 2, changes: Mapping[str, object] = NO_CHANGES, *, exporter: bool = False
) -> Iterator[RealDcgm]:
    """Run the programs on a profile; they end afterwards."""
    with tempfile.TemporaryDirectory(prefix="dcgm-") as folder:
        dcgm = RealDcgm(Path(folder), profile, gpus, changes)
        try:
            dcgm.start_engine()
            if exporter:
                dcgm.start_exporter()
            yield dcgm
        finally:
            dcgm.stop()


def main() -> None:
    """Run pulsed on a profile for a developer."""
    parser = argparse.ArgumentParser(prog="make dcgm PROFILE=...", description=main.__doc__)
    parser.add_argument("profile", choices=BOARDS)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--source", choices=("dcgmi", "exporter", "nvml"), default="dcgmi")
    parser.add_argument("arguments", nargs="*", help="further options of `pulsed serve`")
    options = parser.parse_args()
    with running(options.profile, options.gpus, exporter=True) as dcgm:
        shell = Path(tempfile.gettempdir()) / "pulsed-dcgm.env"
        variables = dcgm.environment() | {"PATH": f"{dcgm.dcgmi.parent}:{programs()}:{os.environ['PATH']}"}
        shell.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))
        print(f"host engine    {dcgm.host}\ndcgm-exporter  {dcgm.page}\nin another shell: . {shell}")
        print("  nvml-mock-ctl temp --gpu 1 91; nvml-mock-ctl --help; nvml-mock-ctl reset --gpu all")
        print(f"  dcgmi dmon --host {dcgm.host} -e 150,155; pulsed top", flush=True)
        command = [sys.executable, "-m", "pulsed", "serve", *dcgm.serves(options.source), *options.arguments]
        process = subprocess.Popen(command, env=os.environ | dcgm.variables(options.source))
        with contextlib.suppress(KeyboardInterrupt):
            process.wait()
        process.send_signal(signal.SIGTERM)
        process.wait()
        shell.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
