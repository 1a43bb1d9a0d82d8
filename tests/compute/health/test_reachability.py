"""Whether a GPU answers."""

from __future__ import annotations

import pytest

from pulsed.compute.health.reachability import Reachability
from pulsed.compute.sample import InputState
from pulsed.model.clocks import GPU_START, GpuSeconds, Unix
from pulsed.model.vocabulary import NOTHING, Reading

BLANK = Reading(ecc_mode=1.0)
"""A row without a vital value."""


def update(reachability: Reachability, now: float, state: InputState, reading: Reading, *, has_peers: bool) -> None:
    reachability.update(state, reading, Unix(1000.0 + now), GpuSeconds(now), has_peers=has_peers, is_evident=False)


def followed(*states: tuple[float, InputState, Reading], has_peers: bool = True) -> list[tuple[float | None, bool]]:
    """Take samples: seconds of the GPU's clock, state, and reading; return the polls missed, and whether it is lost."""
    reachability, found = Reachability(), []
    for now, state, reading in states:
        update(reachability, now, state, reading, has_peers=has_peers)
        found.append((reachability.polls_missed, reachability.is_lost))
    return found


def test_two_missed_polls_and_a_second_are_a_lost_gpu() -> None:
    samples = [(0.0, "present", BLANK), (0.4, "blank", NOTHING), (0.8, "blank", NOTHING), (1.0, "blank", NOTHING)]
    assert followed(*samples) == [(0.0, False), (1.0, False), (1.0, False), (2.0, True)]  # type: ignore[arg-type]
    late = [(0.0, "present", BLANK), (5.0, "blank", NOTHING), (10.0, "blank", NOTHING), (15.0, "blank", NOTHING)]
    assert followed(*late) == [(0.0, False), (1.0, False), (2.0, True), (2.0, True)]  # type: ignore[arg-type]


@pytest.mark.parametrize("reading", [NOTHING, BLANK])
@pytest.mark.parametrize(("has_peers", "missed"), [(True, 1.0), (False, 0.0)])
def test_blank_rows_of_all_gpus_are_a_silent_source(reading: Reading, has_peers: bool, missed: float) -> None:
    assert followed((0.0, "present", BLANK), (5.0, "blank", reading), has_peers=has_peers)[-1] == (missed, False)


@pytest.mark.parametrize(("reading", "missed"), [(NOTHING, None), (BLANK, 0.0)])
def test_a_gpu_that_never_answered_is_not_lost(reading: Reading, missed: float | None) -> None:
    assert followed(*[(float(now), "blank", reading) for now in range(5)])[-1] == (missed, False)


def test_stale_inputs_are_no_proof_and_an_answer_ends_it() -> None:
    reachability = Reachability()
    found = []
    for now, state in enumerate(["present", "blank", "blank", "stale", "repeated", "blank"]):
        update(reachability, float(now), state, NOTHING, has_peers=True)  # type: ignore[arg-type]
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
    reachability.expect(Unix(900.0), None, GPU_START)
    for now in (0.0, 0.1):
        update(reachability, now, "blank", NOTHING, has_peers=True)
    assert (reachability.is_lost, reachability.last_seen, reachability.missed_since) == (True, 900.0, 1000.0)


def unlisted(reachability: Reachability, now: float, *, is_evident: bool = False) -> tuple[float | None, float]:
    reachability.update_unlisted(Unix(1000.0 + now), GpuSeconds(now), is_evident=is_evident)
    return reachability.polls_missed, reachability.polls_unlisted


def test_a_gpu_that_the_source_no_longer_lists_is_lost_only_with_evidence() -> None:
    reachability = Reachability()
    update(reachability, 0.0, "present", BLANK, has_peers=True)
    assert [unlisted(reachability, now) for now in (5.0, 10.0)] == [(None, 1.0), (None, 2.0)]
    assert (reachability.is_unlisted, reachability.is_lost, reachability.missed_since) == (True, False, 1005.0)
    assert unlisted(reachability, 15.0, is_evident=True) == (2.0, 0.0)
    assert (reachability.is_unlisted, reachability.is_lost, reachability.missed_since) == (False, True, 1005.0)
    update(reachability, 20.0, "present", BLANK, has_peers=True)
    assert unlisted(reachability, 25.0) == (None, 1.0)


def test_a_lost_gpu_that_leaves_the_list_stays_lost() -> None:
    reachability = Reachability()
    for now, state in ((0.0, "present"), (5.0, "blank"), (10.0, "blank")):
        update(reachability, now, state, BLANK, has_peers=True)  # type: ignore[arg-type]
    assert [unlisted(reachability, now) for now in (15.0, 20.0)] == [(2.0, 0.0), (2.0, 0.0)]
