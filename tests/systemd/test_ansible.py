"""The Ansible role under a real systemd: it installs a wheel, configures, upgrades and removes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.systemd.ansible_role import follow_the_role
from tests.systemd.boot import ROOT, run


@pytest.mark.long
def test_every_step_of_the_role_works_with_a_wheel(wheel: Path, newer_wheel: Path, tmp_path: Path) -> None:
    check = tmp_path / "check"
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"),
        *("--require-hashes", "--requirement", ROOT / "deploy" / "constraints.txt", "--dest", check / "wheels"),
    )
    follow_the_role(check, wheel, newer_wheel, tmp_path)
