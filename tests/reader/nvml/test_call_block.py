from __future__ import annotations

import pynvml
import pytest

from pulsed.reader.nvml.call_block import CallBlock
from pulsed.reader.nvml.native_call import LongCall, NativeCall, call_all
from support.nvml_standin import boards
from support.nvml_standin.library import LoadedStandin

PLACES = {"clock": 0, "total": 1, "used": 2, "reasons": 3}
ROWS = {
    ("clock",): [NativeCall("nvmlDeviceGetClockInfo", arguments=(1,))],
    ("total", "used"): [
        NativeCall("nvmlDeviceGetMemoryInfo_v2", "8xQQQQ", version=2, order=(0, 3), divide=1048576.0),
        NativeCall("nvmlDeviceGetMemoryInfo", "QQQ"),
    ],
    ("reasons",): [
        NativeCall("nvmlDeviceGetNothing"),
        NativeCall("nvmlDeviceGetCurrentClocksEventReasons", "Q"),
    ],
}


@pytest.fixture
def block(nvml: LoadedStandin) -> CallBlock:
    nvml.gpus = [boards.hopper()]
    nvml.gpus[0]["reasons"] = 4
    nvml.write()
    pynvml.nvmlInit()
    made = CallBlock(pynvml, pynvml.nvmlDeviceGetHandleByIndex(0), ROWS, PLACES)
    pynvml.nvmlShutdown()
    return made


def read(nvml: LoadedStandin, block: CallBlock) -> list[float | None]:
    values: list[float | None] = [None] * len(PLACES)
    pynvml.nvmlInit()
    try:
        block.read(values)
    finally:
        pynvml.nvmlShutdown()
    return values


def test_results_of_different_sizes_lie_side_by_side(nvml: LoadedStandin, block: CallBlock) -> None:
    assert read(nvml, block) == [1980, 81559.0, 40_000.0, 4]
    assert [*block.names] == [*PLACES]


def test_an_error_leaves_out_its_own_values_until_the_call_succeeds(nvml: LoadedStandin, block: CallBlock) -> None:
    nvml.write(nvmlDeviceGetMemoryInfo_v2_error=pynvml.NVML_ERROR_TIMEOUT)
    assert read(nvml, block) == [1980, None, None, 4]
    nvml.write(nvmlDeviceGetMemoryInfo_v2_error=0)
    assert read(nvml, block) == [1980, 81559.0, 40_000.0, 4]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_TIMEOUT])
def test_a_call_that_fails_later_leaves_no_value(nvml: LoadedStandin, block: CallBlock, code: int) -> None:
    values: list[float | None] = [None] * len(PLACES)
    pynvml.nvmlInit()
    block.read(values)
    nvml.write(nvmlDeviceGetClockInfo_error=code)
    block.read(values)
    pynvml.nvmlShutdown()
    assert values == [None, 81559.0, 40_000.0, 4]


def test_a_refused_call_is_replaced_by_the_older_one(nvml: LoadedStandin, block: CallBlock) -> None:
    nvml.write(nvmlDeviceGetMemoryInfo_v2_error=pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert read(nvml, block) == [1980, 81559 * 2**20, (81559 - 40_000 - 561) * 2**20, 4]
    nvml.write(nvmlDeviceGetMemoryInfo_error=pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert read(nvml, block) == [1980, None, None, 4]
    assert [*block.names] == ["clock", "reasons"]


def test_a_lost_gpu_is_an_error(nvml: LoadedStandin, block: CallBlock) -> None:
    nvml.write(nvmlDeviceGetCurrentClocksEventReasons_error=pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(pynvml.NVMLError) as raised:
        read(nvml, block)
    assert raised.value.value == pynvml.NVML_ERROR_GPU_IS_LOST


def test_a_block_without_calls_has_no_values(nvml: LoadedStandin) -> None:
    values: list[float | None] = []
    CallBlock(pynvml, None, {("nothing",): [NativeCall("nvmlDeviceGetNothing")]}, {"nothing": 0}).read(values)
    assert values == []


def test_long_calls_keep_their_codes() -> None:
    calls = [LongCall(lambda: 3), LongCall(lambda: 0)]
    call_all(calls)
    assert [call.code for call in calls] == [3, 0]
