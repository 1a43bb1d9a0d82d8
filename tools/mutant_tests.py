"""Runs the unit tests of a copy of the repository, those that notice a mutant of a module soonest first."""

from __future__ import annotations

import ast
import multiprocessing
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("compute", "translate", "host")
SHORTENED = {
    r"max_examples=\d+": "max_examples={examples}",
    r"^SAMPLES = 100_000$": "SAMPLES = 10_000",
    r"range\(1_000_000\)": "range(50_000)",
}
"""Numbers of examples and samples in the tests, and their replacements."""
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""The only plugins that are loaded; others double the start of pytest."""
TEST_TIMEOUT = 120
"""Seconds for one test: a mutant may never end. Many times the slowest test, for machines that do other work, too."""

CONFTEST = """
import pulsed
assert pulsed.__file__.startswith({folder!r}), pulsed.__file__
hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    max_examples={examples},
    database=None,
    derandomize=True,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("mutants")
"""

INDIRECT = 4.0
"""A test file that imports a module indirectly is as likely to notice a mutant as one that takes this many times as
long."""


class Outcome(NamedTuple):
    """The result of a run: whether all tests passed, and the seconds that each file took."""

    has_passed: bool
    seconds: Mapping[Path, float]


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["asyncio", "hypothesis.strategies", "pydantic", "pytest", "yaml"])


def copy_repository(folder: Path, examples: int) -> None:
    """Copy what the tests import, with so many examples per property test."""
    for name in ("pulsed", "tests", "tools", "deploy", "docs", "helm"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for document in (*ROOT.glob("*.md"), *ROOT.glob("*.yaml")):
        shutil.copy(document, folder)
    with (folder / "tests" / "conftest.py").open("a") as file:
        file.write(CONFTEST.format(folder=str(folder), examples=examples))
    for path in (folder / "tests").rglob("*.py"):
        text = path.read_text()
        for pattern, replacement in SHORTENED.items():
            text = re.sub(pattern, replacement.format(examples=examples), text, flags=re.MULTILINE)
        path.write_text(text)


def run(folder: Path, files: Sequence[Path]) -> Outcome:
    """Run these test files of this copy, up to the first failure.

    Each run is a fork of a process that has imported pytest, which takes longer than most test files.

    Raises:
        RuntimeError: pytest did not run.
    """
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_run, args=(folder, files, sender))
    process.start()
    sender.close()
    try:
        code, seconds = receiver.recv()
    except EOFError:
        code, seconds = None, {}
    process.join()
    if code not in (0, 1, 2, 3):  # passed, failed, a module cannot be imported, a failure cannot be shown
        raise RuntimeError(f"pytest ended with {code}: {(folder / 'pytest.log').read_text()}")
    return Outcome(code == 0, seconds)


def test_files(path: Path, seconds: Mapping[Path, float]) -> list[Path]:
    """Return the test files that import a module, directly or not: that of its name, then the others by their time.

    Args:
        seconds: that each file takes.
    """
    costs: list[tuple[float, Path]] = []
    for file in all_test_files():
        if file.stem == f"test_{path.stem}":
            costs.append((0.0, file))
        elif path in _closure(file):
            costs.append((seconds.get(file, 0.0) * (1.0 if path in _imports(file) else INDIRECT), file))
    return [file for _, file in sorted(costs)]


def all_test_files() -> list[Path]:
    """Return the unit tests of these packages, relative to the repository."""
    return sorted(file.relative_to(ROOT) for each in PACKAGES for file in (ROOT / "tests" / each).rglob("test_*.py"))


class _Times:
    """A plugin of pytest that adds up the seconds of each file."""

    def __init__(self) -> None:
        self.seconds: defaultdict[Path, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[Path(report.location[0])] += report.duration


def _run(folder: Path, files: Sequence[Path], result: Connection) -> None:
    os.chdir(folder)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    log = os.open("pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pulsed", "tests", "tools")]:
        del sys.modules[name]
    sys.path[:] = [str(folder), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
    times = _Times()
    plugins = [argument for plugin in PLUGINS for argument in ("-p", plugin)]
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT}", "--tb=line"]
    code = int(pytest.main([*options, *plugins, *map(str, files)], plugins=[times]))
    result.send((code, dict(times.seconds)))


def _closure(path: Path) -> set[Path]:
    """Return the modules of the repository that a module imports, and those that they import."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        new = _imports(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def _imports(path: Path) -> frozenset[Path]:
    """Return the modules of the repository that a module imports."""
    return frozenset(_module_files((ROOT / path).read_text()))


def _module_files(source: str) -> Iterator[Path]:
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            base = Path(*name.split("."))
            yield from (file for file in (base.with_suffix(".py"), base / "__init__.py") if (ROOT / file).is_file())
