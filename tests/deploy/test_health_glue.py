"""The scripts for Slurm and node-problem-detector, run by a real shell with a `pulsed` and a `scontrol` made for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.waiting import SECONDS

GLUE = Path(__file__).parents[2] / "deploy" / "health"
LINE = "PULSED CRITICAL - node1 GPU 3 crit: xid_critical | gpus=8 crit=1"
DRAINED = "update NodeName=gpu07 State=DRAIN Reason=pulsed: PULSED CRITICAL - node1 GPU 3 crit: xid_critical "


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(script: str, folder: Path, verdict: int) -> subprocess.CompletedProcess[str]:
    pulsed = program(folder / "pulsed", f'echo "$@" >> {folder}/asked\necho "{LINE}"\nexit {verdict}')
    return subprocess.run(
        [GLUE / script],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "PULSED": str(pulsed), "SLURMD_NODENAME": "gpu07"},
    )


@pytest.mark.parametrize(
    ("verdict", "state", "done"),
    [
        (2, "State=IDLE", DRAINED),
        (2, "State=IDLE+DRAIN Reason=pulsed: earlier", ""),
        (2, "State=MIXED+DRAIN Reason=disk", ""),
        (0, "State=IDLE+DRAIN Reason=pulsed: earlier", "update NodeName=gpu07 State=RESUME"),
        (1, "State=IDLE+DRAIN Reason=pulsed: earlier", "update NodeName=gpu07 State=RESUME"),
        (0, "State=IDLE+DRAIN Reason=disk", ""),
        (0, "State=IDLE", ""),
        (1, "State=ALLOCATED", ""),
        (3, "State=IDLE", ""),
        (3, "State=IDLE+DRAIN Reason=pulsed: earlier", ""),
    ],
)
def test_slurm_drains_for_what_is_critical_only(tmp_path: Path, verdict: int, state: str, done: str) -> None:
    program(
        tmp_path / "scontrol",
        f'case $1 in show) echo "NodeName=gpu07 {state}" ;; *) echo "$@" >> {tmp_path}/changed ;; esac',
    )
    program(tmp_path / "logger", "exit 0")
    assert run("slurm-health-check.sh", tmp_path, verdict).returncode == 0
    changed = tmp_path / "changed"
    assert (changed.read_text().rstrip("\n") if changed.exists() else "") == done
    assert "health http://localhost:9401 --format line" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(("verdict", "code"), [(0, 0), (1, 0), (2, 1), (3, 2), (127, 2)])
def test_the_detector_hears_of_problems_and_of_ignorance(tmp_path: Path, verdict: int, code: int) -> None:
    done = run("node-problem-detector.sh", tmp_path, verdict)
    assert done.returncode == code
    assert done.stdout == "PULSED CRITICAL - node1 GPU 3 crit: xid_critical \n"


def test_the_detectors_configuration_names_the_script() -> None:
    config = json.loads((GLUE / "node-problem-detector.json").read_text())
    (rule,) = config["rules"]
    assert Path(rule["path"]).name in {path.name for path in GLUE.iterdir()}
    assert rule["condition"] in {condition["type"] for condition in config["conditions"]}
