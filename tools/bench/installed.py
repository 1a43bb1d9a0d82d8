"""Packages in folders of their own, installed by pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.bench.figure import Skipped

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"


def install(requirement: str, folder: Path) -> Path:
    """Install a package with what it needs, unless the folder exists; return the folder.

    Raises:
        Skipped: pip cannot install it, such as without a network.
    """
    if not folder.exists():
        new = folder.with_name("new")
        shutil.rmtree(new, ignore_errors=True)
        options = ["--quiet", "--disable-pip-version-check", "--root-user-action", "ignore", "--target", str(new)]
        result = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, requirement], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise Skipped(f"pip cannot install {requirement}: {result.stderr.strip()[-300:]}")
        new.rename(folder)
    return folder
