"""What holds for the tests of dcgmi."""

from __future__ import annotations

import pytest

from tests.reader.dcgmi.processes import ignore_running_children


@pytest.fixture(autouse=True)
def only_own_children() -> None:
    ignore_running_children()
