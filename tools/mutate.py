"""Measures the unit tests of `pulsed/compute` and `pulsed/translate` with seeded mutants.

Run as `python -m tools.mutate [--number N] [--seed S]`. A mutant is one module with one change: a comparison, an
operator, a number or a boolean. It is killed if `tests/compute` and `tests/translate` fail or exceed the time limit.
Annotations, decorators and the `strict` argument of `zip` are not changed: they do not affect results. Property tests
and random sequences are shortened, so that a kill by chance is less likely than in the full suite. The test files that
are nearest to the mutated module run first, and the first failure ends the run.

Survivors that no test can or should notice, with examples:

- changes that only cost time: `due = 1` in `health/gpu.py` evaluates one more rule, `>= known` counts no codes;
- initial values that are replaced before use: `_is_settled` in `tracker.py`, the severity in `health/summary.py`;
- caps that a consistent input does not reach but by rounding: `min(total, 1.0)` in `mig_rollup.py`;
- limits that are compared within a tolerance of microseconds;
- sizes of memories: `REMEMBERED` boxes of the classifier, `MOST_SELECTIONS` of rules.

Everything else is a gap: close its kind with a table or a property rather than the one mutant.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("compute", "translate")
SLOW = ("test_random.py", "test_accumulator.py", "test_layer.py")
"""Test files that take longest; they run last unless they test the mutated module."""
SHORTENED = {r"max_examples=\d+": "max_examples={examples}", r"^SAMPLES = 100_000$": "SAMPLES = 10_000"}
"""Numbers of examples and samples in the tests, and their replacements."""
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""The only plugins that are loaded; others double the start of pytest."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Div,
    ast.LShift: ast.RShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

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


class Mutant(NamedTuple):
    """One changed module.

    Attributes:
        path: of the module, relative to the repository.
        line: of the change, in the original.
        before: source of the changed expression.
        after: its replacement.
        source: of the whole mutated module.
    """

    path: Path
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


def variants(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the replacements of one expression, each with one change in its own node."""
    if isinstance(node, ast.Compare):
        for position, comparison in enumerate(node.ops):
            mutated = copy.deepcopy(node)
            mutated.ops[position] = COMPARISONS[type(comparison)]()
            yield mutated
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _is_text(node):
        yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value + 1 != node.value:
        yield ast.Constant(node.value + 1)


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of one module."""
    tree = ast.parse((ROOT / path).read_text())
    for parent, name, position, node in list(_expressions(tree)):
        for mutated in variants(node):
            _replace(parent, name, position, mutated)
            yield Mutant(path, node.lineno, ast.unparse(node), ast.unparse(mutated), ast.unparse(tree))
            _replace(parent, name, position, node)


def sample(number: int, seed: int) -> list[Mutant]:
    """Return as many mutants, chosen evenly over all changes of both packages."""
    paths = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / "pulsed" / package).rglob("*.py")]
    return random.Random(seed).sample([mutant for path in sorted(paths) for mutant in mutants(path)], number)


def is_killed(mutant: Mutant, folder: Path, timeout: float) -> bool:
    """Return whether the tests in this copy of the repository notice the mutant."""
    path = folder / mutant.path
    original = path.read_text()
    try:
        _write(path, mutant.source)
        return not all(passes(folder, files, timeout) for files in test_files(folder, mutant.path))
    finally:
        _write(path, original)


def passes(folder: Path, files: Sequence[Path], timeout: float) -> bool:
    """Return whether these test files pass in this copy; False if they exceed the time limit.

    Raises:
        RuntimeError: pytest did not run.
    """
    plugins = [argument for plugin in PLUGINS for argument in ("-p", plugin)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *plugins, *map(str, files)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    try:
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if result.returncode not in (0, 1, 2):  # passed, failed, a module cannot be imported
        raise RuntimeError(f"pytest ended with {result.returncode} in {folder}: {result.stdout}{result.stderr}")
    return result.returncode == 0


def test_files(folder: Path, path: Path) -> list[list[Path]]:
    """Return the test files in this copy in two groups: those that test or import the module, and the others.

    Each group is a run of pytest. Among the others those of the module's folder come first, and the slow ones last.
    """
    module = ".".join(path.with_suffix("").parts)
    near: list[Path] = []
    others: list[tuple[int, Path]] = []
    for file in sorted(file for each in PACKAGES for file in (folder / "tests" / each).rglob("test_*.py")):
        relative = file.relative_to(folder)
        if file.stem == f"test_{path.stem}":
            near.insert(0, relative)
        elif file.name in SLOW:
            others.append((2, relative))
        elif re.search(rf"from {re.escape(module)} import", file.read_text()):
            near.append(relative)
        else:
            others.append((relative.parts[1:-1] != path.parts[1:-1], relative))
    return [group for group in (near, [file for _, file in sorted(others)]) if group]


def copy_repository(folder: Path, examples: int) -> None:
    """Copy what the tests import, with so many examples per property test."""
    for name in ("pulsed", "tests", "tools", "deploy"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for document in ROOT.glob("*.md"):
        shutil.copy(document, folder)
    with (folder / "tests" / "conftest.py").open("a") as file:
        file.write(CONFTEST.format(folder=str(folder), examples=examples))
    for path in (folder / "tests").rglob("*.py"):
        text = path.read_text()
        for pattern, replacement in SHORTENED.items():
            text = re.sub(pattern, replacement.format(examples=examples), text, flags=re.MULTILINE)
        path.write_text(text)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__.splitlines()[0])
    arguments.add_argument("--number", type=int, default=100, help="of mutants (default: %(default)s)")
    arguments.add_argument("--seed", type=int, default=11, help="of the sample (default: %(default)s)")
    arguments.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1), help="mutants at a time")
    arguments.add_argument("--examples", type=int, default=50, help="per property test (default: %(default)s)")
    arguments.add_argument(
        "--timeout", type=float, default=300, help="seconds per run of pytest (default: %(default)s)"
    )
    options = arguments.parse_args()
    chosen = sample(options.number, options.seed)
    with tempfile.TemporaryDirectory(prefix="pulsed-mutants-") as name:
        root = Path(name).resolve()
        if (samples := ROOT.parent / "shared").is_dir():
            (root / "shared").symlink_to(samples.resolve())
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            folder = root / str(number)
            copy_repository(folder, options.examples)
            folders.put(folder)

        def examine(mutant: Mutant) -> bool:
            folder = folders.get()
            try:
                killed = is_killed(mutant, folder, options.timeout)
            finally:
                folders.put(folder)
            print("killed  " if killed else "survived", mutant, flush=True)
            return killed

        if not all(passes(root / "0", files, options.timeout) for files in test_files(root / "0", Path("pulsed"))):
            sys.exit("The tests fail without a mutant.")
        with ThreadPoolExecutor(options.jobs) as pool:
            killed = list(pool.map(examine, chosen))
    print(f"{sum(killed)} of {len(killed)} mutants killed (seed {options.seed})")
    for mutant, is_dead in zip(chosen, killed, strict=True):
        if not is_dead:
            print(f"survived {mutant}")


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Yield the expressions whose change affects results: parent, field, position in a list, node."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or _is_alias(tree):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for position, child in children:
            if not isinstance(child, ast.AST) or (isinstance(child, ast.keyword) and child.arg == "strict"):
                continue
            if isinstance(child, ast.expr):
                yield tree, name, position, child
            yield from _expressions(child)


def _is_alias(node: ast.AST) -> bool:
    """Return whether an assignment is a type alias: a union of names, or `Literal`."""
    return isinstance(node, ast.Assign) and bool(
        re.match(r"(Literal|Callable|tuple)\[|[\w.]+ \| (None|[\w.]+)$", ast.unparse(node.value))
    )


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in (node.left, node.right)
    )


def _replace(parent: ast.AST, name: str, position: int | None, node: ast.expr) -> None:
    if position is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[position] = node


def _write(path: Path, source: str) -> None:
    """Write a module; its bytecode is removed, since the time of a file has seconds only there."""
    path.write_text(source)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
