"""The Ansible role under a real systemd: it installs a wheel, configures, upgrades and removes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.systemd.ansible_role import follow_the_role


@pytest.mark.nightly
def test_every_step_of_the_role_works_with_a_wheel(
    wheel: Path, newer_wheel: Path, locked_wheels: Path, tmp_path: Path
) -> None:
    (check := tmp_path / "check").mkdir()
    (check / "wheels").symlink_to(locked_wheels)
    follow_the_role(check, wheel, newer_wheel, tmp_path)
