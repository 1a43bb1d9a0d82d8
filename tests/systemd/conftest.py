"""The wheel of this working tree, and one of a later version, built once."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pulsed import __version__
from tests.systemd.boot import ROOT, run

NEW_VERSION = "99.0"


def _wheel(source: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, source)
    (found,) = folder.glob("pulsed-*.whl")
    return found


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def newer_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newer")
    newer = folder / "source"
    shutil.copytree(ROOT, newer, ignore=shutil.ignore_patterns(".*", "build", "dist", "tests"))
    package = newer / "pulsed" / "__init__.py"
    package.write_text(package.read_text().replace(f'"{__version__}"', f'"{NEW_VERSION}"'))
    return _wheel(newer, folder)
