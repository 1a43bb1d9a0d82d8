"""Sequences of ticks and what follows from them for owners, whatever the clocks do meanwhile."""

from __future__ import annotations

import json
from typing import cast

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import CheckState, Health, State
from pulsed.model.owner import Owner, Owners, pod
from pulsed.owners.accounting import SILENT_SECONDS, OwnerAccounting
from pulsed.owners.accounting.account import GpuAccount, OwnerAccount, OwnerEvent
from pulsed.owners.accounting.saved_accounts import dump_account, load_account
from tests.compute.streams import BUSY, DAY, GPU, OTHER
from tests.owners.accounting.streams import SETTINGS, A, Node, job, seconds

HOUR, YEAR = 3600.0, 365 * 86400.0
POD = pod("lab", "train", uid="uid-1")
OTHER_POD = pod("lab", "train", uid="uid-2")


def durations(account: OwnerAccount) -> tuple[float, float, float]:
    """Elapsed, held and observed seconds."""
    held = sum(each.held_seconds(account.now) for each in account.gpus.values())
    return round(account.elapsed, 6), round(held, 6), seconds(account)


@pytest.mark.parametrize("step", [0.0, HOUR, -HOUR, YEAR, -YEAR])
@pytest.mark.parametrize("owner", [A, job("7", DAY - 20.0)], ids=["without a begin", "with a begin"])
def test_a_step_of_the_wall_clock_changes_no_duration_and_ends_no_account(owner: Owner, step: float) -> None:
    node = Node(15.0)
    for number in range(31):
        node.wall = DAY + step if number >= 10 else DAY
        node.sees(((owner,), BUSY))
        if number % 4 == 0:
            assert node.accounting.sweep(Monotonic(5000.0 + node.clock)) == []
    account = node.running(owner)
    before = 0.0 if owner.begin is None else 35.0
    assert node.ended == []
    assert durations(account) == (450.0 + before, 450.0 + before, 450.0)
    assert account.last_seen == DAY + step + node.clock, "the wall clock stamps"
    for _ in range(2):
        node.sees(((), BUSY))
    (ended,) = node.ended
    assert durations(ended) == (465.0 + before, 465.0 + before, 450.0)


@pytest.mark.parametrize("wall", [DAY, DAY - 7 * 86400.0, 0.0], ids=["today", "a replay of last week", "1970"])
@pytest.mark.parametrize("gap", [SILENT_SECONDS - 60.0, SILENT_SECONDS + 60.0])
def test_a_replay_accounts_as_a_live_source(wall: float, gap: float) -> None:
    """A source that is silent for long ends no owner that returns with it, however fast the ticks are played."""
    node = Node()
    node.wall = wall
    for number in range(20):
        node.sees(((A,), BUSY), after=gap if number == 10 else None)
        assert node.accounting.sweep(Monotonic(9e9)) == []
    accounts = [*node.ended, *node.accounting.running]
    assert [durations(each)[0] for each in accounts] == [18.0 + gap]


@pytest.mark.parametrize("step", [0.0, HOUR, -HOUR])
@pytest.mark.parametrize(("ended_after", "held"), [(None, 20.0), (3.0, 13.0), (-50.0, 20.0)])
def test_a_source_dates_an_end_by_the_clock_of_the_ticks(step: float, ended_after: float | None, held: float) -> None:
    """The wall clock steps between the last tick with the owner and the first without it."""
    ends: dict[str, Monotonic] = {}
    node = Node(10.0)
    node.accounting = type(node.accounting)(lambda owner: ends.get(owner.id), node.ended.append)
    for _ in range(2):
        node.sees(((A,), BUSY))
    if ended_after is not None:
        ends["a"] = Monotonic(node.clock + ended_after)
    node.wall += step
    for _ in range(2):
        node.sees(((), BUSY))
    (account,) = node.ended
    assert durations(account)[:2] == (held, held)


GONE: Owners | None = None

FREE: Owners | None = ()
MINE: Owners | None = (POD,)
NAMESAKE: Owners | None = (OTHER_POD,)
JOB: Owners | None = (A,)
RETURNS: list[tuple[str, list[Owners | None], list[tuple[float, float, float]]]] = [
    ("the same pod", [MINE] * 3 + [GONE] * 120 + [MINE] * 3, [(125.0, 125.0, 125.0)]),
    ("a pod of that name", [MINE] * 3 + [GONE] * 120 + [NAMESAKE] * 3, [(2.0, 2.0, 2.0), (2.0, 2.0, 2.0)]),
    ("the GPU was free", [MINE] * 3 + [FREE] * 120 + [MINE] * 3, [(125.0, 5.0, 4.0)]),
    ("the GPU was another's", [MINE] * 3 + [JOB] * 120 + [MINE] * 3, [(125.0, 5.0, 4.0), (120.0, 120.0, 119.0)]),
    ("no UID", [JOB] * 3 + [GONE] * 120 + [JOB] * 3, [(125.0, 125.0, 125.0)]),
    ("no UID, for long", [JOB] * 3 + [GONE] * 620 + [JOB] * 3, [(2.0, 2.0, 2.0), (2.0, 2.0, 2.0)]),
    ("one scrape", [JOB] * 3 + [GONE] + [JOB] * 3, [(6.0, 6.0, 6.0)]),
]
"""Owners of a GPU second by second, and elapsed, held and observed seconds of each account."""


@pytest.mark.parametrize(("owners", "expected"), [row[1:] for row in RETURNS], ids=[row[0] for row in RETURNS])
def test_an_owner_that_returns_continues_its_account_if_it_is_certainly_the_same(
    owners: list[Owners | None], expected: list[tuple[float, float, float]]
) -> None:
    node = Node()
    for each in owners:
        node.sees((each, BUSY))
    accounts = {id(account): account for account in (*node.ended, *node.accounting.running)}.values()
    ordered = sorted(accounts, key=lambda account: account.begin)
    assert [durations(account) for account in ordered] == expected


@pytest.mark.parametrize("late", [0, 5])
def test_the_energy_of_a_restart_is_divided_among_the_owners_that_shared_the_gpu(late: int) -> None:
    """Also if one of them is found some ticks later than the other: what was used since then is observed."""
    node = Node()
    for number in range(4):
        node.sees(((POD, A), BUSY._replace(energy_joules_total=500.0 * number)))
    saved = [dump_account(account) for account in node.accounting.unfinished]
    again = Node()
    again.clock = node.clock
    again.accounting.restore([load_account(each) for each in json.loads(json.dumps(saved))])
    for number in range(8):
        found: Owners | None = (A,) if number < late else (POD, A)
        again.sees(
            (found, BUSY._replace(energy_joules_total=2500.0 + 500.0 * number)), after=2.0 if not number else None
        )
    assert sum(again.running(each).gpus[GPU.entity.key].bridged_joules for each in (A, POD)) == 1000.0


@pytest.mark.parametrize("stops", ["first", "second"])
def test_an_owner_keeps_its_gpu_when_one_of_two_exporters_stops(stops: str) -> None:
    table, owner = GpuTable(SETTINGS), job("7", DAY)
    first = Node(table=table)
    second = Node(accounting=first.accounting, table=table, target="again")
    shown = []
    for number in range(40):
        for node in (first, second):
            if number < 20 or node is (second if stops == "first" else first):
                assert len(node.sees(((owner,), BUSY), after=number + 1.0 - node.clock)) <= (number == 0)
        owned = list(first.accounting.owned())
        assert len(owned) == 1
        shown.append((owned[0].tick.target, seconds(first.running(owner))))
    assert [each[1] for each in shown] == sorted(each[1] for each in shown)
    assert shown[-1] == ("again" if stops == "first" else "test", 39.0)
    assert shown[22][0] == shown[-1][0], "three samples later"
    assert durations(first.running(owner)) == (40.0, 40.0, 39.0)
    assert first.ended == []


def test_an_owner_keeps_its_gpu_for_a_time_when_an_exporter_without_labels_takes_over() -> None:
    """Its account has a gap from the last page that named it, and it has ended after that."""
    table, owner = GpuTable(SETTINGS), job("7", DAY)
    first = Node(10.0, table=table)
    second = Node(10.0, accounting=first.accounting, table=table, target="again")
    for number in range(20):
        for node, owners in (first, (owner,)), (second, None):
            if number < 4 or node is second:
                node.sees((owners, BUSY), after=10.0 * (number + 1) - node.clock)
        assert [account.owner for account in first.accounting.running] == [owner]
    account = first.running(owner)
    assert durations(account) == (200.0, 200.0, 30.0)
    assert list(first.accounting.unlisted(account)) == [GPU]
    for _ in range(60):
        second.sees((None, BUSY))
    assert first.accounting.running == []
    (account,) = first.ended
    assert account.owner == owner
    assert durations(account)[1:] == (40.0, 30.0)


def test_a_job_that_left_its_other_gpus_has_ended_on_a_lost_one() -> None:
    """A page that names no GPU of it for a shorter time is a gap."""
    node, owner = Node(10.0), job("7", DAY)
    for _ in range(4):
        node.sees(((owner,), BUSY), ((owner,), BUSY))
    node.sees(((owner,), BUSY))
    for _ in range(60):
        node.sees(((), BUSY))
        assert [account.owner for account in node.accounting.running] == [owner]
    node.sees(((), BUSY))
    node.sees(((), BUSY))
    assert node.accounting.running == []
    (account,) = node.ended
    assert (account.end, durations(account)) == (DAY + 60.0, (60.0, 100.0, 70.0))


def test_a_job_that_its_source_lost_has_ended_on_a_gpu_that_is_not_listed() -> None:
    ends: dict[str, Monotonic] = {}
    ended: list[OwnerAccount] = []
    node = Node(10.0, accounting=OwnerAccounting(lambda owner: ends.get(owner.id), ended.append))
    owner = job("7", DAY)
    for _ in range(4):
        node.sees(((), BUSY), ((owner,), BUSY))
    for _ in range(200):
        node.sees(((), BUSY))
        assert [account.owner for account in node.accounting.running] == [owner]
    ends["7"] = Monotonic(node.clock + 4.0)
    for _ in range(3):
        node.sees(((), BUSY))
    assert [account.owner for account in ended] == [owner]
    assert ended[0].gpus[OTHER.entity.key].since is None


CRIT, OK, UNKNOWN = ("crit", "broken"), ("ok", ""), ("unknown", "")
Interval = tuple[str, float, float | None, bool]

CONDITIONS: list[tuple[str, list[tuple[str, str]], Interval | None]] = [
    ("healthy", [OK, OK, OK, OK], None),
    ("sick before it began", [CRIT, CRIT, CRIT, CRIT], ("crit", 1.0, None, True)),
    ("sick before it began, then repaired", [CRIT, CRIT, OK, OK], ("crit", 1.0, 3.0, True)),
    ("sick later", [OK, OK, CRIT, CRIT], ("crit", 3.0, None, False)),
    ("blind is not repaired", [OK, CRIT, UNKNOWN, UNKNOWN], ("crit", 2.0, None, True)),
    ("again", [OK, CRIT, OK, CRIT], ("crit", 2.0, None, True)),
]
"""States of a check second by second, of which the owner has the GPU from the second one on, and its condition: state,
since, until, and whether it was raised when the owner got the GPU."""


@pytest.mark.parametrize(("states", "expected"), [row[1:] for row in CONDITIONS], ids=[row[0] for row in CONDITIONS])
def test_the_condition_of_a_gpu_is_an_interval(states: list[tuple[str, str]], expected: Interval | None) -> None:
    account, before, since = GpuAccount(GPU), states[0], 1.0
    for number, (state, message) in enumerate(states, 1):
        if (state, message) != before:
            since = float(number)
            if number > 2:
                account.add_event(OwnerEvent(Unix(since), "check", before[0], state, message))
        if number == 2:
            check = CheckState("check", cast("State", state), Unix(since), message=message)
            account.inspect(Health(cast("State", state), 1.0, (check,)), Unix(2.0))
        before = (state, message)
    found = [(each.state, each.since, each.until, each.was_raised) for each in account.conditions.values()]
    assert found == ([] if expected is None else [expected])
    owner = OwnerAccount(A, Unix(DAY), Unix(DAY), Unix(DAY), gpus={GPU.entity.key: account})
    (saved,) = load_account(json.loads(json.dumps(dump_account(owner)))).gpus.values()
    assert saved.conditions == account.conditions
