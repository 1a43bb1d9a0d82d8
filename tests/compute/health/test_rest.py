"""A check that rests has the state that it would have if it were evaluated."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from pulsed.compute.health.rule import Rule
from pulsed.compute.health.rule_kinds import Increase
from pulsed.compute.health.xid_rule import XidRule
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device
from pulsed.model.raw_tick import Epoch, KernelEvent
from pulsed.model.tick import Extras
from tests.compute.health.sim import GPU, HealthTick, Sim
from tests.support.nightly import nightly_after

CHOICES: Mapping[str, tuple[float | None, ...]] = {
    "temperature_celsius": (60.0, 60.0, 85.0, 95.0, None),
    "memory_temperature_celsius": (None, 70.0, 110.0),
    "temperature_margin_celsius": (20.0, -3.0, None),
    "power_watts": (300.0, 300.0, None),
    "gpu_utilization_ratio": (0.5, 0.0),
    "clocks_event_reasons": (0.0, 0.0, 64.0, 128.0),
    "xid_last_code": (0.0, 0.0, 0.0, 13.0, 48.0, None),
    "pcie_replays_total": (5.0, 5.0, 9.0),
    "pcie_link_generation": (5.0, 1.0),
    "pcie_link_generation_max": (5.0, None),
    "performance_state": (0.0, 8.0),
    "row_remap_pending": (0.0, 0.0, 1.0),
    "row_remap_failure": (0.0, None),
    "retired_pages_dbe_total": (None, None, 2.0),
    "ecc_dbe_volatile_total": (0.0, 0.0, 1.0),
    "ecc_sbe_aggregate_total": (3.0, 3.0, 40.0),
    "recovery_action": (0.0, 0.0, 1.0, None),
    "mig_mode": (0.0, None),
}
MODEL = GPU.model
PCI = "00000000:3B:00.0"
BOARD = replace(GPU, pci_bus_id=PCI)


def step(sim: Sim, seed: int, at: int, readings: dict[str, float | None]) -> HealthTick:
    """Take a sample in which few inputs are other than before, and sometimes something else happens."""
    rng = random.Random(f"{seed} {at}")
    for name in rng.sample(sorted(CHOICES), rng.choice((0, 0, 1, 2))):
        readings[name] = rng.choice(CHOICES[name])
    chance = rng.random()
    devices: tuple[Device, ...] = sim.devices
    sim.kernel_events = ()
    if chance < 0.03:
        sim.kernel_events = (KernelEvent("xid", rng.choice((13, 48, 79, 92)), Unix(sim.time), PCI),)
    elif chance < 0.06:
        devices = (replace(BOARD, model=rng.choice(("", MODEL, "Tesla T4"))),)
    elif chance < 0.08:
        sim.epoch = Epoch(driver=str(at))
    has_extras = at // 25 % 3 == 1
    extras = Extras(
        nvlink_states=((0, 1.0), (1, rng.choice((1.0, 1.0, 0.0)))),
        health_watches=((("PCIE", "DCGM_FR_PCI_REPLAY_RATE"), rng.choice((0.0, 10.0))),),
    )
    after = sim.interval * (rng.choice((10.0, 4000.0)) if chance > 0.98 else 1.0)
    return sim.tick(readings, extras=extras if has_extras else None, after=after, devices=devices)


def lived(seed: int) -> list[HealthTick]:
    sim, readings = Sim(devices=(BOARD,)), dict[str, float | None]()
    return [step(sim, seed, at, readings) for at in range(300)]


@pytest.mark.parametrize("seed", nightly_after(2, range(8)))
def test_a_check_that_rests_has_the_state_of_one_that_is_evaluated(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    resting = lived(seed)
    for kind in (Rule, Increase, XidRule):
        monkeypatch.setattr(kind, "rests", lambda *_: False)
    for at, (one, other) in enumerate(zip(resting, lived(seed), strict=True)):
        assert one == other, at
    states = {check.state for tick in resting for health in tick.healths for check in health.checks}
    assert states >= {"unknown", "ok", "warn", "crit"}
