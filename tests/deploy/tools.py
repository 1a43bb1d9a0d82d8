"""Where the fetched programs and schemas lie."""

from __future__ import annotations

from pathlib import Path

from tests.deploy.install import TOOLS
from tests.support.tools import missing


def fetched(name: str) -> Path:
    """Return the path of what `tests.deploy.install` fetched."""
    path = TOOLS / name
    return path if path.exists() else missing(f"{name} is missing: python -m tests.deploy.install fetches it")
