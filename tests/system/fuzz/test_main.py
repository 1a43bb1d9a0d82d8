"""The fuzzer finds a bug that was put into a copy of the sources."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import environment
from tests.support.tools import missing

ROOT = Path(__file__).parents[3]


def fuzz(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(folder)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources."""
    if importlib.util.find_spec("atheris") is None:
        missing("atheris is not installed: make fuzz installs it")
    for name in ("pulsed", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.nightly
def test_a_bug_is_found_and_its_input_kept(copy: Path) -> None:
    module = copy / "pulsed" / "collector" / "pool.py"
    text = module.read_text()
    broken = text.replace("raise ValueError(f", "raise KeyError('planted', f")
    assert broken != text
    module.write_text(broken)
    done = fuzz(copy, "--seconds=300", "saved_health")
    assert done.returncode == 1, done.stderr
    assert "KeyError: ('planted'" in done.stdout
    (finding,) = (copy / "build" / "fuzz" / "findings").iterdir()
    assert f"FINDING: build/fuzz/findings/{finding.name}; mend" in done.stdout
    module.write_text(text)
    kept = copy / "tests" / "system" / "fuzz" / "regressions" / "saved_health" / "planted"
    kept.write_bytes(finding.read_bytes())
    done = fuzz(copy, "--seconds=1", "saved_health")
    assert done.returncode == 0, done.stdout
    assert "FINDING" not in done.stdout


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    done = fuzz(ROOT, "saved_helth")
    assert done.returncode == 2
    assert "unknown targets: saved_helth; known are dmon, exposition" in done.stderr
