from __future__ import annotations

import pynvml

from pulsed.reader.nvml.device_list import list_devices
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import LoadedStandin


def test_a_lost_gpu_counts_whatever_later_gpus_answer(nvml: LoadedStandin) -> None:
    """NVML has to be initialized again before it returns; a refused GPU does not come back so."""
    function = "nvmlDeviceGetHandleByIndex_v2.error"
    for codes, is_any_gone in (((15, 4, 0), True), ((4, 15, 0), True), ((4, 4, 0), False)):
        nvml.gpus = [boards.hopper(index) | ({function: code} if code else {}) for index, code in enumerate(codes)]
        nvml.write()
        pynvml.nvmlInitWithFlags(1)
        try:
            devices, found = list_devices(pynvml, [])
        finally:
            pynvml.nvmlShutdown()
        assert ([device.index for device in devices], found) == ([2], is_any_gone)
