"""Measures the unit tests of `pulsed/compute`, `pulsed/translate` and `pulsed/host` with seeded mutants.

Run as `python -m tools.mutate [--number N] [--seed S] [--path PART]`. A mutant is one module with one change: a
comparison, an operator, a number or a boolean. It is killed if a test of these packages fails or exceeds the
time limit. Annotations, decorators, the `strict` argument of `zip` and the examples in the documentation of settings
are not changed: they do not affect results. Property tests and random sequences are shortened, so that a kill by
chance is less likely than in the full suite. The test file of the mutated module runs first, then the others by their
time; the first failure ends the run.

Survivors that no test can or should notice, with examples:

- changes that only cost time: `gpu.is_due and gpu.faults` in `health_evaluator.py` relates faults more often;
- initial values that are replaced before use: `time` of `SampleClock`, `_is_settled` of `Tracker`;
- comparisons of equal values with the same result: `value <= 0.0` of a value that is cut to 0;
- numbers that are compared within a tolerance: times within microseconds, memory of boards in `mig_rollup.py` within a
  quarter of a slice;
- sizes of memories: `REMEMBERED` boxes of the classifier, `MAX_WAITING_EVENTS`.

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
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tools.mutant_tests import PACKAGES, ROOT, all_test_files, copy_repository, run, test_files

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


class Mutant(NamedTuple):
    """One changed module.

    Attributes:
        path: of the module, relative to the repository.
        line: of the change, in the original.
        before: source of the changed expression.
        after: its replacement.
        number: of the change, among those of the module.
    """

    path: Path
    line: int
    before: str
    after: str
    number: int

    @property
    def source(self) -> str:
        """The source of the whole mutated module."""
        tree = ast.parse((ROOT / self.path).read_text())
        parent, name, position, _, mutated = next(islice(_changes(tree), self.number, None))
        _replace(parent, name, position, mutated)
        return ast.unparse(tree)

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
    for number, change in enumerate(_changes(ast.parse((ROOT / path).read_text()))):
        yield Mutant(path, change.node.lineno, ast.unparse(change.node), ast.unparse(change.mutated), number)


def sample(number: int, seed: int, part: str = "") -> list[Mutant]:
    """Return as many mutants, or all, chosen evenly over all changes of the modules with this part in their paths."""
    paths = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / "pulsed" / package).rglob("*.py")]
    known = [mutant for path in sorted(paths) if part in str(path) for mutant in mutants(path)]
    return random.Random(seed).sample(known, min(number, len(known)))


def is_killed(mutant: Mutant, folder: Path, seconds: Mapping[Path, float]) -> bool:
    """Return whether the tests in this copy of the repository notice the mutant; `seconds` as in `test_files`."""
    path = folder / mutant.path
    original = path.read_text()
    try:
        _write(path, mutant.source)
        return not run(folder, test_files(mutant.path, seconds)).has_passed
    finally:
        _write(path, original)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__.splitlines()[0])
    arguments.add_argument("--number", type=int, default=100, help="of mutants (default: %(default)s)")
    arguments.add_argument("--seed", type=int, default=11, help="of the sample (default: %(default)s)")
    arguments.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1), help="mutants at a time")
    arguments.add_argument("--examples", type=int, default=50, help="per property test (default: %(default)s)")
    arguments.add_argument("--path", default="", help="part of the paths of the modules (default: all modules)")
    options = arguments.parse_args()
    chosen = sample(options.number, options.seed, options.path)
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
                killed = is_killed(mutant, folder, outcome.seconds)
            finally:
                folders.put(folder)
            print("killed  " if killed else "survived", mutant, flush=True)
            return killed

        outcome = run(root / "0", all_test_files())
        if not outcome.has_passed:
            sys.exit(f"The tests fail without a mutant:\n{(root / '0' / 'pytest.log').read_text()[-2000:]}")
        with ThreadPoolExecutor(options.jobs) as pool:
            killed = list(pool.map(examine, chosen))
    print(f"{sum(killed)} of {len(killed)} mutants killed (seed {options.seed})")
    for mutant, is_dead in zip(chosen, killed, strict=True):
        if not is_dead:
            print(f"survived {mutant}")


class _Change(NamedTuple):
    """An expression and its replacement: the field of its parent that has it, and its position if that is a list."""

    parent: ast.AST
    name: str
    position: int | None
    node: ast.expr
    mutated: ast.expr


def _changes(tree: ast.AST) -> Iterator[_Change]:
    return (_Change(*place, mutated) for place in _expressions(tree) for mutated in variants(place[-1]))


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Yield the expressions whose change affects results: parent, field, position in a list, node."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or _is_alias(tree):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for position, child in children:
            if not isinstance(child, ast.AST) or (
                isinstance(child, ast.keyword) and child.arg in ("strict", "example")
            ):
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
