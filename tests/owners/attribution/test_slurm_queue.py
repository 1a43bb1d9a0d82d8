"""Jobs that are looked up in a real Slurm, and with commands that fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from pulsed.apps.doctor.source_check import check_attribution
from pulsed.model.clocks import Unix
from pulsed.model.owner import Owner
from pulsed.owners.attribution.mapping_directory import MappingDirectory, parse_job_file
from pulsed.owners.attribution.slurm_queue import (
    CHECK_SECONDS,
    RETRY_SECONDS,
    QueuedJob,
    SlurmQueue,
    parse_job,
    parts_of_gpus,
)
from pulsed.owners.attribution.source import Claims
from tests.support.slurm import SlurmCluster, slurm
from tests.support.waiting import SECONDS, eventually

JOB = Owner("slurm_job", "4711", Unix(1.0))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm(tmp_path_factory.mktemp("slurm")) as made:
        yield made


def command(folder: Path, text: str) -> str:
    path = folder / "squeue"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{text}\n")
    path.chmod(0o755)
    return str(path)


def squeued(name: str, raw_id: str, state: str = "RUNNING", gres: str = "N/A") -> str:
    """Return a line of squeue."""
    return "\x1f".join((name, raw_id, state, "ann", "7", "gpu", "(null)", gres, "gpu07", "train")) + "\n"


async def until(look: Callable[[], Awaitable[object]], expected: object) -> None:
    """Look until the result is the expected one."""
    for _ in range(int(SECONDS / 0.05)):
        if await look() == expected:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"it never was {expected}")


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
    owner = await completed(source, "nvidia0")
    assert (owner.id, owner.user, owner.user_id, owner.partition) == (job, "root", "0", "all")
    assert (owner.account, owner.name, owner.labels) == ("lab", "a b", ())
    owner = await completed(source, "1")
    assert (owner.id, owner.user, owner.name) == (f"{array}_7", "ann", "sweep")
    assert owner.labels == (("job_id", array),)
    await source.close()


async def test_each_job_is_looked_up_once_and_forgotten_at_its_end(tmp_path: Path) -> None:
    queue = SlurmQueue(
        command(tmp_path, r"printf '4711\0374711\037RUNNING\037ann\0377\037gpu\037(null)\037N/A\037gpu07\037train\n'")
    )
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


@pytest.mark.parametrize("text", ["", "echo x"])
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


@pytest.mark.parametrize("text", ["", "\n", "1\x1fann", "slurm_load_jobs error", squeued("11", "11")])
def test_output_without_a_job(text: str) -> None:
    assert parse_job(text, "1") == QueuedJob()


def test_the_tasks_of_an_array_and_the_components_of_a_job_are_distinguished() -> None:
    array = squeued("500_1", "501") + squeued("500_2", "500")
    components = squeued("700+0", "700") + squeued("700+1", "701")
    labels = {
        id: dict(details.labels)
        for id, text in (("501", array), ("500_2", array), ("500", array), ("701", components), ("700", components))
        if (details := parse_job(text, id).details)
    }
    assert labels == {
        "501": {"array": "500_1", "job_id": "501"},
        "500_2": {"array": "500_2", "job_id": "500"},
        "500": {"array": "500_2", "job_id": "500"},
        "701": {"component": "700+1", "job_id": "701"},
        "700": {"component": "700+0", "job_id": "700"},
    }


INVALID = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


@pytest.mark.parametrize("answer", [INVALID, rf"printf '{squeued('4711', '4711', 'TIMEOUT')}'"])
async def test_a_job_that_has_ended_is_no_owner_until_its_file_changes(tmp_path: Path, answer: str) -> None:
    """Two files name one device; the epilog of the first job did not run."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name in ("0::4711", "0::4712", "1::4711"):
        (folder / name).write_text(f"job_id={name[3:]}\n")
    program = command(tmp_path, f'case "$*" in *4711*) {answer} ;; *) echo later ;; esac')
    source = MappingDirectory(str(folder), queue=SlurmQueue(program))
    rejected: Counter[str] = Counter()

    async def owners() -> dict[str, list[str]]:
        claims = await source.read()
        assert claims is not None
        rejected.update(claims.rejected)
        return {key: [owner.id for owner in each] for key, each in claims.owners.items()}

    assert await owners() == {"0": ["4711", "4712"], "1": ["4711"]}
    await until(owners, {"0": ["4712"]})
    for _ in range(5):
        assert await owners() == {"0": ["4712"]}
    assert rejected["stale_job"] == 1
    (folder / "1::4711").write_text("job_id=4711\nuser=ann\n")
    assert await owners() == {"0": ["4711", "4712"], "1": ["4711"]}
    await source.close()


async def test_a_job_is_looked_up_again_later_and_when_it_gets_a_neighbour(tmp_path: Path) -> None:
    now = [0.0]
    program = command(tmp_path, rf"printf '{squeued('4711', '4711')}'")
    queue = SlurmQueue(program, lambda: now[0])
    claims = Claims({"0": (JOB,)})
    await eventually(lambda: queue.complete(claims).owners["0"][0].name == "train")
    now[0] = CHECK_SECONDS
    await eventually(lambda: bool(queue.complete(claims)) and runs(tmp_path) == 2)
    await eventually(lambda: queue.complete(claims).owners["0"][0].name == "train")
    shared = Claims({"0": (JOB, Owner("slurm_job", "4712"))})
    await eventually(lambda: bool(queue.complete(shared)) and runs(tmp_path) == 4)
    await queue.close()


async def test_doctor_names_the_jobs_whose_files_were_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name in ("0::4711", "0::4712"):
        (folder / name).write_text(f"job_id={name[3:]}\n")
    program = command(tmp_path, f'case "$*" in *4711*) {INVALID} ;; *) echo later ;; esac')
    checks = await check_attribution([MappingDirectory(str(folder), queue=SlurmQueue(program))], [])
    assert checks[0].note == "these jobs have ended and their files remain, see whether the epilog runs: 4711"


@pytest.mark.parametrize(
    ("gres", "of_node", "gpus"),
    [
        ("gres:shard:3", "gpu:4,shard:16", 0.75),
        ("gres/shard:nvidia_a100:1", "gpu:nvidia_a100:4(S:0-1),shard:nvidia_a100:16(S:0)", 0.25),
        ("gres/shard:6", "gpu:a100:2,gpu:h100:2,shard:16", 1.5),
        ("gres:mps:50", "gpu:2,mps:200", 0.5),
        ("gres:mps:50", "gpu:2", None),
        ("gres:gpu:2", "gpu:4,shard:16", None),
        ("", "gpu:4,shard:16", None),
    ],
)
def test_the_gpus_that_parts_are(gres: str, of_node: str, gpus: float | None) -> None:
    assert parts_of_gpus(gres, of_node) == gpus


async def test_the_parts_of_jobs_of_a_real_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share in the file of a job comes first."""
    with slurm(tmp_path / "slurm", gpus=2, shards=8) as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        options = ["sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 600"]
        jobs = [cluster.run(*options, f"--gres=shard:{shards}") for shards in (3, 1)]
        await eventually(lambda: cluster.run("squeue", "--noheader", "--format=%T").split() == ["RUNNING"] * 2)
        folder = tmp_path / "jobs"
        folder.mkdir()
        for number, job in enumerate(jobs):
            whole = f"job_id={job}\nuser=root\nuid=0\naccount=a\npartition=all\nname=n\n"
            (folder / f"0::{number}").write_text(whole)
        (folder / "1").write_text(f"job_id={jobs[1]}0\nshare=0.1\n")
        source = MappingDirectory(str(folder), queue=SlurmQueue())

        async def parts() -> list[float | None]:
            claims = await source.read()
            assert claims is not None
            return [owner.allocated for key in ("0", "1") for owner in claims.owners.get(key, ())]

        await until(parts, [0.75, 0.25])  # the last job does not exist
        await source.close()


@pytest.mark.parametrize(("text", "part"), [("0.75", 0.75), ("1", 1.0), ("0", None), ("1.5", None), ("half", None)])
def test_the_share_in_a_file(text: str, part: float | None) -> None:
    assert [owner.allocated for owner in parse_job_file(f"job_id=1\nshare={text}\n").owners] == [part]


async def test_without_sinfo_only_the_part_of_a_job_is_unknown(tmp_path: Path) -> None:
    queue = SlurmQueue(command(tmp_path, rf"printf '{squeued('4711', '4711', gres='gres:shard:3')}'"))
    claims = Claims({"0": (JOB,)})
    await eventually(lambda: queue.complete(claims).owners["0"][0].name == "train")
    assert queue.complete(claims).owners["0"][0].allocated is None
