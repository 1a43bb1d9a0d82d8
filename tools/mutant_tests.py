"""Runs the unit tests of a copy of the repository, those that are nearest to a module first."""

from __future__ import annotations

import ast
import multiprocessing
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("compute", "translate", "host")
SLOW = ("test_accumulator.py", "test_layer.py", "test_random.py")
"""Test files that take longest; they run last unless they test the mutated module."""
SHORTENED = {r"max_examples=\d+": "max_examples={examples}", r"^SAMPLES = 100_000$": "SAMPLES = 10_000"}
"""Numbers of examples and samples in the tests, and their replacements."""
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""The only plugins that are loaded; others double the start of pytest."""
TEST_TIMEOUT = 60
"""Seconds for one test: a mutant may never end."""

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


def passes(folder: Path, files: Sequence[Path]) -> bool:
    """Return whether these test files pass in this copy.

    Each run is a fork of a process that has imported pytest, which takes longer than most test files.

    Raises:
        RuntimeError: pytest did not run.
    """
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_run, args=(folder, files, sender))
    process.start()
    sender.close()
    try:
        code = receiver.recv()
    except EOFError:
        code = None
    process.join()
    if code not in (0, 1, 2):  # passed, failed, a module cannot be imported
        raise RuntimeError(f"pytest ended with {code}: {(folder / 'pytest.log').read_text()}")
    return bool(code == 0)


def test_files(path: Path) -> list[list[Path]]:
    """Return the test files that import a module, directly or not, in two groups: those nearest to it, and the others.

    The nearest are the test file of its name and those that import it directly. Among the others those of the same
    folder come first, and the slow ones last.
    """
    near: list[Path] = []
    others: list[tuple[int, Path]] = []
    for file in all_test_files():
        if file.stem == f"test_{path.stem}":
            near.insert(0, file)
        elif path not in _closure(file):
            continue
        elif file.name in SLOW:
            others.append((2, file))
        elif path in _imports(file):
            near.append(file)
        else:
            others.append((file.parts[1:-1] != path.parts[1:-1], file))
    return [group for group in (near, [file for _, file in sorted(others)]) if group]


def all_test_files() -> list[Path]:
    """Return the unit tests of these packages, relative to the repository."""
    return sorted(file.relative_to(ROOT) for each in PACKAGES for file in (ROOT / "tests" / each).rglob("test_*.py"))


def _run(folder: Path, files: Sequence[Path], result: Connection) -> None:
    os.chdir(folder)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    log = os.open("pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pulsed", "tests", "tools")]:
        del sys.modules[name]
    sys.path[:] = [str(folder), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
    import pytest

    plugins = [argument for plugin in PLUGINS for argument in ("-p", plugin)]
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT}", "--tb=line"]
    result.send(int(pytest.main([*options, *plugins, *map(str, files)])))


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
