"""The time around a change of owners on a page, whose values are older than its labels."""

from __future__ import annotations

import json

import pytest

from pulsed.model.owner import Owners
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting.saved_accounts import dump_account, load_account
from tests.compute.streams import BUSY, IDLE
from tests.owners.accounting.streams import A, B, Node, seconds


def level(value: float, energy: float) -> Reading:
    """A reading whose values are those of one collection of the exporter."""
    return BUSY._replace(sm_active_ratio=value, energy_joules_total=energy)


def shown(every: int, phase: int) -> tuple[Node, list[Owners]]:
    """A page that is collected each so many seconds and read each 15 s: A works until 300 s, then B does nothing."""
    node, owners = Node(15.0, dialect="exporter"), list[Owners]()
    for clock in range(0, 900, 15):
        collected = (clock - phase) // every * every + phase
        worked = max(0, min(collected, 300) - max(collected - every, 0)) / every if collected > 0 else 1.0
        present: Owners = (A,) if clock <= 300 else (B,)
        node.sees((present, level(worked, 100.0 * collected)))
        owners.append(present)
    return node, owners


@pytest.mark.parametrize("every", [15, 30, 60])
@pytest.mark.parametrize("phase", [1, 7, 14])
def test_the_next_owner_is_not_billed_for_what_the_one_before_did(every: int, phase: int) -> None:
    node, _ = shown(every, phase)
    worked = seconds(node.running(B), "alone", "sm_active_seconds")
    assert worked == 0.0
    assert seconds(node.running(B), "upper", "sm_active_seconds") >= 0.0
    assert seconds(node.running(B)) >= 900 - 300 - 2 * every - 2 * 15


@pytest.mark.parametrize("phase", [1, 7, 14])
def test_the_owner_on_the_first_page_is_not_billed_for_what_the_one_before_did(phase: int) -> None:
    """Somebody worked until just before pulsed was started."""
    node = Node(15.0, dialect="exporter")
    for clock in range(0, 300, 15):
        collected = (clock - phase) // 30 * 30 + phase
        worked = max(0, min(collected, -1) - (collected - 30)) / 30
        node.sees(((B,), level(worked, 1e6 + 100.0 * collected)))
    assert seconds(node.running(B), "alone", "sm_active_seconds") == 0.0
    assert seconds(node.running(B), "upper", "sm_active_seconds") > 0.0
    assert seconds(node.running(B)) >= 285 - 2 * 30


@pytest.mark.parametrize(("ticks", "samples"), [(10, 4), (6, 4), (5, 3)])
def test_an_owner_from_a_minute_before_a_restart_has_all_samples_after_it(ticks: int, samples: int) -> None:
    node = Node(15.0, dialect="exporter")
    for clock in range(ticks):
        node.sees(((A,), level(0.5, 100.0 * clock)))
    saved = dump_account(node.running(A))
    again = Node(15.0, dialect="exporter")
    again.clock = node.clock + 60.0
    again.accounting.restore([load_account(json.loads(json.dumps(saved)))])
    for clock in range(5):
        again.sees(((A,), level(0.5, 1e6 + 100.0 * clock)))
    assert seconds(again.running(A)) == seconds(node.running(A)) + samples * 15.0
    assert seconds(again.running(A), "boundary") == seconds(node.running(A), "boundary") + (4 - samples) * 15.0


def test_bounds_of_the_owner_before_contain_its_work() -> None:
    node, _ = shown(30, 14)
    (account,) = node.ended
    low, high = (seconds(account, part, "sm_active_seconds") for part in ("alone", "upper"))
    assert low <= 300.0 <= high + 30.0


def test_the_time_of_a_change_ends_with_the_second_change_of_the_values() -> None:
    node = Node(15.0, dialect="exporter")
    boundaries = []
    for present, value in [(A, 1), (A, 1), (B, 1), (B, 1), (B, 2), (B, 2), (B, 3), (B, 3), (B, 4)]:
        node.sees(((present,), IDLE._replace(power_watts=100.0 + value)))
        boundaries.append(seconds(node.running(B), "boundary") if present is B else 0.0)
    assert boundaries == [0.0, 0.0, 15.0, 30.0, 45.0, 60.0, 60.0, 60.0, 60.0]
    assert seconds(node.running(B)) == 45.0


def test_a_stream_has_no_age() -> None:
    node = Node(15.0)
    for present in (A, A, B, B, B):
        node.sees(((present,), IDLE))
    assert (seconds(node.running(B), "boundary"), seconds(node.running(B))) == (15.0, 30.0)


def test_constant_values_settle_after_a_minute() -> None:
    node = Node(15.0, dialect="exporter")
    for present in (A, A, *[B] * 20):
        node.sees(((present,), IDLE))
    assert (seconds(node.running(B), "boundary"), seconds(node.running(B))) == (75.0, 225.0)


def test_values_that_change_once_settle_a_minute_later() -> None:
    node = Node(15.0, dialect="exporter")
    for present, value in [(A, 1), (A, 1), *[(B, 1)] * 3, *[(B, 2)] * 10]:
        node.sees(((present,), IDLE._replace(power_watts=100.0 + value)))
    assert seconds(node.running(B), "boundary") == (3 + 5) * 15.0


def test_ticks_that_are_rarer_than_pages_have_no_more_than_their_own() -> None:
    node = Node(180.0, dialect="exporter")
    for present in (A, A, B, B, B):
        node.sees(((present,), IDLE))
    assert (seconds(node.running(B), "boundary"), seconds(node.running(B))) == (180.0, 360.0)
