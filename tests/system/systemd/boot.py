"""Boots a minimal Debian tree with systemd as PID 1, and runs a script inside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.debian_tree import debian_tree
from tests.support.tools import missing, tool

ROOT = Path(__file__).parents[3]
Row = dict[str, object]

CHECK = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root PYTHONPATH=/check PIP_NO_INDEX=1 PIP_FIND_LINKS=/check/wheels
ExecStart=/usr/bin/python3 /check/inside.py
ExecStopPost=/bin/systemctl poweroff
[Install]
WantedBy=multi-user.target
"""


def run(*words: str | Path, folder: Path = ROOT, seconds: float = 300) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def trixie() -> Path:
    """Return Debian 13."""
    return debian_tree("systemd-trixie", "systemd,dbus,python3", suite="trixie")


def boot(tree: Path, check: Path, inside: Path, folder: Path) -> Sequence[Row]:
    """Boot a copy of a tree and return what the script in it reports, a row a step.

    Args:
        check: the folder that is `/check` in the tree.
        inside: the script, which calls `tests.support.booted.report`.
        folder: for the copy, which is removed, and the log.
    """
    if os.geteuid():
        missing("booting a tree needs root")
    nspawn = tool("systemd-nspawn", "systemd-container")
    root = folder / "tree"
    run("cp", "-a", "--reflink=auto", tree, root)
    shutil.copytree(check, root / "check")
    check = root / "check"
    shutil.copy(inside, check / "inside.py")
    (check / "tests/support").mkdir(parents=True)
    shutil.copy(ROOT / "tests/support/booted.py", check / "tests/support")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    unit = root / "etc/systemd/system/check.service"
    unit.write_text(CHECK)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / unit.name).symlink_to(f"../{unit.name}")
    log = folder / "boot.log"
    with log.open("wb") as output:
        kmsg = (
            ("--bind=/dev/kmsg", "--capability=CAP_SYSLOG", "--property=DeviceAllow=/dev/kmsg r")
            if os.access("/dev/kmsg", os.R_OK)
            else ()
        )
        words = (nspawn, *kmsg, "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "-D", root)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=560, check=False)
    written = check / "report"
    assert written.exists(), f"systemd-nspawn: {done.returncode} {log.read_text(errors='replace')[-3000:]}"
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    shutil.rmtree(root, ignore_errors=True)
    return rows
