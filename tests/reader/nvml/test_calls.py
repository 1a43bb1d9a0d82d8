from __future__ import annotations

import ctypes

import pynvml
import pytest

from pulsed.reader.nvml.calls import CALLS
from pulsed.reader.nvml.field_values import FIELD_VALUES
from pulsed.reader.nvml.gpm import GPM_METRICS
from pulsed.reader.nvml.native_call import NativeCall
from pulsed.translate.fields import BY_NAME
from support.nvml_standin.library import LoadedStandin

NATIVE = {call.function: call for row in CALLS for call in row.calls if isinstance(call, NativeCall)}

STRUCTURES = {
    "nvmlDeviceGetMemoryInfo_v2": ("c_nvmlMemory_v2_t", "nvmlMemory_v2"),
    "nvmlDeviceGetTemperatureV": ("c_nvmlTemperature_v1_t", "nvmlTemperature_v1"),
    "nvmlDeviceGetMarginTemperature": ("c_nvmlMarginTemperature_v1_t", "nvmlMarginTemperature_v1"),
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": ("c_nvmlUnrepairableMemory_v1_t", "nvmlUnrepairableMemory_v1"),
    "nvmlDeviceGetSramEccErrorStatus": ("c_nvmlEccSramErrorStatus_v1_t", "nvmlEccSramErrorStatus_v1"),
}


def test_structures_have_the_size_and_version_of_nvidia_ml_py() -> None:
    assert STRUCTURES.keys() == {name for name, call in NATIVE.items() if call.version is not None}
    for function, (structure, version) in STRUCTURES.items():
        head = NATIVE[function].head
        assert int.from_bytes(head, "little") == getattr(pynvml, version), function
        assert head[0] == ctypes.sizeof(getattr(pynvml, structure)), function


def test_the_buffers_of_other_calls_are_large_enough() -> None:
    for function, structure in (
        ("nvmlDeviceGetMemoryInfo", "c_nvmlMemory_t"),
        ("nvmlDeviceGetBAR1MemoryInfo", "c_nvmlBAR1Memory_t"),
        ("nvmlDeviceGetUtilizationRates", "c_nvmlUtilization_t"),
        ("nvmlDeviceGetRowRemapperHistogram", "c_nvmlRowRemapperHistogramValues"),
    ):
        assert NATIVE[function].size == ctypes.sizeof(getattr(pynvml, structure)), function


def test_every_function_is_one_of_nvidia_ml_py() -> None:
    of_library = {name for name in dir(pynvml) if name.startswith("nvml")} | {"nvmlDeviceGetMemoryInfo_v2"}
    assert NATIVE.keys() <= of_library


def test_every_value_has_the_name_of_a_field_of_dcgm() -> None:
    names = {name for row in CALLS for name in row.names}
    names |= {field.name for field in FIELD_VALUES} | {metric.name for metric in GPM_METRICS}
    assert names <= BY_NAME.keys()


def test_a_function_that_the_driver_lacks_is_an_error_of_nvml(nvml: LoadedStandin) -> None:
    with pytest.raises(pynvml.NVMLError) as raised:
        NativeCall("nvmlDeviceGetNothing").bind(pynvml, None)
    assert raised.value.value == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
