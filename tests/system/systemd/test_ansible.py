"""The Ansible role under a real systemd: it installs a wheel, configures, upgrades and removes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.system.systemd.ansible_role import follow_the_role
from tests.system.systemd.boot import ROOT

ROLE = ROOT / "deploy/ansible/roles/pulsed"


def test_conditions_convert_what_a_command_line_gives_as_text() -> None:
    """`-e pulsed_purge=true` is the text `true`, which ansible-core 2.19 refuses as a condition."""
    defaults = yaml.safe_load((ROLE / "defaults/main.yaml").read_text())
    typed = {name: type(value) for name, value in defaults.items() if isinstance(value, bool | int)}
    assert typed == {"pulsed_purge": bool, "pulsed_ready_seconds": int}
    for path in (*ROLE.glob("tasks/*.yaml"), *ROLE.glob("vars/*.yaml"), *ROLE.glob("templates/*")):
        for line in path.read_text().splitlines():
            for name, type_ in typed.items():
                expressions = re.findall(rf"\b{name}\b(?P<rest>.{{0,8}})", line)
                assert all(rest.startswith(f" | {type_.__name__}") for rest in expressions if "retries" not in line), (
                    line
                )


@pytest.mark.nightly
def test_every_step_of_the_role_works_with_a_wheel(
    wheel: Path, newer_wheel: Path, locked_wheels: Path, tmp_path: Path
) -> None:
    (check := tmp_path / "check").mkdir()
    (check / "wheels").symlink_to(locked_wheels)
    follow_the_role(check, wheel, newer_wheel, tmp_path)
