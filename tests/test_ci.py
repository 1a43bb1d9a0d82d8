"""`.ci/run` runs its parts beside each other, and fails if one of them does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"
PARTS = ("bookworm", "trixie", "-m tests.deploy.install", ".venv/.fuzz", "fuzz", "audit", "test")
"""The first words of a part's command behind its program."""

FIRST = ("-m tests.deploy.install", ".venv/.fuzz")
"""Parts without which the others do not begin."""

STAND_IN = """#!/bin/sh
[ "$*" != "$FAILS" ] || { echo "broken: $*"; exit 3; }
echo "done: $*"
"""


@pytest.mark.parametrize("fails", ["", *PARTS])
def test_it_fails_with_any_of_its_parts(tmp_path: Path, fails: str) -> None:
    """Its programs are stand-ins, also those that it would install."""
    folder, programs = tmp_path / ".ci", tmp_path / "bin"
    for each in (folder, programs):
        each.mkdir()
    shutil.copy(SCRIPT, folder)
    needed = re.findall(r"command -v (\S+)", SCRIPT.read_text())
    for path in (folder / "debian", *(programs / name for name in ("make", "python3", *needed))):
        path.write_text(STAND_IN)
        path.chmod(0o755)
    variables = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "FAILS": fails}
    done = subprocess.run([folder / "run"], capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert (done.returncode != 0) == bool(fails)
    assert (f"broken: {fails}" in done.stdout) == bool(fails)
    if fails not in FIRST:
        assert all(f"done: {part}" in done.stdout for part in PARTS if part != fails), "the others end"
