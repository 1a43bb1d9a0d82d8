"""A hundred thousand samples of noise, faults, resets, gaps and restarts: nothing breaks, no latch is lost, no alarm is
false.
"""

from __future__ import annotations

import random

import pytest

from pulsed.compute.health.xids import XIDS
from tests.compute.health.degraded import GPUS, TICKS, broken_promises
from tests.compute.health.sim import GPU, OTHER, Sim
from tests.support.examples import SHARE

SAMPLES = 100_000
SEQUENCES = 200
CRITICAL = sorted(code for code, xid in XIDS.items() if xid.severity == "crit")
HARMLESS = [13, 31, 43, 45, 63, 94, 137, 500]
DAY = 86400.0


class Node:
    """A GPU that has noise, and what must be true of it, worked out by simpler means."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sim = Sim(interval=self.rng.choice([0.1, 1.0, 15.0]), devices=[GPU, OTHER])
        self.energy, self.replays, self.rows = 1e5, 3.0, float(self.rng.randrange(5))
        self.gauge = 0.0
        self.known: float | None = None
        self.critical_at: float | None = None
        self.fell_at: float | None = None
        self.is_required = False
        self.misread = False
        self.looked = 0

    def step(self) -> None:
        rng, sim = self.rng, self.sim
        chance = rng.random()
        after = sim.interval
        if chance < 0.005:
            sim.restart(rng.choice([1.0, 60.0, 5000.0]))
        elif chance < 0.01:
            after = sim.interval * rng.choice([2.0, 5.0, 50.0, 5000.0])
        elif chance < 0.015:
            sim.clock = 0.0
        elif chance < 0.02:
            self.gauge = float(rng.choice(CRITICAL))
        elif chance < 0.04:
            self.gauge = float(rng.choice(HARMLESS))
        elif chance < 0.045:
            self.energy, self.replays, self.is_required = 1.0, 0.0, False
        self.look(after)

    def look(self, after: float) -> None:
        rng, sim = self.rng, self.sim
        self.energy += 100.0 * after
        self.replays += rng.random() < 0.01
        values: dict[str, float | None] = {
            "energy_joules_total": self.energy,
            "pcie_replays_total": self.replays,
            "xid_last_code": self.gauge,
            "temperature_celsius": rng.choice([30.0, 60.0, 80.0]),
            "temperature_margin_celsius": rng.choice([8.0, 20.0]),
            "power_watts": 300.0,
            "gpu_utilization_ratio": rng.random(),
            "clocks_event_reasons": float(rng.choice([0x0, 0x1, 0x4, 0x4, 0x14, 0x100])),
            "row_remap_failure": 0.0,
            "row_remap_pending": 0.0,
            "remapped_rows_uncorrectable_total": self.rows,
            "ecc_dbe_volatile_total": 0.0,
            "ecc_dbe_aggregate_total": 4.0,
            "recovery_action": 0.0,
            "pcie_link_width": 16.0,
            "pcie_link_width_max": 16.0,
        }
        self.looked += 1
        if not self.misread and self.looked > 20 and rng.random() < 0.01 and self.energy > 1e4:
            self.misread = True
            values[rng.choice(["energy_joules_total", "ecc_dbe_aggregate_total", "pcie_replays_total"])] = 0.0
        else:
            self.misread = False
            for name in list(values):
                if rng.random() < 0.03 and name not in ("power_watts", "energy_joules_total", "pcie_replays_total"):
                    values[name] = None
        tick = sim.tick(values, {"temperature_celsius": 40.0}, after=after)
        self.expect(values["xid_last_code"])
        health = tick.healths[0]
        critical = {check.id for check in health.checks if check.state == "crit"}
        if self.is_required and (sim.interval >= 1.0 or sim.time - (self.critical_at or 0.0) >= 1.0):
            assert critical & {"xid_critical", "nvlink_fault"}
        assert critical <= self.allowed(), critical - self.allowed()
        assert health.severity == max(check.severity for check in health.checks if check.applies)
        assert 0.0 <= health.coverage <= 1.0
        for check in health.checks:
            assert check.state != "ok" or check.covered, check
            assert check.state != "unknown" or not check.message

    def expect(self, code: float | None) -> None:
        now = self.sim.time
        if code is not None:
            if self.known is not None and code != self.known and code in CRITICAL:
                self.critical_at, self.is_required = now, True
                self.fell_at = now if code == 79 else self.fell_at
            self.known = code
        if self.critical_at is not None and now - self.critical_at > DAY - 100:
            self.is_required = False

    def allowed(self) -> set[str]:
        allowed = {"telemetry"}
        if self.critical_at is not None and self.sim.time - self.critical_at < DAY + 100:
            allowed |= {"xid_critical", "nvlink_fault"}
        if self.fell_at is not None and self.sim.time - self.fell_at < 100:
            allowed.add("gpu_lost")
        return allowed


@pytest.mark.nightly
def test_random_lives() -> None:
    for seed in range(SEQUENCES):
        node = Node(seed)
        for _ in range(SAMPLES // SEQUENCES):
            node.step()


@pytest.mark.slow
def test_degraded_inputs_raise_nothing_and_are_never_ok() -> None:
    lives = 50_000 // SHARE // (TICKS * len(GPUS))
    assert [promise for seed in range(lives) for promise in broken_promises(seed)] == []
