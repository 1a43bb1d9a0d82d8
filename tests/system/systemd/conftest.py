"""The wheel of this working tree, one of a later version, and the locked ones, for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsed import __version__
from tests.system.systemd.boot import ROOT, run

NEW_VERSION = "99.0"


def once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]) -> Path:
    """Return a folder that one worker of this run fills, while the others wait."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = factory.mktemp(name)
            fill(unfinished)
            unfinished.rename(folder)
    return folder


def _build(source: Path, folder: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, source)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (found,) = once(tmp_path_factory, "wheel", lambda folder: _build(ROOT, folder)).glob("*.whl")
    return found


@pytest.fixture(scope="session")
def newer_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> None:
        newer = tmp_path_factory.mktemp("newer-source") / "source"
        shutil.copytree(ROOT, newer, ignore=shutil.ignore_patterns(".*", "build", "dist", "tests"))
        package = newer / "pulsed" / "__init__.py"
        package.write_text(package.read_text().replace(f'"{__version__}"', f'"{NEW_VERSION}"'))
        _build(newer, folder)

    (found,) = once(tmp_path_factory, "newer-wheel", build).glob("*.whl")
    return found


@pytest.fixture(scope="session")
def locked_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that pulsed depends on, for Debian 12."""

    def download(folder: Path) -> None:
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"),
            *("--require-hashes", "--requirement", ROOT / "deploy" / "constraints.txt", "--dest", folder),
        )

    return once(tmp_path_factory, "locked-wheels", download)
