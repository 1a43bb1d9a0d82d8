"""What jobs use of this host, on made trees."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pulsed.config.configuration import load
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.events import EventsFeature
from pulsed.daemon.job_host_usage import JobHostReader
from pulsed.model.host import JobHostUsage
from pulsed.model.target_store import Target, TargetStore
from tests.compute.streams import BUSY
from tests.daemon.parts import feature_parts
from tests.owners.accounting.streams import Node, job
from tests.support.host_tree import HostTree

JOB = job("4711")


@pytest.mark.parametrize(
    ("kind", "names", "is_read"),
    [
        ("dcgmi", ("localhost",), True),
        ("exporter", ("http://localhost:9400/metrics",), True),
        ("exporter", ("http://gpu02:9400/metrics",), False),
        ("exporter", ("http://localhost:9400/metrics", "http://gpu02:9400/metrics"), False),
        ("demo", ("demo",), False),
    ],
)
async def test_only_control_groups_of_own_jobs_are_read(
    tmp_path: Path, kind: str, names: tuple[str, ...], is_read: bool
) -> None:
    """Slurm gives a job of several nodes one id, and a fleet's pulsed sees jobs that are not here."""
    HostTree(tmp_path).write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/cpu.stat", "usage_usec 90000000\n")
    store = TargetStore("n1", [Target(kind, name, 1.0, 3.0) for name in names])
    config = load(None, (f"source.kind={kind}", f"host.root={tmp_path}"), {})
    parts = feature_parts(store, config, EventsFeature, AccountsFeature)
    node = Node(accounting=parts.feature(AccountsFeature).accounting)
    node.sees(((JOB,), BUSY))
    with closing(JobHostReader(parts)) as reader:
        await reader.read()
    assert node.running(JOB).host == (JobHostUsage(90.0) if is_read else None)
