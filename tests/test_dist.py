"""What `make dist` makes is installed into an empty environment, far from this folder, and runs there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pulsed import __version__
from tests.daemon import environment

ROOT = Path(__file__).parents[1]
NO_ERRORS = environment() | {"PYTHONWARNINGS": "default"}
"""pip itself warns of what it is made of."""

CONSTRAINTS = ROOT / "deploy" / "constraints.txt"


def run(*words: str | Path, folder: Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=NO_ERRORS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    return folder


def only(paths: Sequence[Path]) -> Path:
    (path,) = paths
    return path


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_and_runs_elsewhere(dist: Path, tmp_path: Path, kind: str) -> None:
    package = only(list(dist.glob(kind)))
    run(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, package, folder=tmp_path)
    pulsed = tmp_path / "venv" / "bin" / "pulsed"
    assert run(pulsed, "--version", folder=tmp_path) == f"pulsed {__version__}\n"
    found = json.loads(run(pulsed, "snapshot", "--source", "demo", "--format", "json", folder=tmp_path))
    assert len(found["gpus"]) == 8
    run(python, "-m", "pip", "check", folder=tmp_path)


def test_the_wheel_has_the_package_and_nothing_else(dist: Path) -> None:
    names = zipfile.ZipFile(only(list(dist.glob("*.whl")))).namelist()
    assert {name.partition("/")[0] for name in names} == {"pulsed", f"pulsed-{__version__}.dist-info"}
    assert "pulsed/py.typed" in names
    assert set(run("git", "ls-files", "pulsed", folder=ROOT).split()) <= set(names)


def test_the_sdist_has_all_that_operators_need(dist: Path) -> None:
    with tarfile.open(only(list(dist.glob("*.tar.gz")))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files", folder=ROOT).split()
    wanted = [
        name for name in tracked if name.startswith(("pulsed/", "deploy/", "systemd/", "helm/", "tests/", "tools/"))
    ]
    assert set(wanted) <= names
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CONFIGURATION.md", "METRICS.md", "Makefile"} <= names


def test_every_dependency_is_pinned_to_what_it_may_be() -> None:
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE))
    names = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    needed = [Requirement(text) for text in requires("pulsed") or () if "extra ==" not in text]
    assert needed
    for requirement in needed:
        assert requirement.specifier.contains(names[requirement.name.lower().replace("_", "-")]), requirement
