"""What holds for all tests."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from pulsed.background_tasks import FAILURES
from tests.support.examples import examples

pytest_plugins = ("tests.support.kubernetes.api_servers", "tests.support.nvml_standin.library")

# A shell's background job ignores SIGINT, and so would every child of ours: tests that send it need it as usual.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # of nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Byte code is kept, here and in children: every daemon would compile all of pulsed, every worker all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Properties are not judged by time: other processes run on this machine.
hypothesis.settings.register_profile("untimed", examples(100))
hypothesis.settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def no_task_failures() -> Iterator[None]:
    """Failures of background tasks are counted for the process: those of one test are not on the pages of others."""
    yield
    FAILURES.clear()


@pytest.hookimpl(trylast=True)  # after the plugins that deselect: only what runs is shared out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those that take long, each module's on another worker, so that none is alone with one at the end.

    With --dist=worksteal, each worker begins with an equal part of the list.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow: dict[Path, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        (others if item.get_closest_marker("slow") is None else slow.setdefault(item.path, [])).append(item)
    begins: list[list[pytest.Item]] = [[] for _ in range(workers)]
    # Those of the whole program first: some boot, build or install for minutes.
    for number, group in enumerate(sorted(slow.values(), key=lambda group: "system" not in group[0].path.parts)):
        begins[number % workers] += group
    left, ordered = iter(others), list[pytest.Item]()
    for number, begin in enumerate(begins):
        size = (len(items) - len(ordered)) // (workers - number)
        ordered += [*begin, *itertools.islice(left, max(0, size - len(begin)))]
    items[:] = [*ordered, *left]


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command that runs in this process sets the log up for itself: that ends with the test."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
