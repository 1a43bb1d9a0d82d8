"""The prolog and epilog of deploy/slurm in real shells, and under a real Slurm whose jobs a real daemon shows."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pulsed.owners.attribution.mapping_directory import MappingDirectory
from tests.support.daemon import serving
from tests.support.slurm import slurm
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until

SCRIPTS = Path(__file__).parents[3] / "deploy" / "slurm"
SHELLS = {"bash": ["bash"], "dash": ["dash"], "busybox": ["busybox", "sh"]}
PAGE = "".join(f'DCGM_FI_DEV_POWER_USAGE{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="H100"}} 70\n' for gpu in range(3))


def run(script: str, jobs: Path, shell: str = "dash", **environment: str) -> str:
    """Run a script as slurmd does, and return the errors that it logged."""
    program, *arguments = SHELLS[shell]
    done = subprocess.run(
        [tool(program, program), *arguments, SCRIPTS / script],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={"PULSED_JOBS": str(jobs)} | environment,
    )
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


def names(jobs: Path) -> set[str]:
    return {path.name for path in jobs.iterdir()} if jobs.exists() else set()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_is_written_as_the_directory_is_read(tmp_path: Path, shell: str) -> None:
    jobs = tmp_path / "run" / "jobs"
    job = {"SLURM_JOB_ID": "4712", "SLURM_JOB_UID": "1003", "SLURM_JOB_USER": "ann", "SLURM_JOB_GPUS": "0,3"}
    job |= {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "7", "SLURM_JOB_ACCOUNT": "lab"}
    job |= {"SLURM_JOB_PARTITION": "gpu", "SLURM_CLUSTER_NAME": "hpc", "SLURM_JOB_START_TIME": "1767225600"}
    job |= {"SLURM_JOB_NAME": "a $(touch x) `id` 'b'\njob_id=1\u2028user=root", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert run("prolog.sh", jobs, shell, **job) == ""
    assert names(jobs) == {"0::4712", "3::4712"}
    claims = MappingDirectory(str(jobs)).read_files()
    assert claims is not None
    assert claims.owners.keys() == {"0", "3"}
    (owner,) = claims.owners["3"]
    assert (owner.id, owner.begin, owner.user, owner.user_id) == ("4711_7", 1767225600.0, "ann", "1003")
    assert (owner.account, owner.partition, owner.cluster) == ("lab", "gpu", "hpc")
    assert owner.name == "a $(touch x) `id` 'b' job_id=1\u2028user=root"
    other = {"SLURM_JOB_ID": "12", "SLURM_JOB_GPUS": "3"}
    run("prolog.sh", jobs, shell, **other)
    shared = MappingDirectory(str(jobs)).read_files()
    assert shared is not None
    assert [owner.id for owner in shared.owners["3"]] == ["12", "4711_7"]
    run("epilog.sh", jobs, shell, **job)
    assert names(jobs) == {"3::12"}
    run("epilog.sh", jobs, shell, **other)
    assert names(jobs) == set()
    assert run("epilog.sh", jobs, shell, **other) == ""


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SLURM_JOB_GPUS": "1", "PULSED_DEVICE_PREFIX": "nvidia"}, {"nvidia1::5"}),
        ({"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, {"GPU-a::5", "GPU-b::5"}),
        ({"SLURM_JOB_GPUS": "9", "CUDA_VISIBLE_DEVICES": "MIG-c", "PULSED_DEVICE_PREFIX": "nvidia"}, {"MIG-c::5"}),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, set()),
        ({"SLURM_JOB_GPUS": "*"}, {"*::5"}),
        ({}, set()),
    ],
)
def test_the_devices_of_a_job(tmp_path: Path, environment: dict[str, str], expected: set[str]) -> None:
    assert run("prolog.sh", tmp_path, SLURM_JOB_ID="5", **environment) == ""
    assert names(tmp_path) == expected


def test_what_fails_is_logged_and_never_fails_a_job(tmp_path: Path) -> None:
    logger = tmp_path / "logger"
    logger.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/log\n')
    logger.chmod(0o755)
    (tmp_path / "file").write_text("")
    path = f"{tmp_path}:/usr/bin:/bin"
    run("prolog.sh", tmp_path / "file" / "jobs", SLURM_JOB_ID="5", SLURM_JOB_GPUS="0", PATH=path)
    run("prolog.sh", tmp_path / "jobs", SLURM_JOB_GPUS="0", PATH=path)
    run("prolog.sh", tmp_path / "jobs", SLURM_JOB_ID="5", CUDA_VISIBLE_DEVICES="MIG-GPU-a/1/0,GPU-b", PATH=path)
    assert (tmp_path / "log").read_text().splitlines() == [
        f"-t pulsed-prolog job 5: cannot make {tmp_path}/file/jobs",
        "-t pulsed-prolog job : no SLURM_JOB_ID: this is not run by slurmd",
        f"-t pulsed-prolog job 5: cannot write {tmp_path}/jobs/MIG-GPU-a/1/0::5",
    ]
    assert names(tmp_path / "jobs") == {"GPU-b::5"}
    without_logger = run("prolog.sh", tmp_path / "file" / "jobs", SLURM_JOB_ID="5", SLURM_JOB_GPUS="0", PATH="")
    assert without_logger.startswith("pulsed-prolog: job 5: cannot make")


def hooks(folder: Path, jobs: Path) -> dict[str, Any]:
    """Return the options of slurm.conf for scripts that use this directory."""
    made = {}
    for name in ("prolog", "epilog"):
        made[name.title()] = hook = folder / name
        hook.write_text(f'#!/bin/sh\nPULSED_JOBS={jobs} exec "{SCRIPTS}/{name}.sh"\n')
        hook.chmod(0o755)
    return made


def test_jobs_that_share_a_gpu_under_a_real_slurm(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    with slurm(tmp_path / "slurm", gpus=1, shards=4, PrologFlags="Alloc", **hooks(tmp_path, jobs)) as cluster:
        options = ("sbatch", "--parsable", "--output=/dev/null", "--gres=shard:2", "--wrap=sleep 600")
        first, second = cluster.run(*options), cluster.run(*options)
        until(lambda: names(jobs) == {f"0::{first}", f"0::{second}"})
        claims = MappingDirectory(str(jobs)).read_files()
        assert claims is not None
        assert {owner.id for owner in claims.owners["0"]} == {first, second}
        cluster.run("scancel", first)
        until(lambda: names(jobs) == {f"0::{second}"})


def test_the_owners_of_gpus_under_a_real_slurm(tmp_path: Path) -> None:
    jobs, page = tmp_path / "jobs", tmp_path / "page.prom"
    page.write_text(PAGE)
    settings = ["source.kind=exporter", "source.interval=1", f"source.exporter.targets={page}"]
    settings += [f"attribution.jobs.directories={jobs}", "attribution.jobs.interval=50ms"]
    with (
        slurm(tmp_path / "slurm", gpus=3, PrologFlags="Alloc", **hooks(tmp_path, jobs)) as cluster,
        serving(tmp_path, *(f"--set={each}" for each in settings)) as daemon,
    ):

        def submit(*options: str) -> str:
            return cluster.run("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 600")

        def owners() -> list[str | None]:
            found: list[str | None] = [each["attribution"]["slurm_job"] for each in daemon.get("/gpus").json()["gpus"]]
            return found

        train = submit("--gres=gpu:2", "--requeue")
        until(lambda: len(names(jobs)) == 2)
        array = submit("--gres=gpu:1", "--array=7")
        until(lambda: len(names(jobs)) == 3)
        without = submit()
        until(lambda: cluster.run("squeue", "--noheader", "--format=%T", f"--jobs={without}") == "RUNNING")
        assert names(jobs) == {f"0::{train}", f"1::{train}", f"2::{array}"}
        until(lambda: owners()[:2] == [train, train] and owners()[2] is not None)
        assert owners()[2] in (array, f"{array}_7")  # the prolog has the array from Slurm 23.02 on

        written = (jobs / f"0::{train}").stat().st_mtime_ns
        cluster.run("scontrol", "requeue", train)
        until(lambda: names(jobs) == {f"2::{array}"})
        until(lambda: owners()[:2] == [None, None])
        until(lambda: cluster.run("squeue", "--noheader", "--format=%T", f"--jobs={train}") == "PENDING")
        # Not in the second in which it was killed: slurmd takes such a start for one that was revoked.
        cluster.run("scontrol", "update", f"JobId={train}", "StartTime=now+2")
        until(lambda: names(jobs) == {f"0::{train}", f"1::{train}", f"2::{array}"})
        assert (jobs / f"0::{train}").stat().st_mtime_ns > written
        until(lambda: owners()[:2] == [train, train])

        cluster.run("scancel", array)
        until(lambda: owners()[2] is None)
        cluster.run("scancel", train, without)
        until(lambda: not cluster.jobs())
        assert names(jobs) == set()
        until(lambda: owners() == [None, None, None])
        assert "DRAIN" not in cluster.node()["State"]


def test_the_times_of_accounts_are_those_of_sacct(tmp_path: Path) -> None:
    """Two jobs on three GPUs; an account ends when the epilog has run and the next sample is there."""
    jobs, page = tmp_path / "jobs", tmp_path / "page.prom"
    page.write_text(PAGE)
    settings = ["source.kind=exporter", "source.interval=1", f"source.exporter.targets={page}"]
    settings += [f"attribution.jobs.directories={jobs}", "attribution.jobs.interval=50ms"]
    completed: dict[str, Any] = {"JobCompType": "jobcomp/filetxt", "JobCompLoc": tmp_path / "completed"}
    with (
        slurm(tmp_path / "slurm", gpus=3, PrologFlags="Alloc", **completed, **hooks(tmp_path, jobs)) as cluster,
        serving(tmp_path, *(f"--set={each}" for each in settings)) as daemon,
    ):
        sizes = {
            cluster.run(
                "sbatch", "--parsable", "--output=/dev/null", f"--gres=gpu:{gpus}", f"--wrap=sleep {gpus * 4}"
            ): gpus
            for gpus in (1, 2)
        }
        columns = ("sacct", "--completion", "--noheader", "--parsable2", "--format=JobID,Start,End,State")
        until(lambda: cluster.run(*columns).count("COMPLETED") == len(sizes))
        until(lambda: not names(jobs))
        rows = dict(row.split("|", 1) for row in cluster.run(*columns).splitlines())
        for job, gpus in sizes.items():
            until(lambda job=job: daemon.get(f"/jobs/{job}").json()["end"] is not None)  # type: ignore[misc]
            words = (sys.executable, "-m", "pulsed", "job", job, f"http://{daemon.address}", "--format=json")
            account = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=SECONDS).stdout)
            start, end, _ = rows[job].split("|")
            for ours, theirs in ((account["begin"], start), (account["end"], end)):
                moment = datetime.fromisoformat(ours.replace("Z", "+00:00")).timestamp()
                assert abs(moment - datetime.fromisoformat(theirs).timestamp()) < 3, (account, rows[job])
            assert len(account["gpus"]) == gpus


def test_each_name_of_a_job_finds_its_account(tmp_path: Path) -> None:
    """An array, jobs with shards of a GPU, one that is requeued, and an epilog that does nothing.

    The components of a heterogeneous job need a node each, which a cluster on one machine does not have.
    """
    jobs, page, state = tmp_path / "jobs", tmp_path / "page.prom", tmp_path / "state"
    watts = count(70)

    def write() -> None:
        """Write a page whose values have changed, as those of a working GPU."""
        rows = (f'DCGM_FI_DEV_POWER_USAGE{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="H100"}}' for gpu in range(5))
        new, value = page.with_suffix(".new"), next(watts)
        new.write_text("".join(f"{row} {value}\n" for row in rows))
        new.rename(page)

    write()
    settings = ["source.kind=exporter", "source.interval=1", f"source.exporter.targets={page}", f"state_dir={state}"]
    settings += [f"attribution.jobs.directories={jobs}", "attribution.jobs.interval=50ms"]
    scripts = hooks(tmp_path, jobs)
    scripts["Epilog"].write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/broken ] && exit 0\nPULSED_JOBS={jobs} exec {SCRIPTS}/epilog.sh\n"
    )
    with (
        slurm(tmp_path / "slurm", gpus=5, shards=20, PrologFlags="Alloc", **scripts) as cluster,
        serving(tmp_path, *(f"--set={each}" for each in settings), SLURM_CONF=cluster.configuration) as daemon,
    ):

        def submit(*options: str) -> str:
            return cluster.run("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 600")

        def account(name: str) -> Any:
            write()
            answer = daemon.get(f"/jobs/{name}")
            return answer.json() if answer.status == 200 else {"gpus": [], "total": {"gpu_seconds": 0.0}, "state": ""}

        def raw_ids(job: str) -> list[str]:
            return cluster.run("squeue", "--noheader", "--format=%A", f"--jobs={job}").split()

        def gpus(name: str) -> set[str]:
            return {gpu["gpu"] for gpu in account(name)["gpus"]}

        array = submit("--gres=gpu:1", "--array=1-2")
        until(lambda: len(names(jobs)) == 2)
        most, least = submit("--gres=shard:3"), submit("--gres=shard:1")
        until(lambda: len(names(jobs)) == 4)

        # A task has one GPU, and the array two; each by all of its names.
        until(lambda: len(gpus(array)) == 2)
        assert gpus(f"{array}_1") | gpus(f"{array}_2") == gpus(array)
        assert gpus(f"{array}_1") != gpus(f"{array}_2")
        ids = {task: raw_id for task in ("1", "2") for raw_id in raw_ids(f"{array}_{task}") if raw_id != array}
        assert ids, "the last task has the id of the array"
        for task, raw_id in ids.items():
            assert gpus(raw_id) == gpus(f"{array}_{task}")
        until(lambda: len(gpus(most)) == 1 and len(gpus(least)) == 1)
        assert gpus(f"{most}.0") == gpus(most) == gpus(least)
        words = (sys.executable, "-m", "pulsed", "job", f"{array}_2", f"http://{daemon.address}", "--format=json")
        printed = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=SECONDS).stdout)
        assert {gpu["gpu"] for gpu in printed["gpus"]} == gpus(f"{array}_2")

        # Shards are parts of the GPU, whatever the jobs do.
        until(lambda: (account(most)["total"].get("allocated_gpu_seconds") or 0.0) >= 2.0)
        total = account(most)["total"]
        assert total["lower"]["observed_seconds"] in (None, 0.0)
        until(lambda: (account(least)["total"].get("allocated_gpu_seconds") or 0.0) >= 1.0)

        # The epilog of the first does nothing: its file stays, and the next job there shows that it has ended.
        (tmp_path / "broken").touch()
        cluster.run("scancel", most)
        until(lambda: most not in cluster.jobs())
        (tmp_path / "broken").unlink()
        third = submit("--gres=shard:3")
        until(lambda: f"::{third}" in " ".join(names(jobs)))
        assert any(name.endswith(f"::{most}") for name in names(jobs))
        until(lambda: account(most)["state"] == "ended")
        until(lambda: {gpu["shared_by"] for gpu in account(third)["gpus"]} == {2})
        assert account(third)["state"] == account(least)["state"] == "running"
        assert 'reason="stale_job"} 1' in daemon.get("/metrics").text

        # A job that is requeued has two accounts with one name, and the newest is its answer.
        cluster.run("scontrol", "requeue", third)
        until(lambda: account(third)["state"] == "ended")
        until(lambda: cluster.run("squeue", "--noheader", "--format=%T", f"--jobs={third}") == "PENDING")
        cluster.run("scontrol", "update", f"JobId={third}", "StartTime=now+2")
        until(lambda: account(third)["state"] == "running")
        assert len(account(third)["earlier"]) == 1
