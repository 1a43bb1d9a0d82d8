"""Where the fetched programs and schemas lie; without them a test is skipped loudly, or fails in CI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.deploy.install import TOOLS


def fetched(name: str) -> Path:
    """The path of what `tests.deploy.install` fetched; skips the test without it, or fails it under REQUIRE_TOOLS."""
    path = TOOLS / name
    if not path.exists():
        message = f"{name} is missing: python -m tests.deploy.install fetches it"
        if os.environ.get("REQUIRE_TOOLS"):
            pytest.fail(message)
        pytest.skip(message)
    return path
