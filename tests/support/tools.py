"""What tests need beyond Python: skipped with the reason on a user's machine where it is missing, a failure in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test, or fail it where the variable CI is set; `what` is missing here, and how to get it."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def tool(name: str, package: str) -> str:
    """Return the path of a program that a Debian package has."""
    return shutil.which(name) or missing(f"{name} is not installed: apt-get install {package}")


def shared_library(source: Path, path: Path, *options: str) -> Path:
    """Compile C to a shared library.

    It has no soname, by which loads in other tests of a process would find it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *options]
    subprocess.run([tool("cc", "gcc"), *flags, "-o", str(path), str(source)], check=True, timeout=120)
    return path
