"""Runs inside a booted tree, where systemd is PID 1: follows systemd/README.md and writes a report, a line a step.

Has nothing but Python's library.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support.booted import (
    FOLDER,
    documented,
    enable_socket,
    page,
    refuse_wrong_file,
    report,
    run,
    serves,
    shown,
    until,
    value,
    wrong_start,
)

SETTINGS = Path("/etc/pulsed/config.yaml")
STATE = Path("/var/lib/pulsed/state.json")
README = (FOLDER / "systemd/README.md").read_text()


def install() -> str:
    """The recipe of the README, word by word."""
    (recipe,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        ["sh", "-eux", "-c", recipe], capture_output=True, text=True, cwd=FOLDER / "dist", check=False
    )
    assert done.returncode == 0, done.stderr
    until(serves, "the page")
    assert run("systemctl", "is-active", "pulsed") == "active"
    assert run("systemctl", "is-enabled", "pulsed") == "enabled"
    assert (shown("NRestarts"), shown("User")) == ("0", "pulsed")
    return f"{shown('ExecMainPID')}"


def exposure() -> str:
    """The sandbox of the running service is as tight as the README states."""
    report = run("systemd-analyze", "security", "--no-pager", "pulsed")
    level: str
    (level,) = re.findall(r"Overall exposure level for pulsed.service: ([\d.]+)", report)
    (stated,) = re.findall(r"reports ([\d.]+) of 10", README)
    assert float(level) <= float(stated), f"{stated} in the README, {level} in force"
    return level


def reload() -> str:
    """`systemctl reload` applies a changed file in the same process."""
    before = shown("ExecMainPID")
    SETTINGS.write_text(SETTINGS.read_text().replace("kind: auto", "kind: demo"))
    run("systemctl", "reload", "pulsed")
    until(lambda: value("pulsed_gpu_real_utilization_ratio") >= 0, "demo data")
    assert shown("ExecMainPID") == before
    return "same process"


def wrong_file() -> str:
    """A wrong file is refused by a running daemon, and stops a start with an error that names the key."""
    good, before = SETTINGS.read_text(), shown("ExecMainPID")
    refuse_wrong_file(SETTINGS, good)
    assert shown("ExecMainPID") == before
    return wrong_start(SETTINGS, good)


def latches() -> str:
    """Latched health is written, and read again after a restart."""
    until(STATE.exists, "the state file")
    assert STATE.stat().st_mode & 0o007 == 0, oct(STATE.stat().st_mode)
    saved = json.loads(STATE.read_text())
    run("systemctl", "restart", "pulsed")
    until(serves, "the page")
    journal = run("journalctl", "-u", "pulsed", "-n", "50")
    assert "set aside" not in journal
    return ", ".join(sorted(saved))


def jobs() -> str:
    """The files of a prolog belong to root and outlive a restart of pulsed, which reads them."""
    mapping = Path("/run/pulsed/jobs/0::4711")
    mapping.parent.mkdir(parents=True)
    mapping.write_text("job_id=4711\n")
    run("systemctl", "restart", "pulsed")
    until(serves, "the page")
    assert run("runuser", "-u", "pulsed", "--", "cat", str(mapping)) == "job_id=4711"
    assert mapping.parent.parent.stat().st_uid == 0
    return "kept"


def kubelet() -> str:
    """The drop-in of the README opens a socket in a folder of root's; without it the error is in the journal."""
    folder = Path("/var/lib/kubelet/pod-resources")
    folder.mkdir(parents=True, mode=0o750)
    folder.chmod(0o750)
    settings = SETTINGS.read_text()
    targets = FOLDER / "page.prom"
    targets.write_text('DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100"} 70\n')
    SETTINGS.write_text(settings.replace("kind: demo", f"kind: exporter\n  exporter: {{targets: {targets}}}"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "kubelet.sock"))
        listener.listen()
        run("systemctl", "restart", "pulsed")
        until(lambda: "Only root may open it" in run("journalctl", "-u", "pulsed", "-n", "50"), "the refusal")
        listener.setblocking(False)
        run("sh", "-c", documented(README, "read the pods of GPUs"))
        until(lambda: listener.accept(), "the connection of pulsed")
    Path("/etc/systemd/system/pulsed.service.d/kubelet.conf").unlink()
    SETTINGS.write_text(settings)
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "pulsed")
    until(serves, "the page")
    return "connected"


def killed() -> str:
    """systemd starts a killed daemon again."""
    before = shown("ExecMainPID")
    os.kill(int(before), signal.SIGKILL)
    until(lambda: shown("ExecMainPID") not in ("0", before) and serves(), "the restart")
    return f"restarts {shown('NRestarts')}"


def watchdog() -> str:
    """A daemon that stands still is killed by the watchdog and started again."""
    override = Path("/run/systemd/system/pulsed.service.d/watchdog.conf")
    override.parent.mkdir(parents=True)
    override.write_text("[Service]\nWatchdogSec=2\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "pulsed")
    until(serves, "the page")
    before = shown("ExecMainPID")
    os.kill(int(before), 19)
    until(lambda: shown("ExecMainPID") not in ("0", before) and serves(), "the restart")
    assert "atchdog timeout" in run("journalctl", "-u", "pulsed", "-n", "50")
    override.unlink()
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "pulsed")
    return "killed and started again"


def sockets() -> str:
    """With the socket unit no connection is refused while pulsed restarts."""
    return enable_socket(README)


def kernel_log() -> str:
    """The drop-in of the README lets the daemon open /dev/kmsg as its own user, with one capability."""
    run("sh", "-c", documented(README, "read XIDs from the kernel log"))
    until(serves, "the page")
    capabilities = int(re.findall(r"CapEff:\s+(\w+)", Path(f"/proc/{shown('ExecMainPID')}/status").read_text())[0], 16)
    assert (shown("User"), capabilities) == ("pulsed", 1 << 34), hex(capabilities)
    SETTINGS.write_text(SETTINGS.read_text() + "\nhealth: {kernel_log: /dev/kmsg}\n")
    run("systemctl", "reload", "pulsed")
    if not Path("/dev/kmsg").is_char_device():
        until(lambda: value("pulsed_kernel_log_up") == 0, "the missing log")
        return "started with the drop-in; this container has no /dev/kmsg"
    until(lambda: value("pulsed_kernel_log_up") == 1, "the kernel log")
    return "read by the user pulsed"


def upgrade() -> str:
    """A new wheel over the running version, as the table of the README has it."""
    (new,) = (FOLDER / "new").glob("pulsed-*.whl")
    run("/opt/pulsed/bin/pip", "install", "--no-deps", str(new))
    run("systemctl", "restart", "pulsed")
    version = str(new.name).split("-")[1]
    until(lambda: f'version="{version}"' in page(), f"version {version}")
    return version


def stop() -> str:
    """It stops at once and cleanly."""
    run("systemctl", "disable", "--now", "pulsed.socket")
    started = time.monotonic()
    run("systemctl", "stop", "pulsed")
    seconds = time.monotonic() - started
    assert (shown("Result"), shown("ExecMainStatus")) == ("success", "0")
    return f"{seconds:.2f} s"


def remove() -> str:
    """Nothing is left running, enabled or installed."""
    (command,) = re.findall(r"\*\*Remove\*\*: `([^`]+)`", README)
    run("sh", "-c", command)
    assert run("find", "/etc", "/usr", "/opt", "/var/lib", "-name", "*pulsed*") == ""
    assert run("systemctl", "is-active", "pulsed", check=False) == "inactive"
    assert run("systemctl", "list-units", "--failed", "--no-legend", "--plain", "pulsed*") == ""
    return "removed"


STEPS = (
    install,
    exposure,
    reload,
    wrong_file,
    latches,
    jobs,
    kubelet,
    killed,
    watchdog,
    sockets,
    kernel_log,
    upgrade,
    stop,
    remove,
)


report(STEPS)
