"""Which owner has a health problem in its account when the owners of a GPU change."""

from __future__ import annotations

import pytest

from pulsed.model.owner import Owners
from pulsed.model.raw_tick import Dialect
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting.account import OwnerAccount
from tests.compute.streams import activity
from tests.owners.accounting.streams import A, B, C, Node


def reading(number: int, xid: float = 0.0) -> Reading:
    return Reading(**activity(0.5 + number / 100.0), memory_used_bytes=40e9, xid_last_code=xid)


def checks(account: OwnerAccount) -> list[tuple[str, bool]]:
    return [(each.check, each.was_raised) for gpu in account.gpus.values() for each in gpu.conditions.values()]


@pytest.mark.parametrize("after", [(), (B,)])
@pytest.mark.parametrize(("dialect", "delay"), [("dmon", 0), ("exporter", 0), ("exporter", 1)])
def test_the_xid_that_ended_a_job_belongs_to_it(after: Owners, dialect: Dialect, delay: int) -> None:
    """It shows first in a sample in which the job no longer has the GPU; a page may be older by a change of values."""
    node = Node(dialect=dialect)
    for number in range(5):
        node.sees(((A,), reading(number)))
    for _ in range(delay):
        node.sees((after, reading(4)))
    for number in range(5, 10):
        node.sees((after, reading(number, 48.0)))
    account = next(each for each in node.ended if each.owner.key == A.key)
    assert checks(account) == [("xid_critical", False)]
    if after:
        assert [was_raised for _, was_raised in checks(node.running(B))] == ([] if delay else [True])


def test_an_xid_of_later_is_that_of_the_present_owners() -> None:
    node = Node(dialect="exporter")
    for number in range(5):
        node.sees(((A, C), reading(number)))
    for number in range(5, 10):
        node.sees(((B, C), reading(number)))
    for number in range(10, 12):
        node.sees(((B, C), reading(number, 48.0)))
    account = next(each for each in node.ended if each.owner.key == A.key)
    assert checks(account) == []
    assert checks(node.running(B)) == checks(node.running(C)) == [("xid_critical", False)]


def test_an_owner_that_stays_has_the_xid_too() -> None:
    node = Node()
    for number in range(5):
        node.sees(((A, C), reading(number)))
    node.sees(((C,), reading(6, 48.0)))
    assert checks(node.running(A)) == checks(node.running(C)) == [("xid_critical", False)]
