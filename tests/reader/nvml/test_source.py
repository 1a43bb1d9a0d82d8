from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pulsed.daemon_thread import DaemonThread
from pulsed.errors import DriverHung, DriverUnavailable, NvmlMissing
from pulsed.reader.nvml import NvmlSettings
from pulsed.reader.nvml.source import NvmlSource
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import LoadedStandin
from tests.support.sources import FakeClock, arrivals, cancel_read
from tests.support.waiting import eventually


@asynccontextmanager
async def source(settings: NvmlSettings | None = None, clock: FakeClock | None = None) -> AsyncIterator[NvmlSource]:
    clock = clock or FakeClock(100.0)
    made = NvmlSource(settings, DaemonThread("nvml"), clock=clock.clock, wall=clock.wall, sleep=clock.sleep)
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
        assert ticks[0].epoch == ticks[1].epoch
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


async def test_without_nvidia_ml_py_the_remedy_is_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    async with source() as nvml:
        with pytest.raises(NvmlMissing, match=r"pip install 'pulsed\[nvml\]'"):
            await nvml.read()
