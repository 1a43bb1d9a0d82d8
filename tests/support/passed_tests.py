"""A plugin of pytest that lets one run leave out what another run of the same tree has proved.

pytest -p tests.support.passed_tests --write-passed=FILE    write the names of tests and whole files that pass
pytest -p tests.support.passed_tests --leave-out=FILE       run all others: those that failed, were skipped, or not run
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-passed", type=Path, help="write the names of the tests that pass to this file")
    parser.addoption("--leave-out", type=Path, help="do not run the tests in this file")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--write-passed")) is not None:
        config.pluginmanager.register(_Writer(file, config))
    if (file := config.getoption("--leave-out")) is not None:
        config.pluginmanager.register(_Filter(set(file.read_text().splitlines())))


class _Filter:
    def __init__(self, passed: Set[str]) -> None:
        self._passed = passed

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Leave out files without importing them."""
        return str(collection_path.relative_to(config.rootpath)) in self._passed or None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._passed])
        items[:] = [item for item in items if item.nodeid not in self._passed]


class _Writer:
    """Writes at the end of the run; a worker of pytest-xdist passes on which files it did not select wholly."""

    def __init__(self, file: Path, config: pytest.Config) -> None:
        self._file, self._config = file, config
        self._passed = dict[str, bool]()
        self._deselected = set[str]()

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self._deselected |= {_file(item.nodeid) for item in items}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._deselected |= set(getattr(node, "workeroutput", {}).get("deselected", ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed[report.nodeid] = self._passed.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["deselected"] = sorted(self._deselected)
            return
        left = self._deselected | {_file(name) for name, passed in self._passed.items() if not passed}
        names = [name for name, passed in self._passed.items() if passed]
        files = sorted({_file(name) for name in names} - left)
        self._file.write_text("".join([f"{name}\n" for name in (*names, *files)]))


def _file(name: str) -> str:
    return name.partition("::")[0]
