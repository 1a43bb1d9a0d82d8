from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.derive import ComputeSettings, compute
from pulsed.reader.tick import Layout, RawTick
from pulsed.translate.tick import CanonicalTick
from pulsed.translate.vocabulary import NOTHING, Reading
from tests.compute.readings import INSTANCE, WHOLE, arbitrary, many, result_of

RAW = RawTick("test", 0.0, 0.0, 1.0, Layout("exporter", ()), ())


def test_a_result_for_every_device_in_order() -> None:
    idle = Reading(
        sm_active_ratio=0.0,
        tensor_active_ratio=0.0,
        dram_active_ratio=0.0,
        graphics_engine_active_ratio=0.0,
        fp64_active_ratio=0.0,
    )
    tick = CanonicalTick("test", 0.0, 0.0, 1.0, (WHOLE, INSTANCE, WHOLE), (NOTHING, idle, idle), RAW)
    computed = compute(tick, ComputeSettings())
    assert computed.canonical is tick
    # PCIe does not exist below a whole GPU, and is merely unknown on one.
    assert [result.workload.raw_class for result in computed.results] == ["unknown", "idle", "unknown"]
    assert [result.real_utilization.ratio for result in computed.results] == [None, 0.0, 0.0]


def test_a_tick_without_devices() -> None:
    assert compute(CanonicalTick("test", 0.0, 0.0, 1.0, (), (), RAW), ComputeSettings()).results == ()


@many
@given(st.lists(arbitrary(), max_size=5))
def test_devices_do_not_touch_each_other(readings: list[Reading]) -> None:
    tick = CanonicalTick("test", 0.0, 0.0, 1.0, (WHOLE,) * len(readings), tuple(readings), RAW)
    assert compute(tick, ComputeSettings()).results == tuple(result_of(reading) for reading in readings)
