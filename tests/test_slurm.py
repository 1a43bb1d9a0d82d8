"""The cluster of `tests.support.slurm` gives jobs and prologs what a real one gives them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import tests.support.slurm
from tests.support.daemon import free_port
from tests.support.slurm import NODE, slurm
from tests.support.waiting import until


def test_a_job_has_its_gpus_and_so_have_its_prolog_and_epilog(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(
        f'#!/bin/sh\necho "$SLURM_JOB_ID $SLURM_JOB_GPUS $SLURMD_NODENAME" >> {tmp_path}/"$SLURM_SCRIPT_CONTEXT"\n'
    )
    script.chmod(0o755)
    with slurm(tmp_path / "a", gpus=3, Prolog=script, Epilog=script) as one, slurm(tmp_path / "b") as other:
        assert other.node()["State"] == "IDLE"
        job = one.run("sbatch", "--parsable", "--gres=gpu:2", f"--output={tmp_path}/job", "--wrap", "env")
        until(lambda: not one.jobs())
        assert "CUDA_VISIBLE_DEVICES=0,1\n" in (tmp_path / "job").read_text()
        assert (tmp_path / "prolog_slurmd").read_text() == f"{job} 0,1 {NODE}\n"
        assert (tmp_path / "epilog_slurmd").read_text() == f"{job} 0,1 {NODE}\n"
        one.run("sbatch", "--gres=gpu:3", f"--output={tmp_path}/long", "--wrap", "sleep 600")
        until(lambda: "ALLOCATED" in one.node()["State"] or "MIXED" in one.node()["State"])


@pytest.mark.parametrize("place", [0, 1])
def test_a_port_that_another_program_took_costs_no_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    ports = [free_port() for _ in range(4)]
    with socket.create_server(("", ports[place])):
        monkeypatch.setattr(tests.support.slurm, "free_port", iter(ports).__next__)
        with slurm(tmp_path / "a") as cluster:
            assert cluster.node()["State"] == "IDLE"
            assert f"SlurmdPort={ports[3]}\n" in (cluster.folder / "slurm.conf").read_text()
