"""The recipe of systemd/README.md under a real systemd: a minimal Debian tree, booted with systemd as PID 1."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.debian_tree import bookworm
from tests.system.systemd.boot import ROOT, Row, boot

INSIDE = Path(__file__).with_name("inside.py")


@pytest.fixture(scope="module")
def report(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, newer_wheel: Path, locked_wheels: Path
) -> Sequence[Row]:
    """What `inside.py` reports, a row a step."""
    folder = tmp_path_factory.mktemp("boot")
    check = folder / "check"
    shutil.copytree(ROOT / "systemd", check / "systemd")
    for name, file in (("dist", wheel), ("new", newer_wheel)):
        (check / name).mkdir()
        shutil.copy(file, check / name)
    shutil.copy(ROOT / "deploy/constraints.txt", check / "dist")
    (check / "wheels").symlink_to(locked_wheels)
    return boot(bookworm(), check, INSIDE, folder)


def steps() -> list[str]:
    """The steps of `inside.py`, which cannot be imported: it runs at once."""
    (found,) = re.findall(r"^STEPS = \((.*?)^\)$", INSIDE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", found)


@pytest.mark.nightly
def test_every_step_of_the_recipe_works(report: Sequence[Row]) -> None:
    assert [row for row in report if not row["ok"]] == []
    assert [row["step"] for row in report] == steps()
