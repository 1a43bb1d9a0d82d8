from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from pulsed.errors import AttributionError
from pulsed.model.owner import MAX_SHARERS, Owner
from pulsed.owners.attribution import KEPT_SECONDS, Attribution
from pulsed.owners.attribution.source import Claims
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually

JOB, OTHER = Owner("slurm_job", "1"), Owner("slurm_job", "2")


@dataclass(eq=False)
class Scripted:
    """A source that returns what a test has set, and raises errors."""

    name: str
    answer: Claims | Exception | None = None
    interval: float = 0.001
    looks: int = 0
    closed: bool = False
    absence: str = ""

    async def read(self) -> Claims | None:
        self.looks += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed = True

    async def looked(self) -> None:
        """Wait until an answer that was set before is in force."""
        before = self.looks
        await eventually(lambda: self.looks >= before + 2)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def attribution(clock: ManualClock) -> AsyncIterator[Attribution]:
    made = Attribution(lambda: 1000.0, clock)
    yield made
    await made.stop()


async def test_a_device_has_a_limited_number_of_owners(attribution: Attribution) -> None:
    crowd = tuple(Owner("slurm_job", str(number)) for number in range(MAX_SHARERS + 1))
    source = Scripted("first", Claims({"0": crowd, "1": (JOB,)}))
    attribution.apply([source])
    await source.looked()
    assert attribution.find(["0"], None, is_local=True) == crowd[:MAX_SHARERS]
    assert attribution.find(["1"], None, is_local=True) == (JOB,)
    assert attribution.states[0].errors["too_many_owners"] > 0


async def test_the_first_source_with_an_owner_decides(attribution: Attribution) -> None:
    first = Scripted("first", Claims({"0": (JOB,)}))
    second = Scripted("second", Claims({"0": (OTHER,), "1": (OTHER,), "gpu-a": (JOB,)}))
    attribution.apply([first, second])
    await second.looked()
    assert attribution.find(["0"], None, is_local=True) == (JOB,)
    assert attribution.find(["1"], (JOB,), is_local=True) == (OTHER,)
    assert attribution.find(["gpu-a", "1"], None, is_local=True) == (JOB,)


async def test_labels_come_after_the_sources_of_this_host(attribution: Attribution) -> None:
    source = Scripted("only", Claims({}, is_complete=True))
    attribution.apply([source])
    await source.looked()
    assert attribution.find(["0"], (JOB,), is_local=True) == (JOB,)
    assert attribution.find(["0"], None, is_local=True) == ()
    assert attribution.find(["0"], None, is_local=False) is None


async def test_without_a_complete_source_a_gpu_without_owner_is_unknown(attribution: Attribution) -> None:
    source = Scripted("only", Claims({"1": (JOB,)}))
    attribution.apply([source])
    await source.looked()
    assert attribution.find(["0"], None, is_local=True) is None


async def test_a_source_that_fails_keeps_its_claims_for_a_while_and_affects_no_other(
    attribution: Attribution, clock: ManualClock
) -> None:
    bad, good = Scripted("bad", Claims({"0": (JOB,)})), Scripted("good", Claims({"1": (OTHER,)}))
    attribution.apply([bad, good])
    await good.looked()
    bad.answer = AttributionError("no", "do")
    await bad.looked()
    failed, up = attribution.states
    assert (failed.name, failed.up, failed.message, failed.last_success) == ("bad", False, "no. Do", 1000.0)
    assert failed.errors["unreadable"] >= 1
    assert up.up
    assert attribution.find(["0"], None, is_local=True) == (JOB,)
    clock.now += KEPT_SECONDS + 1
    await bad.looked()
    assert attribution.find(["0"], None, is_local=True) is None
    assert attribution.find(["1"], None, is_local=True) == (OTHER,)
    bad.answer = Claims({"0": (OTHER,)})
    await bad.looked()
    assert attribution.find(["0"], None, is_local=True) == (OTHER,)
    assert attribution.states[0].up


async def test_an_error_in_a_source_is_a_failure_of_that_source(attribution: Attribution) -> None:
    bad, good = Scripted("bad", KeyError("x")), Scripted("good", Claims({"1": (OTHER,)}))
    attribution.apply([bad, good])
    await bad.looked()
    await good.looked()
    assert attribution.states[0].errors["internal"] >= 1
    assert attribution.find(["1"], None, is_local=True) == (OTHER,)


async def test_what_this_host_does_not_have_is_no_failure_and_not_published(attribution: Attribution) -> None:
    source = Scripted("absent")
    attribution.apply([source])
    await source.looked()
    assert attribution.states == []
    assert attribution.version == 0


async def test_what_is_gone_again_is_down_and_its_claims_end_at_once(attribution: Attribution) -> None:
    source = Scripted("only", Claims({"0": (JOB,)}, is_complete=True))
    attribution.apply([source])
    await source.looked()
    source.answer = None
    await source.looked()
    assert [state.up for state in attribution.states] == [False]
    assert attribution.find(["0"], None, is_local=True) is None


async def test_the_version_grows_with_changes_only(attribution: Attribution) -> None:
    source = Scripted("only", Claims({"0": (JOB,)}))
    attribution.apply([source])
    await source.looked()
    version = attribution.version
    source.answer = Claims({"0": (JOB,)}, rejected={"bad_line": 1})
    await source.looked()
    assert attribution.version == version
    assert attribution.states[0].errors["bad_line"] >= 1
    source.answer = Claims({"0": (OTHER,)})
    await source.looked()
    assert attribution.version == version + 1


async def test_a_reload_keeps_equal_sources_and_closes_others(attribution: Attribution) -> None:
    kept, dropped = Scripted("kept", Claims({"0": (JOB,)})), Scripted("dropped", Claims({"1": (JOB,)}))
    attribution.apply([kept, dropped])
    await kept.looked()
    await dropped.looked()
    version = attribution.version
    attribution.apply([kept])
    await eventually(lambda: dropped.closed)
    assert attribution.version > version
    assert attribution.find(["1"], None, is_local=True) is None
    assert attribution.find(["0"], None, is_local=True) == (JOB,)
    assert not kept.closed
    await attribution.stop()
    assert kept.closed


async def test_a_slow_source_does_not_delay_others(attribution: Attribution) -> None:
    class Slow(Scripted):
        async def read(self) -> Claims | None:
            await asyncio.Event().wait()
            return None

    slow, good = Slow("slow"), Scripted("good", Claims({"1": (OTHER,)}))
    attribution.apply([slow, good])
    await good.looked()
    assert attribution.find(["1"], None, is_local=True) == (OTHER,)
