"""What a daemon takes while it is attacked: its peak of memory, and how long probes and scrapes wait."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt
import psutil

from tests.support.attacks.http_clients import SOURCE_VARIABLE, TLS_VARIABLE
from tests.support.certificates import make
from tests.support.daemon import Daemon, environment, serving

PROBES = ("/-/healthy", "/metrics")
PAUSE_SECONDS = 0.05


@dataclass
class Seen:
    """What was seen during an attack.

    Attributes:
        peak_megabytes: largest resident memory of the daemon since its start, in units of 2^20 bytes.
        slowest: the longest time to an answer, of new connections, by path.
        longest_work: the most CPU time, in seconds, that the daemon took from a request to its answer.
        failed: what went wrong instead of an answer 200.
        probes: number of requests.
    """

    peak_megabytes: float = 0.0
    slowest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    longest_work: float = 0.0
    failed: list[str] = field(default_factory=list)
    probes: int = 0


def peak_megabytes(pid: int) -> float:
    """The largest resident memory of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


def forget_peak(pid: int) -> None:
    """Let the peak of a process begin anew (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds(daemon: Daemon) -> float:
    """The CPU time that the daemon has taken so far; unlike time it does not depend on what else runs here."""
    times = psutil.Process(daemon.process.pid).cpu_times()
    return float(times.user + times.system)


def attacked(
    daemon: Daemon,
    name: str,
    seconds: float,
    login: tuple[str, str] | None = None,
    probes: Sequence[str] = PROBES,
) -> Seen:
    """Run an attack for some seconds and probe the daemon all the while, with a login where it needs one.

    The attackers have another address than the probes: of one with more than 32 connections, those that wait longest
    are closed, also a probe that a busy machine answers late.
    """
    seen = Seen()
    tls = {TLS_VARIABLE: str(daemon.authority)} if daemon.authority else {}
    headers = {} if login is None else {"Authorization": f"Basic {b64encode(':'.join(login).encode()).decode()}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.attacks.http_clients", name, str(daemon.port), str(seconds)],
        env=environment(**tls, **{SOURCE_VARIABLE: "127.0.0.2"}, PYTHONWARNINGS="ignore"),
    )
    try:
        while process.poll() is None:
            for path in probes:
                begun, work = time.perf_counter(), cpu_seconds(daemon)
                try:
                    status = daemon.get(path, headers).status
                except OSError as error:
                    seen.failed.append(f"{path}: {error!r}")
                else:
                    if status != 200:
                        seen.failed.append(f"{path}: {status}")
                seen.slowest[path] = max(seen.slowest[path], time.perf_counter() - begun)
                seen.longest_work = max(seen.longest_work, cpu_seconds(daemon) - work)
                seen.probes += 1
            time.sleep(PAUSE_SECONDS)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
    seen.peak_megabytes = peak_megabytes(daemon.process.pid)
    return seen


LOGIN = ("prometheus", "right")


@contextlib.contextmanager
def serving_with_tls(folder: Path, *arguments: str, within: Sequence[str] = ()) -> Iterator[Daemon]:
    """A daemon with TLS and a user, whose login is `LOGIN`; probes need none."""
    make("localhost").write(folder, "server")
    hashed = bcrypt.hashpw(LOGIN[1].encode(), bcrypt.gensalt(10)).decode()
    web = folder / "web.yml"
    tls = "tls_server_config: {cert_file: server.crt, key_file: server.key}"
    web.write_text(f"{tls}\nbasic_auth_users: {{{LOGIN[0]}: {hashed}}}\n")
    flags = ("--web.config.file", str(web), "--set", "web.open_probes=true")
    with serving(folder, *flags, *arguments, within=within, authority=folder / "server.crt") as daemon:
        yield daemon
