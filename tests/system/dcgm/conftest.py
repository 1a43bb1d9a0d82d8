"""The programs of DCGM on boards of NVIDIA's mock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dcgm import RealDcgm, running


@pytest.fixture
def h100() -> Iterator[RealDcgm]:
    """Two H100 with host engine and exporter."""
    with running("h100", exporter=True) as dcgm:
        yield dcgm
