"""The Ansible role under a real systemd: it installs, configures, upgrades and removes."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.deploy.tools import fetched
from tests.systemd.boot import ROOT, bookworm, boot, run

INSIDE = Path(__file__).with_name("inside_ansible.py")


def steps() -> list[str]:
    (found,) = re.findall(r"^STEPS = \((.*?)^\)$", INSIDE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", found)


@pytest.mark.long
def test_every_step_of_the_role_works(wheel: Path, newer_wheel: Path, tmp_path: Path) -> None:
    check = tmp_path / "check"
    for name in ("systemd", "deploy"):
        shutil.copytree(ROOT / name, check / name)
    for name, file in (("dist", wheel), ("new", newer_wheel)):
        (check / name).mkdir()
        shutil.copy(file, check / name)
    (check / "ansible").symlink_to(fetched("ansible"))
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"),
        *("--require-hashes", "--requirement", ROOT / "deploy" / "constraints.txt", "--dest", check / "wheels"),
    )
    rows = boot(bookworm(), check, INSIDE, tmp_path)
    assert [row for row in rows if not row["ok"]] == []
    assert [row["step"] for row in rows] == steps()
