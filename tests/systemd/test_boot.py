"""The recipe of systemd/README.md under a real systemd: a minimal Debian tree, booted with systemd as PID 1."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pulsed import __version__
from support.debian_tree import debian_tree
from support.tools import missing, tool

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).with_name("inside.py")
PACKAGES = "systemd,dbus,python3,python3-venv"
NEW_VERSION = "99.0"

CHECK = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root PIP_NO_INDEX=1 PIP_FIND_LINKS=/check/wheels
ExecStart=/usr/bin/python3 /check/inside.py /check /check/report
ExecStopPost=/bin/systemctl poweroff
[Install]
WantedBy=multi-user.target
"""


def run(*words: str | Path, folder: Path = ROOT, seconds: float = 300) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def wheel(source: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, source)
    (found,) = folder.glob("pulsed-*.whl")
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, object]]:
    """What `inside.py` reports, a row a step."""
    if os.geteuid():
        missing("booting a tree needs root")
    nspawn = tool("systemd-nspawn", "systemd-container")
    folder = tmp_path_factory.mktemp("boot")
    root = folder / "tree"
    run("cp", "-a", "--reflink=auto", debian_tree("systemd-tree", PACKAGES), root)
    check = root / "check"
    shutil.copytree(ROOT / "systemd", check / "systemd")
    shutil.copy(INSIDE, check / "inside.py")
    wheel(ROOT, check / "dist")
    newer = folder / "newer"
    shutil.copytree(ROOT, newer, ignore=shutil.ignore_patterns(".*", "build", "dist", "tests"))
    package = newer / "pulsed" / "__init__.py"
    package.write_text(package.read_text().replace(f'"{__version__}"', f'"{NEW_VERSION}"'))
    wheel(newer, check / "new")
    shutil.copytree(ROOT / "deploy", check / "deploy")
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"),
        *("--require-hashes", "--requirement", ROOT / "deploy" / "constraints.txt", "--dest", check / "wheels"),
    )
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
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=280, check=False)
    written = check / "report"
    assert written.exists(), f"systemd-nspawn: {done.returncode} {log.read_text(errors='replace')[-3000:]}"
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    shutil.rmtree(root, ignore_errors=True)
    return rows


def steps() -> list[str]:
    """The steps of `inside.py`, which cannot be imported: it runs at once."""
    (found,) = re.findall(r"^STEPS = \((.*?)^\)$", INSIDE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", found)


@pytest.mark.long
@pytest.mark.xdist_group("boot")
def test_every_step_of_the_recipe_works(report: Sequence[dict[str, object]]) -> None:
    assert [row for row in report if not row["ok"]] == []
    assert [row["step"] for row in report] == steps()
