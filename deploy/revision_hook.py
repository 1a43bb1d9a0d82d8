"""Write the revision of the sources into wheel and sdist, where `pulsed/__init__.py` reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RevisionHook(BuildHookInterface):
    """Adds `pulsed/REVISION`, from the variable REVISION or git; a wheel that is built from an sdist has that one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, except to an editable installation."""
        revision = os.environ.get("REVISION", "") or self._of_git()
        if version == "editable" or not revision or (Path(self.root) / "pulsed/REVISION").exists():
            return
        file = self._file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{revision}\n", encoding="utf-8")
        build_data["force_include"][str(file)] = "pulsed/REVISION"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file, which is in the package now."""
        self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return Path(self.directory) / "REVISION"

    def _of_git(self) -> str:
        try:
            command = ["git", "rev-parse", "HEAD"]
            done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        except OSError:
            return ""
        return done.stdout.strip()
