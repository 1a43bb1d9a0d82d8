"""Owners get what their GPUs did, whatever happens to these; and what happens to jobs in practice."""

from __future__ import annotations

import gc
import json
import tracemalloc
from dataclasses import replace
from math import inf, isclose, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.counters import COUNTER_POSITION, CounterSnapshot
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, OwnerUse, pod
from pulsed.model.raw_tick import Dialect
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import CLASSES, NOTHING, Reading
from pulsed.owners.accounting import SILENT_SECONDS, OwnerAccounting
from pulsed.owners.accounting.account import OTHER, OwnerAccount
from pulsed.owners.accounting.accounted_gpu import AccountedGpu
from pulsed.owners.accounting.counter_vector import EMPTY, CounterVector, added, increase, scaled
from pulsed.owners.accounting.owner_roster import PLACES_PER_GPU, RESUME_SECONDS, SHARED_PLACES
from pulsed.owners.accounting.saved_accounts import EndedAccounts, dump_account, load_account
from pulsed.owners.report.job_numbers import Prices
from pulsed.owners.report.job_report import job_report
from pulsed.present.api.account_documents import account_document
from pulsed.present.api.usage_documents import usage
from tests.compute.streams import BUSY, DAY, GPU, IDLE
from tests.compute.streams import OTHER as OTHER_GPU
from tests.owners.accounting.streams import SETTINGS, A, B, C, Node, job, seconds
from tests.support.examples import examples
from tests.support.ticks import missing_in, passing_in

WORKS = BUSY._replace(power_watts=500.0)
RESTS = IDLE._replace(power_watts=100.0)

owners = st.lists(st.sampled_from([A, B, C]), max_size=3, unique=True).map(tuple)
readings = st.fixed_dictionaries(
    {
        "sm_active_ratio": st.none() | st.floats(0, 1),
        "dram_active_ratio": st.none() | st.floats(0, 1),
        "graphics_engine_active_ratio": st.none() | st.floats(0, 1),
        "power_watts": st.none() | st.floats(0, 700),
        "energy_joules_total": st.none() | st.floats(0, 1e4),
        "pcie_transmit_bytes_per_second": st.none() | st.floats(0, 1e10),
    }
).map(lambda values: Reading(**values))
gpus = st.tuples(st.none() | owners, readings)
histories = st.lists(
    st.tuples(
        st.lists(gpus, min_size=1, max_size=2), st.sampled_from([1.0, 1.0, 1.0, 2.0, 60.0, 0.0]), st.just(()) | owners
    ),
    max_size=12,
)


class Charges:
    """What each owner has to get out of each GPU: an equal share of every sample at both ends of which it has the GPU.

    The accounting does not look at samples, but at the time between changes.
    """

    def __init__(self) -> None:
        self.owners: dict[tuple[str, str], CounterVector] = {}
        self._before: dict[str, tuple[CounterSnapshot, Owners]] = {}
        self._known_at: dict[str, float] = {}
        self._last = 0.0

    def take(self, tick: Tick) -> None:
        for position, device in enumerate(tick.devices):
            if position in missing_in(tick):
                continue
            uuid, row = device.entity.uuid, tick.gpus[position]
            now, owners = row.result.counters, row.owners or ()
            start, before = self._before.get(uuid, (now, owners))
            known_at = self._known_at.setdefault(uuid, tick.now)
            used, kind = row.result.workload.used, row.result.idle_kind
            is_free = (kind == "free" and used is not True) or (kind == "unknown" and used is False)
            if before and row.owners is None and not is_free and (known_at == self._last or tick.now - known_at < 600):
                continue  # labels come and go
            self._known_at[uuid] = tick.now
            either = {*before, *owners, *passing_in(tick).get(position, ())}
            for owner in set(before) & set(owners):
                share = scaled(increase(start, now), 1.0 / len(either))
                self.owners[owner.id, uuid] = added(self.owners.get((owner.id, uuid), EMPTY), share)
            self._before[uuid] = now, owners
        self._last = tick.now


@examples(300)
@given(histories, st.sets(st.integers(0, 12)))
def test_owners_get_their_shares_of_every_sample(
    history: list[tuple[list[tuple[Owners | None, Reading]], float, Owners]], queried: set[int]
) -> None:
    node, charges = Node(), Charges()
    for number, (seen, after, passing) in enumerate(history):
        node.sees(*seen, after=after, passing={0: passing} if passing else None)
        assert node.tick is not None
        charges.take(node.tick)
        if number in queried:
            assert all(account.end is None for account in node.accounting.running)
    found: dict[tuple[str, str], CounterVector] = {}
    for account in {id(account): account for account in (*node.accounting.running, *node.ended)}.values():
        for (_, uuid, _), part in account.gpus.items():
            found[account.owner.id, uuid] = added(found.get((account.owner.id, uuid), EMPTY), part.estimate)
            for low, middle, high in zip(part.alone, part.estimate, part.upper, strict=True):
                assert (low or 0.0) <= (middle or 0.0) + 1e-9
                assert (middle or 0.0) <= (high or 0.0) + 1e-9
    for key in found.keys() | charges.owners.keys():
        for name, at in COUNTER_POSITION.items():
            expected, counted = (each.get(key, EMPTY)[at] or 0.0 for each in (charges.owners, found))
            assert isclose(expected, counted, rel_tol=1e-9, abs_tol=1e-9), (key, name)


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from([A, B, None]), st.sampled_from([A, B, None]), st.floats(0, 1)), min_size=2),
)
def test_bounds_of_a_shared_gpu_contain_the_truth(history: list[tuple[Owner | None, Owner | None, float]]) -> None:
    """At any time one of the sharers does all the work: `history` has who, the other sharer, and how much."""
    node, truth = Node(), {A.id: 0.0, B.id: 0.0}
    for number, (worker, other, level) in enumerate(history):
        present = tuple(dict.fromkeys(owner for owner in (worker, other) if owner is not None))
        reading = Reading(sm_active_ratio=level if worker else 0.0)
        node.sees((present, reading))
        if worker is not None and number:
            truth[worker.id] += level
    accounts = [*node.accounting.running, *node.ended]
    for owner in (A, B):
        mine = [account for account in accounts if account.owner.id == owner.id]
        low = sum(seconds(account, "alone", "sm_active_seconds") for account in mine)
        high = sum(seconds(account, "upper", "sm_active_seconds") for account in mine)
        assert low - 1e-9 <= truth[owner.id] <= high + 1e-9


def test_a_job_gets_what_its_gpus_did_while_it_had_them() -> None:
    node = Node()
    for owners_, reading in [((), RESTS), ((), RESTS), *[((A,), WORKS)] * 5, *[((A,), RESTS)] * 3, *[((), RESTS)] * 3]:
        node.sees((owners_, reading), (None, WORKS))
    (account,) = node.ended
    assert account.owner == A
    assert (account.begin, account.end) == (DAY + 3, DAY + 11)
    assert seconds(account) == 7.0  # of the first and the last second it had a part
    assert seconds(account, "boundary") == 2.0
    assert seconds(account, name="workload_class_seconds", state="idle") == 3.0
    assert seconds(account, name="class_energy_joules", state="tensor_heavy_compute") == 4 * 500.0
    (on_gpu,) = account.gpus.values()
    assert (on_gpu.held, on_gpu.since) == (8.0, None)
    assert (on_gpu.extremes.power_watts, on_gpu.extremes.longest_idle, on_gpu.extremes.idle_run) == (500.0, 3.0, 3.0)
    assert on_gpu.extremes.samples == 7


def test_a_shared_gpu_is_counted_once() -> None:
    node = Node()
    for _ in range(5):
        node.sees(((A, B), WORKS))
    for owner in (A, B):
        account = node.running(owner)
        (on_gpu,) = account.gpus.values()
        assert (seconds(account, "alone"), seconds(account), seconds(account, "upper")) == (0.0, 2.0, 4.0)
        assert on_gpu.sharers == 2
        assert on_gpu.observed == 4.0


def test_a_shared_gpu_is_split_by_measured_activity() -> None:
    node, reading = Node(), WORKS._replace(memory_used_bytes=4e10)
    for used in (None, None, 0.75, 0.75, 0.5):
        uses = {} if used is None else {A.key: OwnerUse(3e10, used), B.key: OwnerUse(1e10, 1.0 - used)}
        node.sees(((A, B), reading), uses={0: uses})
    shares = {each.account.owner: (each.share, each.memory_used_bytes) for each in node.accounting.owned()}
    assert shares == {A: (0.5, 3e10), B: (0.5, 1e10)}
    for owner, expected, peak in ((A, 0.5 + 0.75 + 0.75 + 0.5, 4e10), (B, 0.5 + 0.25 + 0.25 + 0.5, 4e10)):
        account = node.running(owner)
        (on_gpu,) = account.gpus.values()
        assert seconds(account) == expected
        assert seconds(account, name="class_energy_joules", state="tensor_heavy_compute") == 500.0 * expected
        assert (seconds(account, "alone"), seconds(account, "upper")) == (0.0, 4.0)
        assert on_gpu.moments.sums_of("power_watts")[0] == expected
        assert on_gpu.extremes.memory_used_bytes == peak, "the GPU's, while that of each owner was unknown"


def test_the_peak_of_measured_memory_is_that_of_the_owner() -> None:
    node = Node()
    for _ in range(3):
        node.sees(
            ((A, B), WORKS._replace(memory_used_bytes=4e10)), uses={0: {A.key: OwnerUse(3e10), B.key: OwnerUse(1e10)}}
        )
    peaks = [each.extremes.memory_used_bytes for owner in (A, B) for each in node.running(owner).gpus.values()]
    assert peaks == [3e10, 1e10]
    assert {each.share for each in node.accounting.owned()} == {0.5}, "activity is not measured"


def test_time_and_energy_by_allocation_beside_the_bounds_of_activity() -> None:
    node = Node()
    most, least, whole = replace(A, allocated=0.75), replace(B, allocated=0.25), C
    for _ in range(3):
        node.sees(((most, least), WORKS), ((whole,), WORKS))
    for _ in range(2):
        node.sees(((most, replace(least, allocated=0.5)), WORKS), ((whole,), WORKS))
    for owner, estimate, allocated in ((A, 2.0, 3.0), (B, 2.0, 2 * 0.25 + 2 * 0.5)):
        account = node.running(owner)
        (on_gpu,) = account.gpus.values()
        assert (seconds(account, "alone"), seconds(account), seconds(account, "upper")) == (0.0, estimate, 4.0)
        assert (on_gpu.allocated_seconds, on_gpu.allocated_joules) == (allocated, 500.0 * allocated)
        assert account.owner == owner, "the part is the GPU's, not the owner's"
        document = account_document(account, "n", Prices(3600.0, 3.6e6))
        total, cost = document["total"], document["cost"]
        assert (total["allocated_gpu_seconds"], total["allocated_joules"]) == (allocated, 500.0 * allocated)
        assert cost["allocated"] == allocated + 500.0 * allocated
        assert f"{cost['allocated']:.2f} EUR, by the parts of GPUs that the scheduler gave it" in job_report(document)
    document = account_document(node.running(C), "n", Prices(1.0))
    assert (document["total"]["allocated_gpu_seconds"], document["cost"]["allocated"]) == (None, None)
    assert "Allocated" not in job_report(document)
    rows = {row["user"]: row["allocated_gpu_seconds"] for row in usage(node.accounting.running, "user", "n").rows}
    assert rows == {"": 4.5}
    assert load_account(dump_account(node.running(B))).gpus[GPU.entity.key].allocated_seconds == 1.5


BOARD = Device(Entity("gpu", "0", "GPU-0"), "NVIDIA H100")
LARGE, SMALL, FREE_PART = (
    Device(Entity("mig", "0", "GPU-0", id, profile), "NVIDIA H100")
    for id, profile in (("1", "3g.40gb"), ("2", "1g.10gb"), ("5", "1g.10gb"))
)


def test_the_energy_of_a_board_is_divided_among_its_instances_in_use() -> None:
    """By compute slices; a free instance has none of it."""
    node, devices = Node(), (BOARD, LARGE, SMALL, FREE_PART)
    board, instance = WORKS, WORKS._replace(power_watts=None)
    parts = {1: {A.key: OwnerUse(None, 0.5), B.key: OwnerUse(None, 0.5)}}
    gpus = [((A, B), instance), ((C,), instance), ((), instance)]
    for _ in range(5):
        node.sees(((), board), *gpus, devices=devices, uses=parts)
    joules = {owner.id: account_document(node.running(owner), "n", Prices(None, 3.6e6)) for owner in (A, B, C)}
    for id, expected in (("a", 0.375), ("b", 0.375), ("c", 0.25)):
        document = joules[id]
        summary, total = document["total"]["summary"], document["total"]
        assert isclose(summary["joules"], 4 * 500.0 * expected)
        assert isclose(total["estimated_joules"], summary["joules"])
        assert sum(total["upper"]["class_energy_joules"].values()) == 4 * 500.0
        assert total["lower"]["class_energy_joules"] == {}
        assert isclose(document["cost"]["total"], summary["joules"])
        assert "about " in job_report(document)
    rows = usage(node.accounting.running, "user", "n").rows
    assert [isclose(row["energy_joules"], 4 * 500.0) for row in rows] == [True], "never more than the board's"
    assert rows[0]["energy_unknown_seconds"] == 0.0
    assert load_account(dump_account(node.running(C))).gpus[SMALL.entity.key].estimated_joules == 500.0


@pytest.mark.parametrize("dialect", ["dmon", "exporter"])
@pytest.mark.parametrize("before", [(A,), ()])
@pytest.mark.parametrize("between", [(C,), ()])
def test_energy_of_a_board_that_is_split_for_a_time_is_charged_once(
    before: Owners, between: Owners, dialect: Dialect
) -> None:
    node = Node(dialect=dialect)
    for clock in range(30):
        if clock < 10 or clock >= 20:
            node.sees((before, WORKS._replace(sm_active_ratio=clock / 100)), devices=(BOARD,))
        else:
            instance = WORKS._replace(sm_active_ratio=clock / 100, power_watts=None)
            node.sees(((), WORKS), ((B,), instance), (between, instance), devices=(BOARD, LARGE, SMALL))
    free = node.accounting.free()
    accounts = [*node.ended, *node.accounting.running, *([free] if free is not None else [])]
    joules = sum(seconds(account, "estimate", "class_energy_joules", name) for account in accounts for name in CLASSES)
    assert isclose(joules, 29 * 500.0)


def test_the_bound_of_an_owner_of_an_instance_has_the_energy_around_changes() -> None:
    node = Node(dialect="exporter")
    for clock in range(9):
        owners: Owners = (B,) if 3 <= clock < 6 else ()
        node.sees(((), WORKS), (owners, WORKS._replace(power_watts=None)), devices=(BOARD, LARGE))
    (account,) = node.ended
    low, high = (
        sum(seconds(account, part, "class_energy_joules", name) for name in CLASSES) for part in ("estimate", "upper")
    )
    assert (low, high) == (0.0, 500.0 * seconds(account, "upper"))
    assert high >= 4 * 500.0


def test_energy_of_a_board_that_is_not_known_is_not_divided() -> None:
    node, devices = Node(), (BOARD, LARGE)
    silent = WORKS._replace(power_watts=None)
    for _ in range(3):
        node.sees(((), silent), ((A,), silent), devices=devices)
    (on_gpu,) = node.running(A).gpus.values()
    assert (on_gpu.joules, on_gpu.estimated_joules) == (None, None)


def test_activity_of_some_owners_alone_is_no_share() -> None:
    node = Node()
    for _ in range(3):
        node.sees(((A, B), WORKS), uses={0: {A.key: OwnerUse(None, 1.0)}})
    assert seconds(node.running(A)) == seconds(node.running(B)) == 1.0


def test_who_stays_keeps_a_share_of_the_second_in_which_another_left() -> None:
    node = Node()
    for present in [(A, B), (A, B), (A,), (A,)]:
        node.sees((present, WORKS))
    account = node.running(A)
    assert (seconds(account, "alone"), seconds(account, "share")) == (1.0, 1.0)


def test_a_job_of_90_seconds_between_scrapes_of_60() -> None:
    """It began 10 s after the first scrape and ended 40 s after the second one: no scrape is its own alone."""
    ended: dict[str, Monotonic] = {}
    node = Node(60.0)
    node.accounting = OwnerAccounting(lambda owner: ended.get(owner.id), node.ended.append)
    node.sees(((), RESTS))
    short = job("90", DAY + node.clock + 10)
    node.sees(((short,), WORKS))
    ended["90"] = Monotonic(node.clock + 40)
    node.sees(((), RESTS))
    node.sees(((), RESTS))
    (account,) = node.ended
    assert account.end == account.begin + 90
    assert (seconds(account), seconds(account, "boundary"), seconds(account, "upper")) == (0.0, 120.0, 120.0)
    (on_gpu,) = account.gpus.values()
    assert (on_gpu.held, on_gpu.observed) == (90.0, 0.0)


def test_a_job_between_two_scrapes_is_not_lost() -> None:
    ended: dict[str, Monotonic] = {}
    node = Node(60.0)
    node.accounting = OwnerAccounting(lambda owner: ended.get(owner.id), node.ended.append)
    node.sees(((A,), WORKS), ((), RESTS))
    short = job("30", DAY + node.clock + 10)
    ended["30"] = Monotonic(node.clock + 40)
    changes = node.sees(((A,), WORKS), ((), WORKS), passing={0: (short,), 1: (short,)})
    assert [(change.kind, change.device.entity.gpu) for change in changes] == [("begin", "0"), ("begin", "1")]
    assert [account.owner for account in node.accounting.running if account.holding] == [A]
    node.sees(((A,), WORKS), ((), RESTS))
    (account,) = node.ended
    assert account.end == account.begin + 30
    assert [(each.held, each.observed) for each in account.gpus.values()] == [(30.0, 0.0)] * 2
    assert (seconds(account), seconds(account, "upper")) == (0.0, 120.0)
    assert (seconds(node.running(A), "alone"), seconds(node.running(A), "share")) == (60.0, 30.0)


def test_an_id_that_was_used_twice_between_two_scrapes() -> None:
    node = Node(60.0)
    node.sees(((), RESTS))
    first, second = job("7", DAY + 70), job("7", DAY + 90)
    node.sees(((second,), WORKS), passing={0: (first,)})
    node.sees(((second,), WORKS))
    assert [account.begin for account in node.ended] == [DAY + 70]
    assert node.running(second).begin == DAY + 90
    node.sees(((second,), WORKS), passing={0: (first,)})
    node.sees(((second,), WORKS))
    assert node.running(second).begin == DAY + 90
    assert len(node.ended) == 2


def test_a_requeued_job_and_a_recycled_id_are_others() -> None:
    node = Node(20.0)
    for begin in (DAY, DAY, DAY + 20, DAY + 20, DAY + 40):
        node.sees(((job("7", begin),), WORKS))
    node.sees(((job("7", DAY + 40),), WORKS))
    assert [(account.begin, account.end) for account in node.ended] == [(DAY, DAY + 60), (DAY + 20, DAY + 100)]
    assert seconds(node.running(job("7"))) == 20.0


def test_a_recreated_pod_is_another() -> None:
    node = Node()
    for uid in ("", "u", "u", "v", "v"):
        node.sees(((pod("ml", "web-0", "main", uid),), WORKS))
    node.sees(((pod("ml", "web-0", "main", "v"),), WORKS))
    (account,) = node.ended
    assert account.owner.uid == "u"
    assert seconds(account) == 2.0


def test_tasks_of_an_array_are_jobs() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((job("9_1"),), WORKS), ((job("9_2"),), RESTS))
    assert [seconds(node.running(job(f"9_{task}"))) for task in (1, 2)] == [3.0, 3.0]


def test_a_job_without_a_process_is_charged_as_idle() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((A,), RESTS._replace(memory_used_bytes=0.0)))
    assert seconds(node.running(A), name="idle_seconds", state="held") == 3.0


def test_labels_that_are_missing_for_one_scrape_do_not_end_a_job() -> None:
    node = Node()
    for present in [(A,), (A,), None, (A,), (A,)]:
        node.sees((present, WORKS))
    assert node.ended == []
    account = node.running(A)
    assert (account.begin, account.end) == (DAY + 1, None)
    assert (seconds(account), seconds(account, "boundary")) == (4.0, 0.0)


def test_a_job_on_two_gpus_ends_with_the_second_one() -> None:
    node = Node()
    changes = [*node.sees(((A,), WORKS), ((A,), WORKS)), *node.sees(((A,), WORKS), ((A,), WORKS))]
    assert [(change.kind, change.device.entity.gpu) for change in changes] == [("begin", "0"), ("begin", "1")]
    for _ in range(3):
        assert node.sees(((), RESTS), ((A,), WORKS)) == []
    node.sees(((), RESTS), ((), RESTS))
    changes = list(node.sees(((), RESTS), ((), RESTS)))
    assert [(change.kind, change.device.entity.gpu, change.time) for change in changes] == [
        ("end", "0", DAY + 6),
        ("end", "1", DAY + 6),
    ]
    (account,) = node.ended
    assert [each.held for each in account.gpus.values()] == [2.0, 5.0]


def test_a_partitioned_board_is_accounted_by_its_instances() -> None:
    board = GPU
    parts = [Device(Entity("mig", "0", "GPU-0", name, "1g.10gb")) for name in ("1", "2")]
    node = Node()
    for _ in range(3):
        node.sees(((A, B), WORKS), ((A,), WORKS), ((B,), RESTS), devices=(board, *parts))
    assert [list(node.running(owner).gpus) for owner in (A, B)] == [[("", "GPU-0", "1")], [("", "GPU-0", "2")]]
    assert seconds(node.running(A), "alone") == 2.0


def test_an_instance_is_not_held_while_its_job_has_the_whole_board() -> None:
    instance = Device(Entity("mig", "0", "GPU-0", "1", "1g.10gb"))
    node = Node(interval=60.0)
    for _ in range(3):
        node.sees(((A,), WORKS), ((A,), WORKS), devices=(GPU, instance))
    for _ in range(20):
        node.sees(((A,), WORKS), devices=(GPU,))
    for _ in range(3):
        node.sees(((A,), WORKS), ((A,), WORKS), devices=(GPU, instance))
    account = node.running(A)
    assert (account.elapsed, account.gpus["", "GPU-0", "1"].held_seconds(account.now)) == (25 * 60.0, 4 * 60.0)


@pytest.mark.parametrize("was_divided", [True, False])
def test_a_board_that_was_divided_otherwise_while_its_exporter_is_silent(was_divided: bool) -> None:
    """Another exporter shows it; the silent one returns, and shows it as it was."""
    instance = Device(Entity("mig", "0", "GPU-0", "1", "1g.10gb"))
    table = GpuTable(SETTINGS)
    first = Node(table=table)
    second = Node(accounting=first.accounting, table=table, target="again")
    before, after = [(instance,), (GPU,)] if was_divided else [(GPU,), (instance,)]
    for clock in range(40):
        if clock < 10 or clock >= 30:
            first.sees(((A,), WORKS), devices=before, after=clock + 1.0 - first.clock)
        if 5 <= clock < 30:
            second.sees(((A,), WORKS), devices=before if clock < 10 else after, after=clock + 1.0 - second.clock)
    account = first.running(A)
    held = {key: each.held_seconds(account.now) for key, each in account.gpus.items()}
    assert held == {before[0].entity.key: 9.0 + 9.0, after[0].entity.key: 19.0}
    assert (first.ended, account.elapsed) == ([], 39.0)


def test_a_gpu_that_was_free_without_labels_was_not_held_in_between() -> None:
    node = Node()
    for clock in range(30):
        node.sees(((A,), WORKS) if clock < 5 or clock >= 20 else (None, RESTS), ((A,), WORKS))
    account = node.running(A)
    assert [each.held_seconds(account.now) for each in account.gpus.values()] == [4.0 + 9.0, 29.0]


def without_b(node: Node) -> OwnerAccount:
    """Return the account of an owner whose only GPU has left the page after 3 of 20 samples."""
    for _ in range(3):
        node.sees(((A,), WORKS), ((B,), WORKS))
    for _ in range(17):
        node.sees(((A,), WORKS))
    assert (node.ended, seconds(node.running(A))) == ([], 19.0)
    return node.running(B)


def test_an_owner_keeps_a_gpu_that_the_page_no_longer_lists_and_has_a_gap() -> None:
    node = Node()
    account = without_b(node)
    (on_gpu,) = account.gpus.values()
    assert (account.elapsed, on_gpu.held_seconds(account.now), seconds(account)) == (19.0, 19.0, 2.0)
    assert account.last_seen == DAY + 3
    assert [(each.check, each.state, each.until) for each in on_gpu.conditions.values()] == [
        ("telemetry", "warn", None)
    ]
    node.sees(((A,), WORKS), ((B,), WORKS))
    node.sees(((A,), WORKS), ((B,), WORKS))
    assert node.running(B) is account
    assert (account.elapsed, on_gpu.held_seconds(account.now)) == (21.0, 21.0)


def test_an_owner_that_is_not_on_its_gpu_when_that_returns_ended_when_it_was_seen_last() -> None:
    node = Node()
    account = without_b(node)
    for _ in range(3):
        node.sees(((A,), WORKS), ((C,), WORKS))
    (on_gpu,) = account.gpus.values()
    assert node.ended == [account]
    assert (account.end, account.elapsed, on_gpu.held, seconds(account)) == (DAY + 3, 2.0, 2.0, 2.0)


def test_an_exporter_that_names_another_host_than_before_leaves_no_owner_behind() -> None:
    node = Node()
    for _ in range(3):
        node.sees(((A,), WORKS))
    renamed = replace(GPU, entity=replace(GPU.entity, node="3f5c1e9a7b2d"))
    for _ in range(3):
        node.sees(((A,), WORKS), devices=(renamed,))
    account = node.running(A)
    assert (account.holding, account.elapsed) == ({renamed.entity.key}, 5.0)
    for _ in range(3):
        node.sees(((), RESTS), devices=(renamed,))
    assert node.ended == [account]


def test_an_owner_of_a_gpu_that_is_forgotten_has_ended() -> None:
    node = Node()
    account = without_b(node)
    (state,) = node.layer.absent
    node.layer.forget(state)
    for _ in range(3):
        node.sees(((A,), WORKS))
    assert (node.ended, account.end) == ([account], DAY + 3)


def test_gpus_that_are_others_in_each_tick_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsed.owners.accounting.MAX_ABSENT_GPUS", 8)
    node = Node()
    for number in range(30):
        node.sees(((), RESTS), devices=(Device(Entity("gpu", "0", f"GPU-other-{number}")),))
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, AccountedGpu)]
    assert len([each for each in kept if each.device.entity.uuid.startswith("GPU-other-")]) <= 8 + 2


def test_an_owner_outlives_a_silence_of_its_target() -> None:
    node = Node()
    for _ in range(3):
        node.sees(((A,), WORKS), ((B,), WORKS))
    for after in (SILENT_SECONDS + 15.0, 1.0, 1.0):
        node.sees(((A,), WORKS), ((), RESTS), after=after)
    account = node.running(A)
    assert (account.elapsed, seconds(account)) == (SILENT_SECONDS + 19.0, 4.0)
    (ended,) = node.ended
    assert (ended.owner, ended.end) == (B, DAY + 3)


def test_labels_that_vanish_from_all_gpus_end_no_owner_for_a_time() -> None:
    node = Node(interval=15.0)
    for _ in range(3):
        node.sees(((A,), WORKS), ((B,), WORKS))
    for _ in range(3):
        node.sees((None, WORKS), (None, WORKS))
    assert node.ended == []
    node.sees(((A,), WORKS), (None, WORKS))
    node.sees(((A,), WORKS), (None, WORKS))
    assert node.ended == [], "it works on, and nobody else has it"
    node.sees(((A,), WORKS), (None, RESTS))
    node.sees(((A,), WORKS), (None, RESTS))
    assert [account.owner for account in node.ended] == [B], "nothing uses it"
    assert node.running(A).elapsed == 135.0
    for _ in range(45):
        node.sees((None, WORKS), (None, WORKS))
    assert [account.owner for account in node.ended] == [B, A]


def test_a_second_target_with_the_same_gpu_counts_nothing() -> None:
    accounting = OwnerAccounting()
    first, second = Node(accounting=accounting), Node(accounting=accounting)
    for _ in range(4):
        first.sees(((A,), WORKS))
        assert first.tick is not None
        accounting.add(replace(first.tick, raw=replace(first.tick.raw, target="again")))
    assert second.tick is None
    assert seconds(first.running(A)) == 3.0


def test_owners_of_a_silent_target_that_is_not_read_any_more_end() -> None:
    node = Node()
    for _ in range(3):
        node.sees(((A,), WORKS))
    assert node.accounting.sweep(Monotonic(0.0), ["test"]) == []
    assert node.accounting.sweep(Monotonic(99.0 + SILENT_SECONDS), ["test"]) == []
    node.sees(((A,), WORKS))
    assert node.accounting.sweep(Monotonic(100.0)) == []
    assert node.accounting.sweep(Monotonic(100.0 + SILENT_SECONDS)) == []
    (change,) = node.accounting.sweep(Monotonic(101.0 + SILENT_SECONDS))
    assert change.kind == "end"
    (account,) = node.ended
    assert (account.end, seconds(account)) == (DAY + 4, 3.0)


def test_too_many_owners_are_accounted_together() -> None:
    node, limit = Node(), PLACES_PER_GPU + SHARED_PLACES
    crowd = tuple(job(str(number)) for number in range(limit + 5))
    for _ in range(3):
        node.sees((crowd, WORKS))
    assert len(node.accounting.running) == limit + 1
    assert (node.accounting.dropped, node.accounting.without_account) == (5, 5)
    assert isclose(seconds(node.running(OTHER)), 2.0 * 5 / (limit + 5)), "a share each"
    assert isclose(sum(map(seconds, node.accounting.running)), 2.0)
    for _ in range(3):
        node.sees((crowd[:3], WORKS))
    assert node.accounting.without_account == 0
    node.sees((crowd[-3:], WORKS))
    assert {account.owner.id for account in node.accounting.running} >= {each.id for each in crowd[-3:]}


def test_owners_that_change_with_every_page_are_not_kept() -> None:
    node = Node(dialect="exporter")
    for number in range(40):
        node.sees(((replace(job(str(number)), name="short"),), WORKS))
    ended = {id(account) for account in node.ended}
    assert len(ended) > 30
    del node.ended[:30]
    gc.collect()
    kept = {id(each) for each in gc.get_objects() if isinstance(each, OwnerAccount) and each.owner.name == "short"}
    assert len(ended & kept) < 15


def test_the_owners_of_one_gpu_take_no_place_of_another() -> None:
    node = Node()
    crowd = tuple(job(str(number)) for number in range(140))
    node.sees((crowd, WORKS), ((), RESTS))
    victims = tuple(job(f"other {number}") for number in range(PLACES_PER_GPU))
    for _ in range(3):
        node.sees((crowd, WORKS), (victims, WORKS))
    assert [seconds(node.running(each)) for each in victims] == [2.0 / PLACES_PER_GPU] * PLACES_PER_GPU
    (gpu,) = node.running(OTHER).gpus
    assert gpu == GPU.entity.key


def test_owners_without_a_place_have_what_is_measured_of_them() -> None:
    node, limit = Node(), PLACES_PER_GPU + SHARED_PLACES
    crowd = tuple(job(str(number)) for number in range(limit + 2))
    parts = {each.key: OwnerUse(1e6, 0.0) for each in crowd} | {each.key: OwnerUse(2e9, 0.25) for each in crowd[-2:]}
    for _ in range(3):
        node.sees((crowd, WORKS), uses={0: parts | {crowd[0].key: OwnerUse(1e9, 0.5)}})
    assert (seconds(node.running(crowd[0])), seconds(node.running(OTHER))) == (1.0, 1.0)
    assert seconds(node.running(crowd[1])) == 0.0
    (owned,) = [each for each in node.accounting.owned() if each.account.owner == OTHER]
    assert (owned.memory_used_bytes, owned.share, owned.sharers) == (4e9, 0.5, limit + 2)


def restarted(node: Node) -> Node:
    """The same node after a restart of pulsed, with the accounts that a file kept."""
    text = json.dumps([dump_account(account) for account in node.accounting.running])
    again = Node(node.interval)
    again.clock = node.clock
    again.accounting.restore([load_account(saved) for saved in json.loads(text)])
    return again


def test_a_restart_in_mid_job() -> None:
    node = Node()
    for number in range(4):
        node.sees(((job("7", DAY),), WORKS._replace(energy_joules_total=500.0 * number)))
    again = restarted(node)
    for number in range(3):
        reading = WORKS._replace(energy_joules_total=500.0 * (number + 13))
        changes = again.sees(((job("7", DAY),), reading), after=10.0 if not number else None)
        assert changes == []
    account = again.running(job("7"))
    (on_gpu,) = account.gpus.values()
    assert (account.begin, account.first_seen) == (DAY, DAY + 1)
    assert seconds(account) == 3.0 + 2.0
    assert seconds(account, name="class_energy_joules", state="tensor_heavy_compute") == 5 * 500.0
    assert on_gpu.bridged_joules == 10 * 500.0
    assert (on_gpu.held_seconds(account.now), account.elapsed) == (16.0, 16.0)
    assert on_gpu.extremes.samples == 5


def test_a_job_that_ended_while_pulsed_did_not_run_ends_with_its_last_sample() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((A,), WORKS))
    again = restarted(node)
    again.sees(((), RESTS), after=10.0)
    assert again.sees(((), RESTS), after=RESUME_SECONDS) == []
    (change,) = again.sees(((), RESTS))
    assert change.kind == "end"
    (account,) = again.ended
    assert (account.end, seconds(account)) == (DAY + 4, 3.0)


def test_a_job_that_gave_up_a_gpu_long_ago_keeps_the_other_one_without_labels() -> None:
    node = Node(15.0)
    for second in [A] * 3 + [B] * 50:
        node.sees(((A,), WORKS), ((second,), WORKS))
    for _ in range(3):
        node.sees((None, WORKS), ((B,), WORKS))
    node.sees(((A,), WORKS), ((B,), WORKS))
    account = node.running(A)
    assert (node.ended, account.elapsed) == ([], 56 * 15.0)
    assert [gpu.held_seconds(account.now) for gpu in account.gpus.values()] == [56 * 15.0, 3 * 15.0]


def test_a_job_that_gave_up_a_gpu_while_the_other_one_is_not_listed_has_ended_after_ten_minutes() -> None:
    node = Node(15.0)
    for _ in range(3):
        node.sees(((A,), WORKS), ((A,), WORKS))
    for _ in range(40):
        node.sees(((B,), WORKS), devices=[OTHER_GPU])
    assert node.ended == []
    for _ in range(3):
        node.sees(((B,), WORKS), devices=[OTHER_GPU])
    assert [each.owner for each in node.ended] == [A]


def test_a_job_that_lost_its_gpu_just_before_a_restart_ended_then() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((A,), WORKS))
    node.sees(((B,), WORKS))
    again = restarted(node)
    again.sees(((B,), WORKS), after=RESUME_SECONDS)
    again.sees(((B,), WORKS), after=RESUME_SECONDS)
    again.sees(((B,), WORKS))
    (account,) = again.ended
    assert (account.end, account.elapsed, account.begin) == (DAY + 5, 4.0, DAY + 1)
    assert [gpu.held_seconds(account.now) for gpu in account.gpus.values()] == [4.0]


def test_a_job_that_lost_its_gpu_just_before_a_restart_and_has_it_again() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((A,), WORKS))
    node.sees(((B,), WORKS))
    again = restarted(node)
    assert [each.elapsed for each in again.accounting.current(Unix(DAY + 100)) if each.owner.id == A.id] == [4.0]
    for _ in range(3):
        again.sees(((A,), WORKS), after=10.0)
    account = again.running(A)
    assert (account.begin, account.elapsed, account.end) == (DAY + 1, 4.0 + 30.0, None)
    assert [gpu.held_seconds(account.now) for gpu in account.gpus.values()] == [4.0 + 20.0]


@pytest.mark.parametrize("unnamed", [0, 3])
def test_a_job_without_labels_before_a_restart_ended_with_its_last_sample(unnamed: int) -> None:
    node = Node()
    for present in [(A,)] * 4 + [None] * unnamed:
        node.sees((present, WORKS))
    assert node.running(A).elapsed == 3.0 + unnamed
    again = restarted(node)
    again.sees(((B,), WORKS))
    again.sees(((B,), WORKS), after=RESUME_SECONDS)
    again.sees(((B,), WORKS))
    (account,) = again.ended
    assert (account.begin, account.end, account.elapsed) == (DAY + 1, DAY + 4, 3.0)
    assert [gpu.held_seconds(account.now) for gpu in account.gpus.values()] == [3.0]


def test_a_job_without_labels_before_a_restart_has_its_gpu_all_the_time() -> None:
    node = Node()
    for present in ((A,), (A,), (A,), None, None):
        node.sees((present, WORKS))
    again = restarted(node)
    for _ in range(3):
        again.sees(((A,), WORKS))
    account = again.running(A)
    assert (account.elapsed, [gpu.held_seconds(account.now) for gpu in account.gpus.values()]) == (7.0, [7.0])


def test_a_job_from_before_a_restart_waits_for_a_target_that_answers_late() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((A,), WORKS), ((B,), WORKS))
    again = restarted(node)
    for _ in range(3):
        again.sees(((A,), WORKS), after=RESUME_SECONDS)
    assert again.ended == []
    again.sees(((A,), WORKS), ((B,), WORKS))
    again.sees(((A,), WORKS), ((B,), WORKS))
    assert (again.ended, again.running(B).begin) == ([], DAY + 1)


def test_the_id_of_a_job_from_before_a_restart_is_used_again() -> None:
    node = Node()
    for _ in range(4):
        node.sees(((job("7", DAY),), WORKS))
    again = restarted(node)
    for _ in range(2):
        again.sees(((job("7", DAY + 9),), WORKS), after=10.0)
    (account,) = again.ended
    assert (account.begin, account.end) == (DAY, DAY + 4)
    assert again.running(job("7")).begin == DAY + 9


@pytest.mark.nightly
def test_a_day_of_jobs_needs_bounded_memory() -> None:
    ended = EndedAccounts()
    node = Node(accounting=OwnerAccounting(on_end=ended.add))

    def run(first: int, jobs: int) -> None:
        for number in range(first, first + jobs):
            for _ in range(2):
                node.sees(((job(str(number), DAY + node.clock),), WORKS), ((), RESTS))

    def traced() -> int:
        gc.collect()  # empties Python's free lists, which keep up to 2,000 freed tuples of each length
        return tracemalloc.get_traced_memory()[0]

    run(0, 100)
    tracemalloc.start()
    run(100, 1000)  # as many as are kept
    before = traced()
    run(1100, 1000)
    grown = traced() - before
    tracemalloc.stop()
    assert len(ended) == 1000
    assert len(node.accounting.running) <= 2
    assert grown < 128 * 1024


def test_ended_accounts_are_found_by_their_owner_the_newest_first() -> None:
    ended, lines = EndedAccounts(max_ended=3), list[bytes]()
    for number in range(5):
        node = Node(accounting=OwnerAccounting(on_end=lambda account: lines.append(ended.add(account))))
        for present in [(job(str(number), DAY + number),)] * 3 + [()] * 3:
            node.sees((present, WORKS))
    assert [account.owner.id for account in ended.find()] == ["4", "3", "2"]
    (found,) = ended.find(lambda owner, end: owner.id == "3")
    assert seconds(found) == 2.0
    other = EndedAccounts(max_ended=3)
    for line in lines:
        other.load(line)
    assert [account.owner.id for account in other.find()] == ["4", "3", "2"]


def test_an_account_survives_its_file_whole() -> None:
    node = Node()
    for present in [(A,), (A,), (A, B), (A, B), (A,), ()]:
        node.sees((present, WORKS), ((B,), NOTHING))
    for account in node.accounting.running:
        saved = json.loads(json.dumps(dump_account(account)))
        again = load_account(saved)
        assert json.loads(json.dumps(dump_account(again))) == saved
        for key, part in account.gpus.items():
            for name in ("alone", "shared", "share", "boundary"):
                assert getattr(again.gpus[key], name) == getattr(part, name), name


@pytest.mark.parametrize(
    "saved",
    [None, [], {}, {"owner": {}}, {"owner": {"kind": "job", "id": "1"}, "begin": 1, "first_seen": 1, "last_seen": 1}],
)
def test_what_is_no_account_is_refused(saved: object) -> None:
    with pytest.raises(ValueError, match=r"not an account|not a kind of owner"):
        load_account(saved)


def test_a_counter_that_was_no_number_of_json_costs_itself_only() -> None:
    node = Node()
    for _ in range(3):
        node.sees(((A,), WORKS))
    saved = json.loads(json.dumps(dump_account(node.running(A))))
    saved["gpus"][0]["alone"] |= {"observed_seconds": None, "idle_seconds:held": None}
    assert seconds(load_account(saved)) == 0.0


@pytest.mark.parametrize("number", [inf, -inf, nan, 1e300])
def test_numbers_that_json_lacks_do_not_cost_an_account(number: float) -> None:
    ended = EndedAccounts()
    node = Node(accounting=OwnerAccounting(on_end=ended.add))
    for present in [(A,)] * 4 + [()] * 3:
        names = ("memory_used_bytes", "power_watts", "energy_joules_total", "power_violation_seconds_total")
        node.sees((present, Reading(**dict.fromkeys(names, number))))
    (account,) = ended.find()
    assert account.owner == A


def test_an_empty_vector_adds_nothing() -> None:
    assert added(EMPTY, EMPTY) is EMPTY


def test_an_account_keeps_what_to_do_about_a_health_event() -> None:
    node = Node()
    for failure in (0, 0, 1):
        node.sees(((A,), WORKS._replace(row_remap_failure=failure)))
    saved = json.loads(json.dumps(dump_account(node.running(A))))
    events = {event.check: event for event in load_account(saved).on(GPU).events}
    assert (events["row_remap_failed"].after, events["row_remap_failed"].remedy) == (
        "crit",
        "Row repair failed (spares used up or write failed): run field diagnostics and replace the GPU.",
    )


def test_a_pod_whose_gpu_is_gone_has_ended_when_another_one_has_its_name() -> None:
    node = Node()
    old, new = (replace(pod("ml", "p"), uid=uid) for uid in ("1", "2"))
    for _ in range(5):
        node.sees(((old,), BUSY), ((), BUSY))
    for _ in range(5):
        node.sees(((new,), BUSY), devices=(OTHER_GPU,))
    (ended,), (running,) = node.ended, node.accounting.running
    assert (ended.owner.uid, running.owner.uid) == ("1", "2")
    assert seconds(ended) == 4.0
