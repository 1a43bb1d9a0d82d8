"""The targets, a module for each, and where their cases are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tools.fuzz.target import FuzzTarget

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))

REGRESSIONS = FOLDER.parents[2] / "tests" / "system" / "fuzz" / "regressions"
"""By target a folder of inputs that were findings once, each a file named for what was wrong."""


def load(name: str) -> FuzzTarget:
    """Import a target: the constant of its module."""
    target = getattr(import_module(f"{__name__}.{name}"), name.upper())
    assert isinstance(target, FuzzTarget)
    return target


def regressions(name: str) -> list[Path]:
    """Return the files with the former findings of a target."""
    return sorted((REGRESSIONS / name).glob("*"))
