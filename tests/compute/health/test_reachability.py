"""Whether a GPU answers."""

from __future__ import annotations

import pytest

from pulsed.compute.health.reachability import Reachability
from pulsed.compute.sample import InputState
from pulsed.model.vocabulary import NOTHING, Reading

BLANK = Reading(ecc_mode=1.0)
"""A row without a vital value."""


def followed(*states: tuple[float, InputState, Reading], has_peers: bool = True) -> list[tuple[float | None, bool]]:
    """Take samples: seconds of the GPU's clock, state, and reading; return the polls missed, and whether it is lost."""
    reachability, found = Reachability(), []
    for now, state, reading in states:
        reachability.update(state, reading, has_peers, 1000.0 + now, now)
        found.append((reachability.polls_missed, reachability.is_lost))
    return found


def test_two_missed_polls_and_a_second_are_a_lost_gpu() -> None:
    samples = [(0.0, "present", BLANK), (0.4, "blank", NOTHING), (0.8, "blank", NOTHING), (1.0, "blank", NOTHING)]
    assert followed(*samples) == [(0.0, False), (1.0, False), (1.0, False), (2.0, True)]  # type: ignore[arg-type]
    late = [(0.0, "present", BLANK), (5.0, "blank", NOTHING), (10.0, "blank", NOTHING), (15.0, "blank", NOTHING)]
    assert followed(*late) == [(0.0, False), (1.0, False), (2.0, True), (2.0, True)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reading", "has_peers", "missed"), [(NOTHING, False, 1.0), (BLANK, True, 1.0), (BLANK, False, 0.0)]
)
def test_blank_rows_of_all_gpus_are_a_silent_source(reading: Reading, has_peers: bool, missed: float) -> None:
    assert followed((0.0, "present", BLANK), (5.0, "blank", reading), has_peers=has_peers)[-1] == (missed, False)


@pytest.mark.parametrize(("reading", "missed"), [(NOTHING, None), (BLANK, 0.0)])
def test_a_gpu_that_never_answered_is_not_lost(reading: Reading, missed: float | None) -> None:
    assert followed(*[(float(now), "blank", reading) for now in range(5)])[-1] == (missed, False)


def test_stale_inputs_are_no_proof_and_an_answer_ends_it() -> None:
    reachability = Reachability()
    found = []
    for now, state in enumerate(["present", "blank", "blank", "stale", "repeated", "blank"]):
        reachability.update(state, NOTHING, True, 1000.0 + now, float(now))  # type: ignore[arg-type]
        found.append((reachability.polls_missed, reachability.missed_since, reachability.last_seen))
    assert found == [
        (0.0, None, 1000.0),
        (1.0, 1001.0, 1000.0),
        (2.0, 1001.0, 1000.0),
        (2.0, 1001.0, 1000.0),
        (0.0, None, 1004.0),
        (1.0, 1005.0, 1004.0),
    ]


def test_a_gpu_of_an_earlier_run_needs_no_second() -> None:
    reachability = Reachability()
    reachability.expect(900.0)
    for now in (0.0, 0.1):
        reachability.update("blank", NOTHING, True, 1000.0 + now, now)
    assert (reachability.is_lost, reachability.last_seen, reachability.missed_since) == (True, 900.0, 1000.0)
