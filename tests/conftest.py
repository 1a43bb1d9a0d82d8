"""What holds for all tests."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator

import hypothesis
import pytest

pytest_plugins = ("tests.kubernetes.api_servers", "tests.nvml_standin.library")

# A shell's background job ignores SIGINT, and so would every child of ours: tests that send it need it as usual.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Properties are not judged by time: other processes run on this machine.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those that wait for minutes, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command that runs in this process sets the log up for itself: that ends with the test."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
