"""Streams of samples for Compute with a memory."""

from __future__ import annotations

from collections.abc import Sequence

from pulsed.compute.gpu_table import GpuState, GpuTable
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.target_gpus import TrackedTick, Tracker
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.model.result import Removal
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, Reading
from tests.support.ticks import tick_of

NO_SERIES = Layout("exporter", ())

GPU = Device(Entity("gpu", "0", "GPU-0"))
OTHER = Device(Entity("gpu", "1", "GPU-1"))
PART = Device(Entity("mig", "0", "GPU-0", "1", "1g.10gb"))
WITHOUT_UUID = Device(Entity("gpu", "0"))

DAY = 1767225600.0
"""2026-01-01T00:00:00Z"""


def activity(level: float) -> dict[str, float]:
    """All inputs of real utilization at the same level, which then is the real utilization, too."""
    names = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "graphics_engine_active_ratio")
    return {**dict.fromkeys(names, level), "fp64_active_ratio": 0.0, **quiet()}


def quiet() -> dict[str, float]:
    return {"pcie_transmit_bytes_per_second": 0.0, "pcie_receive_bytes_per_second": 0.0}


IDLE = Reading(**activity(0.0), memory_used_bytes=0.0)
BUSY = Reading(**activity(0.9), memory_used_bytes=40e9)
MEMORY = Reading(**{**activity(0.0), "dram_active_ratio": 0.7, "graphics_engine_active_ratio": 0.2})
NAMES = {IDLE: "idle", BUSY: "tensor_heavy_compute", MEMORY: "memory_bound", Reading(): "unknown"}
"""The classes of these readings."""


def sample(
    clock: float,
    *readings: Reading,
    devices: Sequence[Device] = (GPU, OTHER),
    interval: float = 1.0,
    time: float | None = None,
) -> Tick:
    """A tick of the first devices, as many as there are readings; by default the wall clock goes with the other one."""
    when = DAY + clock if time is None else time
    raw = RawTick("test", Unix(when), Monotonic(clock), interval, NO_SERIES, ())
    return tick_of(raw, tuple(devices[: len(readings)]), readings)


def counted(tick: Tick, name: str, state: str = "", position: int = 0) -> float:
    """The value of a counter that must be there."""
    value = tick.gpus[position].result.counters.value(name, state)
    assert value is not None
    return value


class TrackedTarget:
    """A target whose ticks are tracked."""

    def __init__(self) -> None:
        self.table = GpuTable()
        self.tracker = Tracker(self.table)
        self.clock = 1000.0
        self.removed: tuple[Removal, ...] = ()

    def forget_after(self, seconds: float) -> None:
        """Forget absent GPUs after these seconds."""
        self.table.configure(ComputeSettings(health=HealthSettings(forget_after=seconds)))

    def tick(
        self, *devices: Device, after: float = 1.0, interval: float = 1.0, time: float | None = None
    ) -> TrackedTick:
        self.clock += after
        readings = [NOTHING] * len(devices)
        given = sample(self.clock, *readings, devices=devices, interval=interval, time=time)
        tracked = self.tracker.track(given)
        self.removed = given.removed
        return tracked

    def track(self, *devices: Device, after: float = 1.0, interval: float = 1.0, time: float | None = None) -> GpuState:
        return self.tick(*devices, after=after, interval=interval, time=time).states[0]
