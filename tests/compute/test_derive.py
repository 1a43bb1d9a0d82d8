from __future__ import annotations

from pulsed.translate.vocabulary import NOTHING, Reading
from tests.compute.readings import INSTANCE, WHOLE, result_of


def test_pcie_is_unknown_on_a_whole_gpu_and_absent_from_an_instance() -> None:
    idle = Reading(
        sm_active_ratio=0.0,
        tensor_active_ratio=0.0,
        dram_active_ratio=0.0,
        graphics_engine_active_ratio=0.0,
        fp64_active_ratio=0.0,
    )
    results = [
        result_of(reading, device=device) for device, reading in ((WHOLE, NOTHING), (INSTANCE, idle), (WHOLE, idle))
    ]
    assert [result.workload.raw_class for result in results] == ["unknown", "idle", "unknown"]
    assert [result.real_utilization.ratio for result in results] == [None, 0.0, 0.0]
