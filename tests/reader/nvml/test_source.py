from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pulsed.daemon_thread import DaemonThread
from pulsed.errors import DriverHung, DriverUnavailable, NvmlMissing
from pulsed.reader.nvml.settings import NvmlSettings
from pulsed.reader.nvml.source import NvmlSource
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import LoadedStandin
from tests.support.sources import FakeClock, arrivals, cancel_read
from tests.support.waiting import eventually


@asynccontextmanager
async def source(
    settings: NvmlSettings | None = None,
    clock: FakeClock | None = None,
    pause: Callable[[float], object] | None = None,
) -> AsyncIterator[NvmlSource]:
    clock = clock or FakeClock(100.0)
    made = NvmlSource(
        settings,
        DaemonThread("nvml"),
        clock=clock.clock,
        wall=clock.wall,
        sleep=clock.sleep,
        pause=pause or clock.pause,
    )
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def h100(nvml: LoadedStandin) -> LoadedStandin:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    return nvml


async def test_ticks_come_at_the_interval_and_missed_ones_are_left_out(h100: LoadedStandin) -> None:
    clock = FakeClock(100.0)
    async with source(NvmlSettings(interval=0.5), clock) as nvml:
        found = await arrivals(nvml, clock, [0.0, 0.2, 0.8, 0.0, 7.0, 0.0])
    assert found == [100.0, 100.5, 101.0, 101.8, 102.0, 109.0], "a late tick costs no other one"


async def test_a_tick_has_the_time_at_which_it_was_read(h100: LoadedStandin) -> None:
    clock = FakeClock(100.0)
    async with source(clock=clock) as nvml:
        tick = await nvml.read()
    assert (tick.time, tick.clock, tick.interval, tick.target) == (clock.wall(), 100.0, 1.0, "libnvidia-ml.so.1")


async def test_the_epoch_of_xids_is_the_start_of_the_source(h100: LoadedStandin) -> None:
    epochs = []
    for begin in (100.0, 200.0):
        async with source(clock=FakeClock(begin)) as nvml:
            ticks = [await nvml.read() for _ in range(2)]
        assert ticks[0].epoch is ticks[1].epoch
        assert ticks[0].epoch.engine == ticks[0].epoch.exporter != ""
        epochs.append(ticks[0].epoch)
    assert epochs[0] != epochs[1]


async def test_a_cancelled_read_may_be_repeated(h100: LoadedStandin) -> None:
    clock = FakeClock(100.0)
    async with source(clock=clock) as nvml:
        await nvml.read()
        await cancel_read(nvml, clock)
        assert (await nvml.read()).values


async def test_a_hung_driver_is_an_error_and_works_again_when_the_call_returns(h100: LoadedStandin) -> None:
    async with source(NvmlSettings(timeout=0.2)) as nvml:
        await nvml.read()
        h100.write(nvmlDeviceGetUtilizationRates_delay_us=2_000_000)
        with pytest.raises(DriverHung):
            await nvml.read()
        with pytest.raises(DriverHung):
            await nvml.read()
        h100.write(nvmlDeviceGetUtilizationRates_delay_us=0)
        tick = None
        while tick is None:
            with contextlib.suppress(DriverHung):
                tick = await nvml.read()
        assert tick.values


async def test_the_first_tick_and_those_after_an_error_may_take_longer(h100: LoadedStandin) -> None:
    async def slow_tick() -> None:
        h100.write(nvmlDeviceGetUtilizationRates_delay_us=900_000)
        await nvml.read()

    async with source(NvmlSettings(timeout=0.6)) as nvml:
        await slow_tick()
        h100.write(all_error=9, nvmlDeviceGetUtilizationRates_delay_us=0)
        with pytest.raises(DriverUnavailable):
            await nvml.read()
        h100.write(all_error=0)
        await slow_tick()
        with pytest.raises(DriverHung, match=r"for 0\.6 s"):
            await nvml.read()


async def test_the_event_loop_runs_during_a_hang_and_close_does_not_wait_for_it(h100: LoadedStandin) -> None:
    async with source(NvmlSettings(timeout=30.0)) as nvml:
        await nvml.read()
        h100.write(nvmlDeviceGetMemoryInfo_v2_delay_us=1_500_000)
        hung = asyncio.ensure_future(nvml.read())
        await asyncio.sleep(0.1)
        assert not hung.done()
        hung.cancel()
        h100.write(nvmlDeviceGetMemoryInfo_v2_delay_us=0)
        await nvml.close()
        # The thread shuts NVML down as soon as the call returns.
        await eventually(lambda: h100.count("initialized") == 0)


async def test_an_error_is_followed_by_a_new_initialization(h100: LoadedStandin) -> None:
    async with source() as nvml:
        await nvml.read()
        h100.write(all_error=9)
        with pytest.raises(DriverUnavailable):
            await nvml.read()
        h100.write(all_error=0)
        assert (await nvml.read()).values


FAST = NvmlSettings(interval=0.1)


class Gate:
    """Waits, when called in a thread, until it is opened."""

    def __init__(self) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()
        self.is_reached, self.open = self._reached.is_set, self._opened.set

    def __call__(self) -> None:
        self._reached.set()
        self._opened.wait()


class Pauses:
    """The pauses of batches. In the pause of number `at`, from 1, `then` is called."""

    def __init__(self, clock: FakeClock, at: int = 0, then: Callable[[], object] = lambda: None) -> None:
        self._clock, self._at, self._then, self.count = clock, at, then, 0

    def __call__(self, seconds: float) -> None:
        self.count += 1
        self._clock.pause(seconds)
        if self.count == self._at:
            self._then()


async def test_held_ticks_are_read_on_time_without_the_loop(h100: LoadedStandin) -> None:
    clock = FakeClock(100.0)
    pauses = Pauses(clock)
    async with source(FAST, clock, pauses) as nvml:
        nvml.hold = lambda: 0.95
        ticks = [await nvml.read() for _ in range(21)]
    assert [tick.clock for tick in ticks] == [pytest.approx(100.0 + number / 10) for number in range(21)]
    assert [tick.time - tick.clock for tick in ticks] == [pytest.approx(clock.wall() - clock.now)] * 21
    assert clock.slept == [0.0], "the first tick does not wait"
    assert pauses.count == 10, "no tick that repeats the one before wakes anything"


async def test_what_a_batch_has_so_far_can_be_taken(h100: LoadedStandin) -> None:
    clock, gate = FakeClock(100.0), Gate()
    async with source(FAST, clock, Pauses(clock, 3, gate)) as nvml:
        await nvml.read()
        nvml.hold = lambda: 0.95
        rest = asyncio.ensure_future(nvml.read())
        await eventually(gate.is_reached)
        taken = list(nvml.release())
        assert len(taken) == 4
        assert not nvml.release()
        gate.open()
        taken += [await rest, *nvml.release()]
    assert [tick.clock for tick in taken] == [pytest.approx(100.1 + number / 10) for number in range(len(taken))]
    assert len(taken) == 4 + 10, "the first one that waits is the fifth"


async def test_an_error_comes_after_the_ticks_before_it(h100: LoadedStandin) -> None:
    clock = FakeClock(100.0)
    async with source(FAST, clock, Pauses(clock, 4, lambda: h100.write(all_error=9))) as nvml:
        await nvml.read()
        nvml.hold = lambda: 0.95
        await nvml.read()
        assert len(nvml.release()) == 6, "with the one before the error, which repeats a sample"
        for _ in range(2):
            with pytest.raises(DriverUnavailable):
                await nvml.read()
        h100.write(all_error=0)
        assert (await nvml.read()).values


async def test_a_driver_that_hangs_in_a_batch_is_an_error_after_the_ticks_before(h100: LoadedStandin) -> None:
    clock, gate = FakeClock(100.0), Gate()
    async with source(NvmlSettings(interval=0.2, timeout=1.5), clock, Pauses(clock, 3, gate)) as nvml:
        await nvml.read()
        nvml.hold = lambda: 0.95
        found = [await nvml.read(), await nvml.read()]
        with pytest.raises(DriverHung):
            await nvml.read()
        gate.open()
        while len(found) < 3:
            with contextlib.suppress(DriverHung):
                found.append(await nvml.read())
    assert found[0].clock < found[1].clock < found[2].clock


async def test_a_cancelled_batch_ends_and_loses_no_tick(h100: LoadedStandin) -> None:
    clock, gate = FakeClock(100.0), Gate()
    pauses = Pauses(clock, 3, gate)
    async with source(FAST, clock, pauses) as nvml:
        await nvml.read()
        nvml.hold = lambda: 0.95
        rest = asyncio.ensure_future(nvml.read())
        await eventually(gate.is_reached)
        rest.cancel()
        await asyncio.wait({rest})
        gate.open()
        assert [(await nvml.read()).clock for _ in range(4)] == [pytest.approx(100.1 + at / 10) for at in range(4)]
        nvml.hold = float
        await nvml.read()
        assert pauses.count == 3, "the batch has ended"


async def test_without_nvidia_ml_py_the_remedy_is_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    async with source() as nvml:
        with pytest.raises(NvmlMissing, match=r"pip install 'pulsed\[nvml\]'"):
            await nvml.read()
