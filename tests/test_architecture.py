"""The layers of the source tree: what may import what, and unique names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pulsed

ROOT = Path(pulsed.__file__).parent

MAY_IMPORT = {
    "errors": "",
    "json_text": "",
    "number_text": "",
    "printable": "",
    "regular_file": "",
    "background_tasks": "",
    "daemon_thread": "",
    "lane": "",
    "die_with_parent": "",
    "heap": "",
    "durations": "",
    "config.settings": "",
    "config.values": "durations config.settings",
    "log": "printable config.settings",
    "http": "printable regular_file daemon_thread",
    "kubernetes": "errors regular_file background_tasks config.settings config.values http",
    "model": "errors",
    "config": "errors regular_file config.settings config.values http",
    "translate.units": "",
    "translate.fields": "model translate.units",
    "reader": (
        "errors regular_file background_tasks daemon_thread die_with_parent config.settings config.values "
        "http kubernetes model translate.fields"
    ),
    "owners": "durations config.settings config.values kubernetes model",
    "owners.attribution": "errors regular_file background_tasks daemon_thread kubernetes model",
    "host": "durations regular_file config.settings config.values model owners.attribution",
    "translate": "errors model translate.units translate.fields owners.attribution",
    "compute": "errors durations config.settings config.values model translate.fields host",
    "owners.accounting": "json_text model compute",
    "owners.findings": "model compute owners.accounting",
    "owners.report": (
        "errors json_text number_text printable config.settings config.values model compute owners.accounting "
        "owners.findings"
    ),
    "present.terminal": "printable number_text",
    "present.otlp": "config.settings config.values http model",
    "present": (
        "errors json_text printable durations background_tasks lane config.settings config.values http kubernetes "
        "model translate.units translate.fields owners.attribution host translate compute owners.accounting "
        "owners.findings owners.report number_text present.otlp"
    ),
    "server.settings": "config.settings config.values",
    "server": (
        "errors regular_file background_tasks daemon_thread lane config.settings config.values config present "
        "server.settings"
    ),
    "config.configuration": (
        "errors regular_file config.settings config.values log kubernetes model config reader owners "
        "host compute owners.report present server.settings"
    ),
    "collector": (
        "errors background_tasks kubernetes model reader owners.attribution translate compute config.configuration"
    ),
    "cli": "errors printable durations log translate.fields config.configuration",
    "apps": (
        "errors json_text printable regular_file die_with_parent http kubernetes "
        "model translate.fields reader owners.attribution compute owners.report present.terminal present server "
        "config.configuration collector cli"
    ),
    "daemon": (
        "durations errors heap json_text regular_file background_tasks daemon_thread lane die_with_parent log http "
        "kubernetes model reader owners owners.attribution host translate compute owners.accounting owners.findings "
        "owners.report present.otlp present server config.configuration collector cli"
    ),
    "__main__": "cli",
}
"""Packages and modules of pulsed in their order, each with what it imports: only entries above it.

A module belongs to the longest entry that fits. Everything may import what `pulsed/__init__.py` has.
"""

VERSION = {"__version__", "revision", "version_text"}


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every module by its name without `pulsed.`."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for path in sorted(ROOT.rglob("*.py"))
        if path != ROOT / "__init__.py"
    }


@cache
def imports() -> dict[str, list[str]]:
    """Return the modules of pulsed that each module imports anywhere in it, all without `pulsed.`."""
    return {name: list(_imports(tree)) for name, tree in modules().items()}


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("pulsed.") for name in names if name.startswith("pulsed."))


def entry(name: str) -> str:
    """Return the entry of the table that a module belongs to."""
    fitting = [each for each in MAY_IMPORT if f"{name}.".startswith(f"{each}.")]
    return max(fitting, key=len)


def test_the_table_has_an_order() -> None:
    above: set[str] = set()
    for name, allowed in MAY_IMPORT.items():
        assert set(allowed.split()) <= above, name
        above.add(name)


def test_no_import_runs_against_the_order_of_the_layers() -> None:
    used = {name: set[str]() for name in MAY_IMPORT}
    wrong = []
    for name, names in imports().items():
        for imported in names:
            if imported in VERSION or entry(imported) == entry(name):
                continue
            used[entry(name)].add(entry(imported))
            if entry(imported) not in MAY_IMPORT[entry(name)].split():
                wrong.append(f"pulsed.{name} imports pulsed.{imported}")
    assert wrong == []
    assert used == {name: set(allowed.split()) for name, allowed in MAY_IMPORT.items()}, "no entry is out of date"


def test_apps_and_the_daemon_do_not_import_each_other() -> None:
    """A program of `apps` reads a daemon over HTTP, or runs the layers itself; `cli` imports either by name."""
    wrong = [
        f"pulsed.{name} imports pulsed.{imported}"
        for name, names in imports().items()
        for imported in names
        if {name.split(".")[0], imported.split(".")[0]} == {"apps", "daemon"}
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_cycle() -> None:
    """Also not for types alone, or inside a function."""
    known = imports()
    graph = {
        name: {each if each in known else each.rpartition(".")[0] for each in names} & known.keys() - {name}
        for name, names in known.items()
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_work_with_a_limit_of_time_can_be_cancelled() -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation at times; `asyncio.timeout` does not."""
    used = [
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "wait_for"
    ]
    assert used == []


def test_every_class_name_occurs_once() -> None:
    places = defaultdict(list)
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
