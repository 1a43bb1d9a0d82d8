"""Resets of a GPU by counters that start again."""

from __future__ import annotations

from pulsed.compute.health.device_counters import RESET_SECONDS, Resets, ResetSign
from pulsed.model.vocabulary import Reading
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
        return resets.update(Reading(pcie_replays_total=replays), now, True), resets.is_pending

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
    assert resets.update(both, 0.0, True) is None
    lower = both._replace(ecc_dbe_volatile_total=0.0)
    assert [resets.update(lower, now, True) for now in (10.0, 69.0, 70.0)] == [None, None, 10.0]


def test_of_two_resets_in_one_sample_the_newest_counts() -> None:
    resets = Resets()
    for replays, sbe, now in ((9.0, 9.0, 0.0), (9.0, 0.0, 10.0), (0.0, 0.0, 20.0)):
        assert resets.update(Reading(pcie_replays_total=replays, ecc_sbe_volatile_total=sbe), now, True) is None
    assert resets.update(Reading(pcie_replays_total=0.0, ecc_sbe_volatile_total=0.0), 500.0, True) == 20.0


def test_signs_other_than_energy_are_taken_when_one_has_changed_and_while_one_is_lower() -> None:
    resets = Resets()
    for replays, now, is_any_changed in ((9.0, 0.0, True), (0.0, 10.0, False), (9.0, 20.0, False)):
        assert resets.update(Reading(pcie_replays_total=replays), now, is_any_changed) is None
        assert not resets.is_pending
    assert resets.update(Reading(pcie_replays_total=0.0), 30.0, True) is None
    assert resets.update(Reading(pcie_replays_total=0.0), 90.0, False) == 30.0


def test_the_time_of_the_last_reset_is_that_of_its_first_sign_and_survives_a_restart_of_pulsed() -> None:
    sim = Sim()
    sim.boot_id = "a"
    energies = [50.0, 60.0, 5.0, 6.0]
    assert [sim.health(energy_joules_total=energy).last_reset for energy in energies] == [None] * 3 + [DAY + 3]
    sim.restart(down=10.0)
    assert sim.health(energy_joules_total=7.0).last_reset == DAY + 3
    sim.boot_id = "b"
    assert sim.health(energy_joules_total=8.0).last_reset == sim.time
