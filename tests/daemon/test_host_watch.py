"""Looks at this host go on whatever one of them meets; the rest is tested through the whole program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pulsed import background_tasks
from pulsed.background_tasks import FAILURES, BackgroundTasks
from pulsed.config.configuration import load
from pulsed.daemon.host_watch import HostWatch
from pulsed.host.kernel_files import read_pci_gpus
from pulsed.model.host import PciGpu
from pulsed.model.target_store import Target, TargetStore
from tests.daemon.parts import feature_parts
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
