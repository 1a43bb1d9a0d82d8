"""A plugin of pytest that lets one run leave out what another run of the same tree has proved.

pytest -p tests.support.passed_tests --write-passed=FILE    write the names of the tests that pass
pytest -p tests.support.passed_tests --leave-out=FILE       run all others: those that failed, were skipped, or not run
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-passed", type=Path, help="write the names of the tests that pass to this file")
    parser.addoption("--leave-out", type=Path, help="do not run the tests in this file")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--write-passed")) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (file := config.getoption("--leave-out")) is None:
        return
    passed = set(file.read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class _Writer:
    def __init__(self, file: Path) -> None:
        self._file, self._passed = file, dict[str, bool]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed[report.nodeid] = self._passed.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        self._file.write_text("".join([f"{name}\n" for name, passed in self._passed.items() if passed]))
