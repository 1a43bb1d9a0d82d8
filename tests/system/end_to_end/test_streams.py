"""pulsed without some of its standard streams, with readers that go, and with output that cannot be written."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, environment, free_port, serving
from tests.support.nightly import nightly_after
from tests.support.waiting import SECONDS

PULSED = (sys.executable, "-m", "pulsed")
CLOSED = {0: "<&-", 1: ">&-", 2: "2>&-"}
COMBINATIONS = [each for length in (1, 2, 3) for each in itertools.combinations(CLOSED, length)]

PRINTING = (
    ("snapshot", "--source=demo"),
    ("record", "-", "--source=demo"),
    ("export", "--source=demo"),
    ("doctor", "--source=demo"),
    ("rules",),
    ("counters",),
    ("check-config", "config.example.yaml"),
    ("top", "--once", "--source=demo"),
    ("--help",),
    ("serve", "--help"),
    ("--version",),
)


def shell(command: tuple[str, ...], redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"exec {shlex.join((*PULSED, *command))} {redirection}"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environment(),
    )


@contextlib.contextmanager
def without(descriptors: tuple[int, ...], folder: Path) -> Iterator[Daemon]:
    """Start a daemon with these descriptors closed."""
    port, log = free_port(), folder / "log"
    command = (*PULSED, "serve", "--source=demo", f"--web.listen-address=127.0.0.1:{port}")
    closed = " ".join(CLOSED[each] for each in descriptors)
    with log.open("w") as file:
        process = subprocess.Popen(
            ["sh", "-c", f"exec {shlex.join(command)} {closed}"], stdout=file, stderr=file, text=True, env=environment()
        )
    with process:
        try:
            yield Daemon(process, port, log)
        finally:
            process.kill()


@pytest.mark.parametrize("closed", nightly_after(2, COMBINATIONS[::-1]), ids=str)
def test_no_socket_gets_the_number_of_a_closed_stream(tmp_path: Path, closed: tuple[int, ...]) -> None:
    with without(closed, tmp_path) as daemon:
        daemon.wait_for("/-/ready")
        for number in closed:
            assert os.readlink(f"/proc/{daemon.process.pid}/fd/{number}") == "/dev/null"
        assert ("msg=serving" in daemon.log()) == (2 not in closed)
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log()


@pytest.mark.parametrize("command", nightly_after(2, PRINTING), ids=" ".join)
@pytest.mark.parametrize("output", nightly_after(2, [">&-", ">/dev/full", "<&- >&-"]))
def test_output_that_cannot_be_written_is_an_error(command: tuple[str, ...], output: str) -> None:
    done = shell(command, output)
    assert done.returncode == 1
    reason = "No space left on device" if output == ">/dev/full" else "it is closed"
    expected = f"pulsed: standard output cannot be written: {reason}"
    if command[0] == "record":
        assert "pulsed: cannot write standard output: " in done.stderr
    else:
        assert done.stderr.splitlines()[-1] == expected
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("command", nightly_after(2, PRINTING), ids=" ".join)
def test_without_any_stream_it_is_an_error_too(command: tuple[str, ...]) -> None:
    assert shell(command, "<&- >&- 2>&-").returncode == 1


@pytest.mark.parametrize("command", nightly_after(2, PRINTING), ids=" ".join)
def test_a_reader_that_has_read_enough_is_none(command: tuple[str, ...]) -> None:
    for redirection in ("| true", "| head -c 1 >/dev/null"):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{shlex.join((*PULSED, *command))} {redirection}"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


def test_the_exit_code_of_health_is_no_state_without_output(tmp_path: Path) -> None:
    with serving(tmp_path, "--source=demo") as daemon:
        health = ("health", daemon.address)
        code = shell(health, ">/dev/null").returncode
        assert code in (0, 1, 2)
        for output in (">&-", ">/dev/full"):
            done = shell(health, output)
            assert (done.returncode, "standard output cannot be written" in done.stderr) == (3, True)
        piped = shlex.join((*PULSED, *health))
        into_true = ["bash", "-o", "pipefail", "-c", f"{piped} | true"]
        assert subprocess.run(into_true, env=environment(), check=False).returncode == code


def test_an_error_counts_more_than_its_output() -> None:
    done = shell(("snapshot", "--source=nonsense"), ">&-")
    assert done.returncode == 2
    assert "standard output" not in done.stderr
    assert shell(("snapshot", "--source=nonsense"), "2>/dev/full").returncode == 2


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    port = free_port()
    command = (*PULSED, "serve", "--source=demo", f"--web.listen-address=127.0.0.1:{port}")
    with (
        open("/dev/full", "w") as full,
        subprocess.Popen(command, stderr=full, text=True, env=environment()) as process,
    ):
        try:
            daemon = Daemon(process, port, tmp_path / "none")
            (tmp_path / "none").touch()
            daemon.wait_for("/-/ready")
            process.send_signal(signal.SIGHUP)
            assert daemon.get("/-/ready").status == 200
            assert daemon.stop() in (0, 120)  # 120: Python's own, as it cannot write what is left of the log
        finally:
            process.kill()
