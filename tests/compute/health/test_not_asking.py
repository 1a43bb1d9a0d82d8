"""Rules of which nothing can come are not asked, and nobody can tell the difference."""

from __future__ import annotations

import random
from unittest import mock

import pytest

from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.health.model import Health
from pulsed.compute.health.plan import MOVING
from pulsed.compute.health.probe import SOON, Probe
from pulsed.translate.vocabulary import Value
from tests.compute.health.sim import GPU, Sim

SAMPLES = 400
ACTIVITY = "graphics_engine_active_ratio"

NEAR: dict[str, tuple[float | None, ...]] = {
    "temperature_celsius": (None, 35.0, 60.0, 66.9, 67.0, 70.0, 79.0, 80.0, 82.0, 84.0, 85.0, 87.0, 90.0, 94.0, 96.0),
    "memory_temperature_celsius": (None, 40.0, 85.0, 89.0, 89.1, 92.0, 95.0, 97.0),
    "temperature_margin_celsius": (None, 30.0, 8.1, 8.0, 7.0, 5.0, 4.0, 1.0, 0.0, -1.0, -3.0),
}
"""Values around every threshold and where it is left again."""

SELDOM: dict[str, tuple[float | None, ...]] = {
    "slowdown_temperature_celsius": (None, 90.0, 95.0),
    "max_operating_temperature_celsius": (None, 85.0, 87.0),
    "memory_max_operating_temperature_celsius": (None, 95.0),
    ACTIVITY: (None, 0.0, 0.09, 0.5),
    "power_watts": (100.0,),
}

MASKS = (None, *[0.0] * 6, 0x1, 0x4, 0x8, 0x20, 0x40, 0x80, 0x48, 0x200, 0x400)
"""Clock event reasons: mostly none, for some time each."""

COUNTERS = (
    "hardware_thermal_slowdown_seconds_total",
    "thermal_violation_seconds_total",
    "power_brake_slowdown_seconds_total",
)


class Sequence:
    """A GPU whose temperatures jump around, whose clocks are held at times, and whose limits change now and then."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.interval = self.rng.choice([0.1, 1.0, 15.0])
        self.seldom = {name: self.rng.choice(values) for name, values in SELDOM.items()}
        self.mask: float | None = 0.0
        self.counters: dict[str, float | None] = dict.fromkeys(COUNTERS)
        self.moving: dict[str, float | None] = {name: self.rng.choice(values) for name, values in NEAR.items()}

    def step(self) -> tuple[dict[str, float | None], float]:
        rng = self.rng
        if rng.random() < 0.02:
            name = rng.choice(list(SELDOM))
            if name != ACTIVITY or self.interval >= SOON:  # who depends on activity looks at it so often
                self.seldom[name] = rng.choice(SELDOM[name])
        for name, near in NEAR.items():
            if rng.random() < 0.2:
                self.moving[name] = rng.choice(near)
            elif (value := self.moving[name]) is not None and rng.random() < 0.5:
                self.moving[name] = value + rng.choice([-0.5, 0.25, 0.5])
        if rng.random() < 0.05:
            self.mask = rng.choice(MASKS)
        for counter, count in self.counters.items():
            if rng.random() < 0.02:
                self.counters[counter] = rng.choice([None, 5.0])
            elif count is not None and rng.random() < 0.3:
                self.counters[counter] = count + rng.choice([0.0, 0.01, 1.0])
        values = {**self.moving, **self.seldom, **self.counters, "clocks_event_reasons": self.mask}
        return values, self.interval * rng.choice([1, 1, 1, 1, 1, 1, 1, 20])


def healths(seed: int) -> list[Health]:
    sequence = Sequence(seed)
    sim = Sim(interval=sequence.interval, devices=[GPU])
    return [sim.health(None, after=after, **values) for values, after in (sequence.step() for _ in range(SAMPLES))]


def _everybody(self: GpuHealth, before: tuple[Value, ...], moving: tuple[Value, ...]) -> int:
    self._tell_blank()
    return ~self.plan.on_parts


def _all_duties(self: GpuHealth) -> int:
    return self.plan.on_parts


@pytest.mark.parametrize("seed", range(60))
def test_not_asking_changes_nothing(seed: int) -> None:
    told = healths(seed)
    with (
        mock.patch.object(GpuHealth, "_move", _everybody),
        mock.patch.object(GpuHealth, "_part_is_over", _all_duties),
    ):
        assert told == healths(seed)
    for checks in (("temp_gpu", "temp_memory", "temp_margin"), ("thermal_hw", "thermal_sw", "power_brake")):
        states = {check.state for health in told for check in health.checks if check.id in checks}
        assert len(states) > 1, "a sequence in which nothing happens proves nothing"


def test_most_samples_ask_nobody() -> None:
    sim = Sim(interval=1.0)
    limits = {"slowdown_temperature_celsius": 90.0, "max_operating_temperature_celsius": 87.0, "power_watts": 100.0}
    for _ in range(120):
        sim.health(None, **limits, **dict.fromkeys(MOVING, 40.0), clocks_event_reasons=0.0)
    with mock.patch.object(Probe, "ask", side_effect=AssertionError("asked")):
        for degrees in (41.0, 45.5, 30.0) * 10:
            sim.health(None, **limits, **dict.fromkeys(MOVING, degrees), clocks_event_reasons=0.0)


def test_numbers_of_a_rule_that_was_not_asked_are_of_now() -> None:
    sim = Sim(interval=15.0)
    limits = {"max_operating_temperature_celsius": 150.0, "slowdown_temperature_celsius": 90.0, "power_watts": 100.0}
    sim.check("temp_gpu", None, **limits, temperature_celsius=40.0)
    assert sim.run(600, "temp_gpu", None, **limits, temperature_celsius=95.0).state == "crit"
    check = sim.run(600, "temp_gpu", None, **limits, temperature_celsius=60.0)
    assert check.state == "ok"
    assert dict(check.evidence)["above_max_operating_celsius"] == 60.0 - 150.0
