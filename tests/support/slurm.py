"""A real Slurm cluster of one node: munged, slurmctld and slurmd as this user, with simulated GPUs.

    with slurm(tmp_path, gpus=2, Prolog=script, Epilog=script) as cluster:
        job = cluster.run("sbatch", "--parsable", "--gres=gpu:1", "--wrap", "sleep 60")
        until(lambda: cluster.node()["State"] == "MIXED")

Jobs, prologs and epilogs get what they get of a real cluster (SLURM_JOB_ID, SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES); the
GPUs are links to /dev/null. Ports, socket and state are the cluster's own, so that clusters run side by side.
Needs Debian's packages slurmctld, slurmd, slurm-client and munge; without them the test is skipped, or fails in CI.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemon import free_port
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until

NODE = "gpu07"
"""The name of the node, in Slurm and in SLURMD_NODENAME."""


CPUS = 16
"""Processors of the node: every job takes one."""


ATTEMPTS = 3
PORT_TAKEN = "Address already in use"
"""What a daemon logs when another program of this machine took its port since it was found free."""


@dataclass(frozen=True)
class SlurmCluster:
    """A running cluster.

    Attributes:
        folder: configuration, state and logs (`slurmctld.log`, `slurmd.log`) of the daemons.
    """

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands use this cluster."""
        return os.environ | {"SLURM_CONF": self.configuration}

    @property
    def configuration(self) -> str:
        """The file that SLURM_CONF names."""
        return str(self.folder / "slurm.conf")

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands, or any that runs such; return what it printed.

        Raises:
            AssertionError: it failed; the message is what it printed.
        """
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, env=self.environment
        )
        assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def node(self) -> dict[str, str]:
        """Return the fields of the node as `scontrol show node` prints them; Reason is absent if it has none."""
        text = self.run("scontrol", "show", "node", NODE, "--oneliner")
        text, _, reason = text.partition(" Reason=")
        fields = dict(field.partition("=")[::2] for field in text.split() if "=" in field)
        return fields | ({"Reason": reason} if reason else {})

    def jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended, those in their epilog included."""
        return self.run("squeue", "--noheader", "--format=%i").split()

    def log(self) -> str:
        """Return the logs of all three daemons."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@contextlib.contextmanager
def slurm(folder: Path, *, gpus: int = 2, shards: int = 0, **options: object) -> Iterator[SlurmCluster]:
    """Start a cluster, wait until its node is idle, and end it with its jobs afterwards.

    Args:
        folder: where everything of the cluster lies; empty or new.
        gpus: number of GPUs of the node.
        shards: number of shares of its GPUs, for `--gres=shard:1`.
        options: further lines of slurm.conf, as `Prolog=path`.
    """
    programs = [tool("munged", "munge"), tool("slurmctld", "slurmctld"), tool("slurmd", "slurmd")]
    tool("scontrol", "slurm-client")
    cluster = SlurmCluster(folder)
    with contextlib.ExitStack() as daemons:
        for _ in range(ATTEMPTS):
            folder.mkdir(parents=True, exist_ok=True)
            _configure(folder, gpus, shards, options)
            if _is_started(cluster, programs, daemons):
                break
            log = cluster.log()
            daemons.close()
            assert PORT_TAKEN in log, log
            shutil.rmtree(folder)
        else:
            raise AssertionError(log)
        try:
            yield cluster
        except BaseException:
            print(cluster.log(), file=sys.stderr)  # pytest shows it with the failure
            raise
        finally:
            if jobs := cluster.jobs():
                cluster.run("scancel", *jobs)
                until(lambda: not cluster.jobs())


def _is_started(cluster: SlurmCluster, programs: Sequence[str], daemons: contextlib.ExitStack) -> bool:
    """Start the daemons and wait until the node is idle; return whether none of them has ended."""
    folder = cluster.folder
    munged = [programs[0], "--foreground", "--force", f"--socket={folder}/munge", f"--key-file={folder}/munge.key"]
    munged += [f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge.seed", "--num-threads=2"]
    commands: Mapping[str, tuple[list[str], Callable[[], bool]]] = {
        "munged": (munged, (folder / "munge").exists),
        "slurmctld": ([programs[1], "-D"], lambda: _answers(cluster)),
        "slurmd": ([programs[2], "-D", "-N", NODE], lambda: cluster.node()["State"] == "IDLE"),
    }
    for name, (command, is_up) in commands.items():
        process = daemons.enter_context(_daemon(command, folder / f"{name}.log", cluster.environment))
        if not _comes_up(process, is_up):
            return False
    return True


def _comes_up(process: subprocess.Popen[bytes], is_up: Callable[[], bool]) -> bool:
    until(lambda: process.poll() is not None or is_up())
    return process.poll() is None


def _answers(cluster: SlurmCluster) -> bool:
    ping = subprocess.run(
        ["scontrol", "ping"], capture_output=True, text=True, timeout=SECONDS, check=False, env=cluster.environment
    )
    return "is UP" in ping.stdout


@contextlib.contextmanager
def _daemon(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _configure(folder: Path, gpus: int, shards: int, options: dict[str, object]) -> None:
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    for index in range(gpus):
        (folder / f"nvidia{index}").symlink_to("/dev/null")
    shared = f"Name=shard Count={shards}\n" if shards else ""
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/nvidia[0-{gpus - 1}] Flags=nvidia_gpu_env\n{shared}")
    lines = {
        "ClusterName": "test",
        "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)",
        "SlurmctldPort": free_port(),
        "SlurmdPort": free_port(),
        "SlurmUser": getpass.getuser(),
        "SlurmdUser": getpass.getuser(),
        "AuthInfo": f"socket={folder}/munge",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "ProctrackType": "proctrack/linuxproc",  # as the others below: no cgroups, no database
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "GresTypes": "gpu,shard" if shards else "gpu",
        "ReturnToService": 1,
        "SlurmdParameters": "config_overrides",  # more processors than the machine may have
        "SchedulerParameters": "sched_interval=1,bf_interval=1",  # not every minute
    } | options
    node = f"NodeName={NODE} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 CPUs={CPUS}"
    node += f" Gres=gpu:{gpus}" + (f",shard:{shards}" if shards else "")
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    (folder / "slurm.conf").write_text(f"{text}{node}\nPartitionName=all Nodes={NODE} Default=YES State=UP\n")
