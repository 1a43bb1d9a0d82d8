"""Compile the stand-in, script it, and read what it counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tools import shared_library
from tools.hardware.cublas import VARIABLE as CUBLAS

SOURCE = Path(__file__).with_name("libcuda.c")


class CudaStandin:
    """A stand-in for processes that are started with its variables, which are set in this process. It is cuBLAS, too.

    Args:
        folder: where it is compiled to, beside other libraries of the driver.
    """

    def __init__(self, folder: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._report, self._monkeypatch = report, monkeypatch
        self.library = folder / "libcuda.so.1"
        if not self.library.exists():
            shared_library(SOURCE, self.library)
        monkeypatch.setenv(CUBLAS, str(self.library))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
        self.set(report=str(report))

    def set(self, **values: object) -> None:
        """Set its variables: `error` ("FUNCTION CODE"), `round_ns`, `copy` (bytes/s), `flops` (FLOP/s)."""
        for name, value in values.items():
            self._monkeypatch.setenv(f"STANDIN_CUDA_{name.upper()}", str(value))

    def counted(self) -> tuple[int, int, int]:
        """Return what the last process left: resources that were not freed, misuses, and launches."""
        held, misuses, launches = map(int, self._report.read_text().split())
        return held, misuses, launches
