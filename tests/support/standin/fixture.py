"""The pytest fixture `standin`: import it into a test module or a conftest to use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.standin.install import Standin


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    """A healthy `dcgmi` of DCGM 4.4.1 with one H100 in `tmp_path/bin`; `standin.change(...)` makes it another."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return Standin(folder)
