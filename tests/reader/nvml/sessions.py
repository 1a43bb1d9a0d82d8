"""Read the stand-in's GPUs with a session, as the vocabulary has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import GpuProcess, RawTick
from pulsed.model.tick import Tick
from pulsed.reader.nvml import NvmlSettings
from pulsed.reader.nvml.session import DriverSession
from pulsed.translate.translator import Translator
from tests.support.sources import FakeClock
from tests.support.ticks import readings_of


class Reader:
    """A session with a clock that moves one second per tick.

    Attributes:
        processes: of the last tick.
        lost: of the last tick.
    """

    def __init__(self, settings: NvmlSettings | None = None) -> None:
        self.clock = FakeClock(1000.0)
        self.session = DriverSession(settings or NvmlSettings(), self.clock.clock)
        self._translator = Translator("node")
        self.processes: tuple[GpuProcess, ...] | None = None
        self.lost: frozenset[str] = frozenset()

    def tick(self, seconds: float = 1.0) -> Tick:
        self.clock.now += seconds
        self.processes = None
        layout, values, self.processes, self.lost = self.session.tick()
        assert len(layout.series) == len(values)
        return self._translator.translate(
            RawTick("nvml", Unix(self.clock.wall()), Monotonic(self.clock.now), seconds, layout, values)
        )

    def numbers(self, seconds: float = 1.0) -> dict[str, dict[str, float]]:
        """Return what the next tick has, by GPU (`0`) or MIG instance (`0/3`)."""
        tick = self.tick(seconds)
        return {
            device.entity.gpu + (f"/{device.entity.mig_id}" if device.entity.mig_id else ""): {
                name: value for name, value in reading._asdict().items() if value is not None
            }
            for device, reading in zip(tick.devices, readings_of(tick), strict=True)
        }


@contextmanager
def reading(settings: NvmlSettings | None = None) -> Iterator[Reader]:
    reader = Reader(settings)
    try:
        yield reader
    finally:
        reader.session.close()
