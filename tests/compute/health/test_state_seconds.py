"""Seconds by state of health: exact over the real time of each state, over gaps and over restarts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.model.clocks import Unix
from pulsed.model.health import State
from tests.compute.health.sim import GPU, OTHER, HealthTick, Sim

FINE = {"temperature_celsius": 40.0, "power_watts": 100.0, "row_remap_failure": 0.0}
BROKEN = {**FINE, "row_remap_failure": 1.0}


def lasted(tick: HealthTick, gpu: int = 0) -> dict[str, float]:
    return positive(tick.seconds[gpu])


def positive(by_state: Mapping[State, float]) -> dict[str, float]:
    return {state: seconds for state, seconds in by_state.items() if seconds}


@pytest.mark.parametrize("interval", [0.1, 0.5, 1.0, 15.0])
def test_each_state_lasts_from_one_evaluation_to_another(interval: float) -> None:
    sim = Sim(interval=interval)
    samples = round(60.0 / interval)
    sim.tick(FINE)
    for _ in range(samples):
        tick = sim.tick(FINE)
    assert lasted(tick) == pytest.approx({"ok": 60.0})
    for _ in range(samples):
        tick = sim.tick(BROKEN)
    last = max(interval, 1.0)  # the fault is evaluated then
    assert lasted(tick) == pytest.approx({"ok": 60.0 + last, "crit": 60.0 - last})
    for _ in range(samples):
        tick = sim.tick(FINE)
    assert lasted(tick) == pytest.approx({"ok": 120.0, "crit": 60.0})


def test_time_that_no_sample_covers_is_unknown() -> None:
    sim = Sim(interval=10.0)
    for after in (10.0, 10.0, 30.0, 31.0, 10.0):
        tick = sim.tick(FINE, after=after)
    assert lasted(tick) == {"ok": 50.0, "unknown": 31.0}


def test_a_gpu_that_is_gone_continues() -> None:
    sim = Sim(devices=[GPU, OTHER])
    for _ in range(11):
        sim.tick(FINE, FINE)
    sim.lost = frozenset({OTHER.entity.uuid})
    for _ in range(10):
        tick = sim.tick(FINE, devices=[GPU])
    assert positive(tick.missing[0].seconds) == {"ok": 12.0, "crit": 8.0}, "it is lost with the second poll"
    tick = sim.tick(FINE, FINE, devices=[GPU, OTHER])
    assert lasted(tick, 1) == {"ok": 12.0, "crit": 9.0}


@pytest.mark.parametrize(
    ("down", "seconds"),
    [
        (0.0, {"ok": 10.0, "crit": 10.0}),
        (20.0, {"ok": 10.0, "crit": 30.0}),
        (200.0, {"ok": 10.0, "crit": 70.0, "unknown": 140.0}),
    ],
)
def test_a_restart_bridges_the_time_since_the_state_was_saved(down: float, seconds: dict[str, float]) -> None:
    sim = Sim()
    for values in [FINE] * 10 + [BROKEN] * 11:
        sim.health(**values)
    sim.restart(down - sim.interval if down else -sim.interval)
    assert lasted(sim.tick(BROKEN)) == seconds
    assert lasted(sim.tick(FINE)) == {**seconds, "crit": seconds["crit"] + 1.0}


def test_another_configuration_continues() -> None:
    sim = Sim()
    for values in [FINE] * 10 + [BROKEN] * 10:
        before = sim.tick(values)
    sim.table.configure(ComputeSettings(health=HealthSettings(disabled=("row_remap_failed",))))
    after = sim.tick(BROKEN)
    assert lasted(after) == {**lasted(before), "crit": lasted(before)["crit"] + 1.0}
    assert lasted(sim.tick(BROKEN))["ok"] == lasted(after)["ok"] + 1.0


def test_a_state_file_without_seconds_starts_at_0() -> None:
    sim = Sim()
    for _ in range(5):
        sim.health(**FINE)
    document = sim.health_evaluator.dump()
    for gpu in document["gpus"].values():  # type: ignore[attr-defined]
        del gpu["seconds"], gpu["state"]
    restarted = Sim()
    restarted.time = sim.time
    restarted.health_evaluator.restore(document, Unix(sim.time))
    assert lasted(restarted.tick(FINE)) == {"unknown": 1.0}
