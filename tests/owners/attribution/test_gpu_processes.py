"""Owners by the processes that use a GPU: real processes, with the numbers that a driver would list."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from pulsed.errors import ProcessesHidden
from pulsed.model.raw_tick import GpuProcess
from pulsed.owners.attribution.gpu_processes import KEPT_SECONDS, GpuProcessTable, ProcessOwners, are_visible, claims_of
from tests.support.sources import FakeClock

pytestmark = pytest.mark.skipif(not are_visible(), reason="the processes of the host are hidden here")


@pytest.fixture
def group() -> Iterator[tuple[int, int]]:
    """A process group: its leader, and another process of it."""
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    yield leader.pid, int(leader.stdout.readline())
    os.killpg(leader.pid, 9)
    leader.wait()
    leader.stdout.close()


def on(pid: int, uuid: str = "GPU-AA", mig_id: str = "") -> GpuProcess:
    return GpuProcess(pid, "0", uuid, mig_id)


def test_a_process_group_is_one_owner_of_all_its_gpus(group: tuple[int, int]) -> None:
    leader, member = group
    claims = claims_of((on(leader), on(member), on(member, "GPU-BB"), on(leader, "GPU-CC", "7")))
    assert set(claims.owners) == {"gpu-aa", "gpu-bb", "gpu-cc/7"}
    assert not claims.is_complete, "a GPU without a process may be held"
    (owner,) = claims.owners["gpu-aa"]
    assert (owner.kind, owner.id, owner.name) == ("process", str(leader), "sh")
    assert owner.user
    assert owner.user_id == str(os.getuid())
    assert owner.begin is not None
    assert abs(owner.begin - time.time()) < 600
    assert claims.owners["gpu-bb"] == claims.owners["gpu-cc/7"] == (owner,)


def test_processes_that_have_ended_own_nothing(group: tuple[int, int]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert claims_of((on(ended.pid),)).owners == {}


async def test_a_list_counts_until_the_next_or_for_a_minute(group: tuple[int, int]) -> None:
    clock = FakeClock(0.0)
    table = GpuProcessTable(clock.clock)
    source = ProcessOwners(table)
    assert await source.read() is None, "no source lists processes"
    table.update((on(group[0]),))
    claims = await source.read()
    assert claims is not None
    assert [owner.id for owner in claims.owners["gpu-aa"]] == [str(group[0])]
    table.update(())
    assert await source.read() == claims_of(())
    clock.now += KEPT_SECONDS + 1
    assert await source.read() is None
    await source.close()


def test_numbers_of_hidden_processes_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.owners.attribution.gpu_processes.are_visible", lambda: False)
    with pytest.raises(ProcessesHidden, match="hostPID"):
        claims_of((on(os.getpid()),))
    assert claims_of(()).owners == {}
