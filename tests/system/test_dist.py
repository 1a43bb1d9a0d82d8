"""What `make dist` makes is installed into an empty environment, far from this folder, and runs there."""

from __future__ import annotations

import json
import platform
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
from packaging.utils import canonicalize_name

from pulsed import __version__
from tests.support.daemon import environment

ROOT = Path(__file__).parents[2]
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
    run("make", f"DIST={folder / 'dist'}", f"BUILD={folder / 'build-tool'}", "dist", folder=ROOT)
    return folder / "dist"


PLATFORM = f"linux/{platform.machine()}, Python {platform.python_version()}"


def only(paths: Sequence[Path]) -> Path:
    (path,) = paths
    return path


@pytest.mark.nightly  # packages and image install the same constraints in every run
def test_it_installs_and_runs_elsewhere(dist: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    install = (python, "-m", "pip", "install", "--quiet")
    run(*install, "--require-hashes", "--requirement", CONSTRAINTS, folder=tmp_path)
    pulsed = tmp_path / "venv" / "bin" / "pulsed"
    revision = run("git", "rev-parse", "HEAD", folder=ROOT).strip()
    for kind in ("*.whl", "*.tar.gz"):
        package = only(list(dist.glob(kind)))
        run(*install, "--no-deps", "--force-reinstall", package, folder=tmp_path)
        assert run(pulsed, "--version", folder=tmp_path) == f"pulsed {__version__} (revision {revision}, {PLATFORM})\n"
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
    assert {"README.md", "LICENSE", "CHANGELOG.md", "docs/configuration.md", "docs/metrics.md", "Makefile"} <= names


PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_pinned_versions_have_wheels_everywhere_and_need_nothing_else(
    python: str, machine: str, tmp_path: Path
) -> None:
    uv, where = Path(sys.executable).with_name("uv"), f"{machine}-manylinux_2_28"
    words = ("--dry-run", "--only-binary=:all:", "--require-hashes", "--requirement", CONSTRAINTS)
    target = ("--target", tmp_path, "--python-version", python, "--python-platform", where)
    run(uv, "pip", "install", *words, *target, folder=tmp_path)


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_is_pinned_to_what_it_may_be(python: str) -> None:
    pinned = {
        canonicalize_name(each.name): each.specifier
        for each in map(Requirement, re.findall(r"^\w[^\\\n]*", CONSTRAINTS.read_text(), re.MULTILINE))
        if each.marker is None or each.marker.evaluate({"python_full_version": f"{python}.0"})
    }
    needed = [Requirement(text) for text in requires("pulsed") or ()]
    extras = ("nvml",)
    needed = [
        each
        for each in needed
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
    ]
    assert len(needed) > 10
    for requirement in needed:
        (version,) = [each.version for each in pinned[canonicalize_name(requirement.name)] if each.operator == "=="]
        assert requirement.specifier.contains(version), requirement


def test_what_builds_is_pinned() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'"([\w-]+)"', re.findall(r"^requires = (\[.*\])$", text, re.MULTILINE)[0])
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "deploy" / "build-constraints.txt").read_text(), re.MULTILINE)
    assert names
    assert set(names) <= set(pinned)


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "constraints.txt"
    changed.write_text(re.sub(r"(?<=sha256:)\w{8}", "00000000", CONSTRAINTS.read_text()))
    words = ("install", "--no-cache-dir", "--target", tmp_path / "target", "--require-hashes", "--requirement", changed)
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, env=NO_ERRORS, check=False
    )
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
