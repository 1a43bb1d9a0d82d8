"""The recipe of systemd/README.md under a real systemd: a minimal Debian tree, booted with systemd as PID 1."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.nightly import nightly_after
from tests.system.systemd.boot import ROOT, Row, bookworm, boot

INSIDE = Path(__file__).with_name("inside.py")


SHORT = ("install", "exposure", "reload", "wrong_file", "latches", "killed", "stop", "remove")
"""What `make test-all` does; `make nightly` does every step."""


def booted(folder: Path, wheels: Sequence[Path], locked_wheels: Path, steps: Sequence[str]) -> Sequence[Row]:
    """Return what `inside.py` reports of these steps, a row a step."""
    check = folder / "check"
    shutil.copytree(ROOT / "systemd", check / "systemd")
    for name, file in zip(("dist", "new"), wheels, strict=True):
        (check / name).mkdir()
        shutil.copy(file, check / name)
    shutil.copy(ROOT / "deploy/constraints.txt", check / "dist")
    (check / "wheels").symlink_to(locked_wheels)
    (check / "steps").write_text(" ".join(steps))
    return boot(bookworm(), check, INSIDE, folder)


def all_steps() -> list[str]:
    """The steps of `inside.py`, which cannot be imported: it runs at once."""
    (found,) = re.findall(r"^STEPS = \((.*?)^\)$", INSIDE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", found)


@pytest.mark.slow
@pytest.mark.xdist_group("boot")
@pytest.mark.parametrize("steps", nightly_after(1, [SHORT, all_steps()]), ids=["short", "every step"])
def test_the_recipe_works(
    steps: Sequence[str], tmp_path: Path, wheel: Path, newer_wheel: Path, locked_wheels: Path
) -> None:
    rows = booted(tmp_path, (wheel, newer_wheel), locked_wheels, steps)
    assert [row for row in rows if not row["ok"]] == []
    assert [row["step"] for row in rows] == list(steps)
