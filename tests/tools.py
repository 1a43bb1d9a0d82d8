"""Programs that tests need beyond Python: skipped loudly on a user's machine when missing, a failure in CI."""

from __future__ import annotations

import os
import shutil

import pytest


def tool(name: str, package: str) -> str:
    """The path of a program; skips the test without it, or fails it where REQUIRE_TOOLS is set."""
    path = shutil.which(name)
    if path is None:
        message = f"{name} is not installed: apt-get install {package}"
        if os.environ.get("REQUIRE_TOOLS"):
            pytest.fail(message)
        pytest.skip(message)
    return path
