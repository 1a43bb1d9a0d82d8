"""Looks at this host go on whatever one of them meets; the rest is tested through the whole program."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from pulsed import background_tasks
from pulsed.background_tasks import FAILURES, BackgroundTasks
from pulsed.config.configuration import load
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.changes import EventsFeature
from pulsed.daemon.host_watch import HostWatch, JobHostReader
from pulsed.host.kernel_files import read_pci_gpus
from pulsed.model.health import NodeHealth
from pulsed.model.host import HostFacts, JobHostUsage, PciGpu
from pulsed.model.target_store import Target, TargetStore
from tests.compute.streams import BUSY
from tests.daemon.parts import feature_parts
from tests.owners.accounting.streams import Node, job
from tests.support.host_tree import HostTree


async def test_an_internal_error_ends_one_look_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    HostTree(tmp_path)
    store, looks = TargetStore("n", [Target("dcgmi", "localhost", 1.0, 3.0)]), asyncio.Semaphore(0)

    def read_gpus(root: Path) -> tuple[PciGpu, ...] | None:
        loop.call_soon_threadsafe(looks.release)
        if store.node_health is None and not caplog.records:
            raise RuntimeError("broken")
        return read_pci_gpus(root)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr("pulsed.daemon.host_watch.read_pci_gpus", read_gpus)
    config = load(None, ("source.kind=dcgmi", "host.interval=10ms", f"host.root={tmp_path}"), {})
    monkeypatch.setattr(background_tasks, "FIRST_PAUSE_SECONDS", 0.001)
    tasks = BackgroundTasks()
    tasks.start("host", HostWatch(feature_parts(store, config)).run)
    for _ in range(3):
        await looks.acquire()
    health = store.node_health
    await tasks.stop()
    assert "broken" in caplog.text
    assert FAILURES == {"host": 1}
    assert health is not None
    assert health.state == "ok", "no process is stuck"
    assert store.node_health is None, "nothing is known of the host any more"


class Looks(TargetStore):
    """A store whose looks at the host can be waited for."""

    def __init__(self, *targets: Target) -> None:
        super().__init__("n", list(targets))
        self.looks: asyncio.Queue[HostFacts | None] = asyncio.Queue()

    def set_host(self, host: HostFacts | None, health: NodeHealth | None) -> None:
        super().set_host(host, health)
        self.looks.put_nowait(host)


async def test_a_virtual_machine_is_found(tmp_path: Path) -> None:
    HostTree(tmp_path).write("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor lm\n")
    store = Looks(Target("dcgmi", "localhost", 1.0, 3.0))
    config = load(None, ("source.kind=dcgmi", "host.interval=10ms", f"host.root={tmp_path}"), {})
    tasks = BackgroundTasks()
    tasks.start("host", HostWatch(feature_parts(store, config)).run)
    facts = await store.looks.get()
    await tasks.stop()
    assert facts is not None
    assert (facts.is_virtual, facts.pci_drivers()) == (True, {})


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
