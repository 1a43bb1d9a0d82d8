"""Compile the stand-in, script it, and load it into this process or a child."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pynvml
import pytest

from tests.support.nvml_standin.boards import Answers
from tests.support.tools import shared_library

SOURCE = Path(__file__).with_name("libnvidia-ml.c")
SCENARIO = "STANDIN_NVML_SCENARIO"
DRIVER = "580.105.08"


def compiled(folder: Path, *, old_driver: bool = False) -> Path:
    """Compile the library into a folder; needs a C compiler."""
    options = ["-DOLD_DRIVER"] if old_driver else []
    return shared_library(SOURCE, folder / "libnvidia-ml.so.1", *options)


class NvmlStandin:
    """A stand-in with its scenario file.

    Attributes:
        gpus: the answers of each GPU; a change counts from `write` on.
        more: further lines, such as `{"all.error": 999}`.
    """

    def __init__(self, library: Path, scenario: Path, gpus: Sequence[Answers] = ()) -> None:
        self.library, self.scenario, self.gpus = library, scenario, list(gpus)
        self.more: Answers = {}
        self.driver = DRIVER
        self.write()

    def write(self, **more: float | str) -> None:
        """Play the scenario as it is now, with further lines (`all_error` is `all.error`)."""
        self.more |= {key.replace("_error", ".error").replace("_delay", ".delay"): value for key, value in more.items()}
        lines: Answers = {"driver.version": self.driver, "count": len(self.gpus), **self.more}
        for index, answers in enumerate(self.gpus):
            lines |= {f"gpu{index}.{key}": value for key, value in answers.items()}
        fresh = self.scenario.with_suffix(".new")
        fresh.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
        fresh.replace(self.scenario)

    def reload_driver(self) -> None:
        """Unload and load the driver: no handle is valid any more."""
        self.write(**{"driver.generation": int(self.more.get("driver.generation", 0)) + 1})

    def environment(self) -> dict[str, str]:
        """Return the variables with which another process loads it."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), SCENARIO: str(self.scenario)}


class LoadedStandin(NvmlStandin):
    """A stand-in that this process has loaded, as nvidia-ml-py's library."""

    def count(self, name: str) -> int:
        """Return one of its counters: `initialized`, `samples`, `sets`, `misuses`, `calls`."""
        return ctypes.c_int.in_dll(pynvml.nvmlLib, f"standin_{name}").value

    def held(self) -> dict[str, int]:
        """Return what is not freed, and the misuses."""
        return {name: self.count(name) for name in ("initialized", "samples", "sets", "misuses")}


NOTHING_HELD = {"initialized": 0, "samples": 0, "sets": 0, "misuses": 0}


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadedStandin]:
    """The stand-in without a GPU, in this process; after the test, nothing may be held and nothing misused."""
    standin = LoadedStandin(nvml_library, tmp_path / "nvml.scenario")
    monkeypatch.setenv(SCENARIO, str(standin.scenario))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))  # other tests have no driver
    for name in NOTHING_HELD:
        ctypes.c_int.in_dll(pynvml.nvmlLib, f"standin_{name}").value = 0
    yield standin
    assert standin.held() == NOTHING_HELD
    assert os.environ[SCENARIO] == str(standin.scenario)
