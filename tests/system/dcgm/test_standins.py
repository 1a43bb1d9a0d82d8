"""The stand-in of dcgmi prints what the real one has printed: headers, rows' cells and the list of GPUs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.dcgm import real_folder
from tests.support.standin.install import install
from tests.support.standin.scenario import Scenario, gpus

pytestmark = pytest.mark.slow

CAPTURES = ("fast", "prof", "nvlink", "errors", "violations", "limits", "texts", "fabric")


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_header_of_the_standin_is_that_of_dcgmi(capture: str, tmp_path: Path) -> None:
    path = real_folder() / "captures" / f"h100-{capture}.txt"
    origin = path.with_name(f"{path.name}.origin").read_text()
    fields = re.search(r"-e ([\d,]+)", origin)
    assert fields is not None
    dcgmi = install(tmp_path, Scenario(version="4.6.0", gpus=gpus("hopper", 2)))
    command = [dcgmi, "dmon", "-e", fields[1], "-c", "1", "-d", "100"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    real, ours = path.read_text().splitlines(), printed.stdout.splitlines()
    assert ours[0].split() == real[0].split(), "names"
    assert [name.start() for name in re.finditer(r"\S+", ours[0])] == [
        name.start() for name in re.finditer(r"\S+", real[0])
    ], "widths"
    assert [line.split()[:2] for line in ours[2:4]] == [line.split()[:2] for line in real[2:4]], "entities"
