"""Resets of a GPU by counters that start again."""

from __future__ import annotations

from pulsed.compute.health.resets import RESET_SECONDS, Resets, ResetSign
from pulsed.translate.vocabulary import Reading
from tests.compute.health.sim import Sim
from tests.compute.streams import DAY


def test_the_second_lower_energy_is_a_reset_at_the_time_of_the_first() -> None:
    sign = ResetSign()
    found = [sign.update(energy, now, 0.0) for now, energy in enumerate([50.0, 60.0, 5.0, 6.0, 7.0, 6.0, 8.0])]
    assert found == [None, None, None, 2.0, None, None, None]


def test_energy_that_returns_was_misread() -> None:
    sign = ResetSign()
    found = [sign.update(energy, now, 0.0) for now, energy in enumerate([50.0, 5.0, 50.0, 5.0, 60.0, 5.0, 5.0])]
    assert found == [None, None, None, None, None, None, 5.0]


def test_other_counters_must_stay_lower_for_a_minute() -> None:
    resets = Resets()

    def follow(replays: float | None, now: float) -> tuple[float | None, bool]:
        return resets.update(Reading(pcie_replays_total=replays), now), resets.is_pending

    assert follow(9.0, 0.0) == (None, False)
    assert follow(2.0, 1.0) == (None, True)
    assert follow(None, 30.0) == (None, True)
    assert follow(2.0, RESET_SECONDS + 0.9) == (None, True)
    assert follow(2.0, RESET_SECONDS + 1.0) == (1.0, False)
    assert follow(3.0, 70.0) == (None, False)
    assert follow(1.0, 80.0) == (None, True)
    assert follow(3.0, 90.0) == (None, False)  # misread


def test_each_counter_is_compared_with_itself() -> None:
    resets = Resets()
    both = Reading(ecc_sbe_volatile_total=8.0, ecc_dbe_volatile_total=1.0)
    assert resets.update(both, 0.0) is None
    lower = both._replace(ecc_dbe_volatile_total=0.0)
    assert [resets.update(lower, now) for now in (10.0, 69.0, 70.0)] == [None, None, 10.0]


def test_the_time_of_the_last_reset_is_that_of_its_first_sign_and_survives_a_restart_of_pulsed() -> None:
    sim = Sim()
    sim.boot_id = "a"
    energies = [50.0, 60.0, 5.0, 6.0]
    assert [sim.health(energy_joules_total=energy).last_reset for energy in energies] == [None] * 3 + [DAY + 3]
    sim.restart(down=10.0)
    assert sim.health(energy_joules_total=7.0).last_reset == DAY + 3
    sim.boot_id = "b"
    assert sim.health(energy_joules_total=8.0).last_reset == sim.time
