"""Jobs that are looked up in a real Slurm, and with commands that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsed.model.owner import Owner
from pulsed.owners.attribution.mapping_directory import MappingDirectory
from pulsed.owners.attribution.slurm_queue import RETRY_SECONDS, SlurmQueue, parse_job
from pulsed.owners.attribution.source import Claims
from tests.support.slurm import SlurmCluster, slurm
from tests.support.waiting import SECONDS, eventually

JOB = Owner("slurm_job", "4711", 1.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm(tmp_path_factory.mktemp("slurm")) as made:
        yield made


def command(folder: Path, text: str) -> str:
    path = folder / "squeue"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{text}\n")
    path.chmod(0o755)
    return str(path)


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().split()) if (folder / "runs").exists() else 0


async def completed(source: MappingDirectory, key: str) -> Owner:
    """Return the owner of a device as soon as it has a name."""
    for _ in range(int(SECONDS / 0.05)):
        claims = await source.read()
        assert claims is not None
        if claims.owners[key][0].name:
            return claims.owners[key][0]
        await asyncio.sleep(0.05)
    raise AssertionError("the job was never completed")


async def test_jobs_of_a_real_slurm(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    options = ["sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "--wrap=sleep 600"]
    forged = "a b\nUserId=ann(7) Account=x\n9\x1fann\x1f7\x1fgpu\x1fx\x1fy"
    job = cluster.run(*options, "--account=lab", f"--job-name={forged}")
    array = cluster.run(*options, "--array=7", "--job-name=sweep")
    (tmp_path / "0").write_text(f"{job} 0")
    (tmp_path / "1").write_text(f"job_id={array}_7\nuser=ann\n")
    source = MappingDirectory(str(tmp_path), queue=SlurmQueue())
    owner = await completed(source, "0")
    assert (owner.id, owner.user, owner.user_id, owner.partition) == (job, "root", "0", "all")
    assert (owner.account, owner.name, owner.labels) == ("lab", "a b", ())
    owner = await completed(source, "1")
    assert (owner.id, owner.user, owner.name, owner.labels) == (
        f"{array}_7",
        "ann",
        "sweep",
        (("array", f"{array}_7"),),
    )
    await source.close()


async def test_each_job_is_looked_up_once_and_forgotten_at_its_end(tmp_path: Path) -> None:
    queue = SlurmQueue(command(tmp_path, r"printf '4711\037ann\0377\037gpu\037(null)\037train\n'"))
    claims = Claims({"0": (JOB,), "1": (JOB,)})
    await eventually(lambda: queue.complete(claims).owners["1"][0].name == "train")
    for _ in range(5):
        owner = queue.complete(claims).owners["0"][0]
    assert (owner.user, owner.user_id, owner.account, owner.partition) == ("ann", "7", "", "gpu")
    assert owner.continues(JOB)
    assert runs(tmp_path) == 1
    queue.complete(Claims())
    await eventually(lambda: queue.complete(claims).owners["0"][0].name == "train")
    assert runs(tmp_path) == 2


async def test_a_complete_job_is_not_looked_up(tmp_path: Path) -> None:
    queue = SlurmQueue(command(tmp_path, "exit 1"))
    whole = Owner("slurm_job", "1", user="a", user_id="1", account="l", partition="p", name="n")
    claims = Claims({"0": (whole,)})
    assert queue.complete(claims) is claims
    await queue.close()
    assert runs(tmp_path) == 0


@pytest.mark.parametrize("text", ["echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "", "echo x"])
async def test_a_job_that_slurm_does_not_have_stays_as_it_is(tmp_path: Path, text: str) -> None:
    queue, other = SlurmQueue(command(tmp_path, text)), Owner("slurm_job", "12")
    claims = Claims({"0": (JOB, other)})
    await eventually(lambda: queue.complete(claims) == claims and runs(tmp_path) == 2)
    await asyncio.sleep(0.2)
    assert queue.complete(claims) is claims
    assert runs(tmp_path) == 2


async def test_a_failing_controller_is_counted_and_left_alone_for_a_while(tmp_path: Path) -> None:
    now = [0.0]
    queue = SlurmQueue(command(tmp_path, "echo 'Unable to contact slurm controller' >&2; exit 1"), lambda: now[0])
    claims = Claims({"0": (JOB,)}, rejected={"bad_line": 1})
    await eventually(lambda: queue.complete(claims).rejected == {"bad_line": 1, "squeue": 1})
    for _ in range(5):
        assert queue.complete(claims) is claims
    assert runs(tmp_path) == 1
    now[0] = RETRY_SECONDS
    await eventually(lambda: queue.complete(claims).rejected == {"bad_line": 1, "squeue": 1})
    assert runs(tmp_path) == 2


async def test_a_hanging_controller_does_not_delay_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.owners.attribution.slurm_queue.SECONDS", 0.2)
    queue = SlurmQueue(command(tmp_path, "exec sleep 600"))
    claims = Claims({"0": (JOB,)})
    assert queue.complete(claims) is claims
    await eventually(lambda: queue.complete(claims).rejected == {"squeue": 1})


async def test_without_slurm_nothing_happens(tmp_path: Path) -> None:
    queue, claims = SlurmQueue(str(tmp_path / "squeue")), Claims({"0": (JOB,)})
    for _ in range(5):
        assert queue.complete(claims) is claims
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("text", ["", "\n", "1\x1fann", "slurm_load_jobs error"])
def test_output_without_a_job(text: str) -> None:
    assert parse_job(text) is None
