"""Where the fetched programs and schemas lie."""

from __future__ import annotations

from pathlib import Path

from tests.support.tools import missing
from tests.system.deploy.install import TOOLS


def fetched(name: str) -> Path:
    """Return the path of what `tests.system.deploy.install` fetched."""
    path = TOOLS / name
    return path if path.exists() else missing(f"{name} is missing: python -m tests.system.deploy.install fetches it")
