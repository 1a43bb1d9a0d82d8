"""Temperatures always move: rules that they cannot raise are not asked, and nobody can tell the difference."""

from __future__ import annotations

import random
from unittest import mock

import pytest

from pulsed.compute.health.gpu import GpuHealth
from pulsed.compute.health.model import Health
from pulsed.compute.health.plan import MOVING
from pulsed.compute.health.probe import Probe
from pulsed.translate.vocabulary import Value
from tests.compute.health.sim import GPU, Sim

SAMPLES = 400

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
    "graphics_engine_active_ratio": (None, 0.0, 0.09, 0.5),
    "power_watts": (100.0,),
}


class Sequence:
    """A GPU whose temperatures jump around, and whose limits change now and then."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.interval = self.rng.choice([0.1, 1.0, 15.0])
        self.seldom = {name: self.rng.choice(values) for name, values in SELDOM.items()}
        self.moving: dict[str, float | None] = {name: self.rng.choice(values) for name, values in NEAR.items()}

    def step(self) -> tuple[dict[str, float | None], float]:
        rng = self.rng
        if rng.random() < 0.02:
            name = rng.choice(list(SELDOM))
            self.seldom[name] = rng.choice(SELDOM[name])
        for name, values in NEAR.items():
            if rng.random() < 0.2:
                self.moving[name] = rng.choice(values)
            elif (value := self.moving[name]) is not None and rng.random() < 0.5:
                self.moving[name] = value + rng.choice([-0.5, 0.25, 0.5])
        return {**self.moving, **self.seldom}, self.interval * rng.choice([1, 1, 1, 1, 1, 1, 1, 20])


def healths(seed: int) -> list[Health]:
    sequence = Sequence(seed)
    sim = Sim(interval=sequence.interval, devices=[GPU])
    return [sim.health(None, after=after, **values) for values, after in (sequence.step() for _ in range(SAMPLES))]


def _everybody(self: GpuHealth, before: tuple[Value, ...], moving: tuple[Value, ...]) -> int:
    self._tell_blank()
    return -1


@pytest.mark.parametrize("seed", range(40))
def test_not_asking_changes_nothing(seed: int) -> None:
    told = healths(seed)
    with mock.patch.object(GpuHealth, "_move", _everybody):
        assert told == healths(seed)
    states = {check.state for health in told for check in health.checks if check.id.startswith("temp_")}
    assert len(states) > 1, "a sequence in which nothing happens proves nothing"


def test_most_samples_ask_nobody() -> None:
    sim = Sim(interval=1.0)
    limits = {"slowdown_temperature_celsius": 90.0, "max_operating_temperature_celsius": 87.0, "power_watts": 100.0}
    sim.health(None, **limits, **dict.fromkeys(MOVING, 40.0))
    with mock.patch.object(Probe, "ask", side_effect=AssertionError("asked")):
        for degrees in (41.0, 45.5, 30.0):
            sim.health(None, **limits, **dict.fromkeys(MOVING, degrees))


def test_numbers_of_a_rule_that_was_not_asked_are_of_now() -> None:
    sim = Sim(interval=15.0)
    limits = {"max_operating_temperature_celsius": 150.0, "slowdown_temperature_celsius": 90.0, "power_watts": 100.0}
    sim.check("temp_gpu", None, **limits, temperature_celsius=40.0)
    assert sim.run(600, "temp_gpu", None, **limits, temperature_celsius=95.0).state == "crit"
    check = sim.run(600, "temp_gpu", None, **limits, temperature_celsius=60.0)
    assert check.state == "ok"
    assert dict(check.evidence)["above_max_operating_celsius"] == 60.0 - 150.0
