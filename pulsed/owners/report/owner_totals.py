"""Groups of owners (pods, workloads, jobs and users) and their values: sums over the GPUs that they have now, and over
their accounts.

Of a GPU that several owners share, each has a share. Counters of workloads continue while pods come and go, also
between two scrapes. They begin with 0 when pulsed starts, as counters of a process do; the accounts may be older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import GpuKey
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting import OwnedGpu, OwnerAccounting
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.counter_vector import EMPTY, CounterVector, added, observed, scaled, total, value

GroupName = Literal["pod", "workload", "job", "user"]
GroupLabels = tuple[tuple[str, str], ...]


class OwnerGroup(NamedTuple):
    """What values are grouped by.

    Attributes:
        name: the first part of the names.
        includes: returns whether an owner is in the group.
        labels: by name, the attribute of an owner that is their value.
    """

    name: GroupName
    includes: Callable[[Owner], bool]
    labels: Mapping[str, str]

    def labels_of(self, owner: Owner) -> dict[str, str]:
        """Return the labels of an owner, also empty ones; none if it is not in the group."""
        if not self.includes(owner):
            return {}
        return {label: getattr(owner, attribute) for label, attribute in self.labels.items()}


POD = OwnerGroup(
    "pod", lambda owner: owner.has_pod, {"namespace": "namespace", "pod": "name", "container": "container"}
)
WORKLOAD = OwnerGroup(
    "workload",
    lambda owner: bool(owner.workload),
    {"namespace": "namespace", "workload": "workload", "workload_kind": "workload_kind"},
)
JOB = OwnerGroup(
    "job",
    lambda owner: owner.kind == "slurm_job",
    {"job_id": "id", "user": "user", "account": "account", "partition": "partition"},
)
USER = OwnerGroup("user", lambda owner: bool(owner.user), {"user": "user"})

GROUPS: Mapping[GroupName, OwnerGroup] = {group.name: group for group in (POD, WORKLOAD, JOB, USER)}


Owned = Mapping[OwnerAccount, Sequence[OwnedGpu]]
"""Accounts of owners with the GPUs that they have now."""


def fresh_owners(store: TargetStore, accounting: OwnerAccounting, now: Monotonic) -> Owned:
    """Return the owners of GPUs of fresh targets at a monotonic time, the oldest first."""
    fresh = {tick.target for tick in store.fresh_ticks(now)}
    gpus_by_account: dict[OwnerAccount, list[OwnedGpu]] = {}
    for gpu in accounting.owned():
        if gpu.tick.target in fresh and gpu.account.owner.is_known:
            gpus_by_account.setdefault(gpu.account, []).append(gpu)
    return {
        account: gpus_by_account[account]
        for account in sorted(gpus_by_account, key=lambda each: (each.begin, each.owner.key))
    }


def rows_of(group: OwnerGroup, accounts: Iterable[OwnerAccount]) -> Mapping[GroupLabels, Sequence[OwnerAccount]]:
    """Return the accounts of a group by its labels, without empty ones."""
    rows: dict[GroupLabels, list[OwnerAccount]] = {}
    for account in accounts:
        if (labels := row_labels(group, account.owner)) is not None:
            rows.setdefault(labels, []).append(account)
    return rows


def row_labels(group: OwnerGroup, owner: Owner) -> GroupLabels | None:
    """Return the labels of an owner in a group without empty ones; None if it is not in the group."""
    labels = group.labels_of(owner)
    return tuple([pair for pair in labels.items() if pair[1]]) if labels else None


class AccountTotals(NamedTuple):
    """Counters of accounts.

    Attributes:
        counters: of a shared GPU a share.
        observed: seconds, also of shared GPUs in full.
        joules: energy, also of the time in which pulsed did not run; None if never known.
        allocated: observed seconds by the parts of GPUs that were allocated; None if never known.
    """

    counters: CounterVector
    observed: float
    joules: Value
    allocated: Value = None

    def plus(self, other: AccountTotals, factor: float = 1.0) -> AccountTotals:
        """Return the sum with another one, times a factor."""
        joules, allocated = (
            mine if others is None else (mine or 0.0) + factor * others
            for mine, others in ((self.joules, other.joules), (self.allocated, other.allocated))
        )
        counters = added(self.counters, scaled(other.counters, factor))
        return AccountTotals(counters, self.observed + factor * other.observed, joules, allocated)

    def minus(self, other: AccountTotals) -> AccountTotals:
        """Return the growth since another one of the same accounts."""
        return self if other is NO_TOTALS else self.plus(other, -1.0)


NO_TOTALS = AccountTotals(EMPTY, 0.0, None)


def totals_of(account: OwnerAccount) -> AccountTotals:
    """Return the counters of an account."""
    totals = NO_TOTALS
    for each in account.gpus.values():
        totals = totals.plus(AccountTotals(each.estimate, each.observed, each.joules, each.allocated_seconds))
    return totals


@dataclass(slots=True)
class GroupSums:
    """Sums over the GPUs of an owner, or of several with equal labels; of a shared GPU a share.

    Attributes:
        gpus: all GPUs, shared ones in full.
        claimed: MIG instances of boards that several Slurm jobs claim, which are not in `gpus`, divided by the jobs.
        shares: the same, shared ones by their shares.
        known_shares: GPUs with known real utilization, by shares.
        classes: GPUs by workload class, by shares.
    """

    gpus: set[GpuKey] = field(default_factory=set)
    claimed: float = 0.0
    shares: float = 0.0
    pods: set[str] = field(default_factory=set)
    known_shares: float = 0.0
    real_utilization: float = 0.0
    classes: dict[str, float] = field(default_factory=dict)
    memory_used_bytes: Value = None
    power_watts: Value = None
    totals: AccountTotals = NO_TOTALS

    def add_gpu(self, gpu: OwnedGpu) -> None:
        """Add what a GPU does now."""
        share = 1.0 / gpu.sharers
        if gpu.sharers > 1 and gpu.device.entity.kind == "mig" and gpu.account.owner.kind == "slurm_job":
            self.claimed += share
        else:
            self.gpus.add(gpu.device.entity.key)
        self.shares += share
        if gpu.account.owner.has_pod:
            self.pods.add(gpu.account.owner.name)
        name = gpu.result.shown_class.workload_class
        self.classes[name] = self.classes.get(name, 0.0) + share
        if (ratio := gpu.result.real_utilization.ratio.value) is not None:
            self.known_shares += share
            self.real_utilization += share * ratio
        if (used := gpu.memory_used_bytes) is not None:
            self.memory_used_bytes = (self.memory_used_bytes or 0.0) + used
        if (watts := gpu.reading.power_watts) is not None:
            self.power_watts = (self.power_watts or 0.0) + gpu.share * watts

    @property
    def mean_real_utilization(self) -> Value:
        """Mean over the GPUs with known real utilization; None without any."""
        return self.real_utilization / self.known_shares if self.known_shares else None

    @property
    def whole_real_utilization(self) -> Value:
        """Sum over all GPUs; None if it is unknown of any: a sum without it would be too low."""
        return self.real_utilization if self.known_shares >= self.shares - 1e-9 else None


def sums_of(accounts: Iterable[OwnerAccount], owned: Owned, totals: AccountTotals | None = None) -> GroupSums:
    """Return the sums over accounts, which have to be settled; `totals` replaces the counters of the accounts."""
    sums = GroupSums()
    for account in accounts:
        if totals is None:
            sums.totals = sums.totals.plus(totals_of(account))
        for gpu in owned[account]:
            sums.add_gpu(gpu)
    if totals is not None:
        sums.totals = totals
    return sums


class OwnerFamily(NamedTuple):
    """A value of each group, or of some `groups`, by its name without `pulsed_{group}_` and `_total`."""

    name: str
    type: str
    help: str
    get: Callable[[GroupSums], Value]
    groups: tuple[GroupName, ...] = ()

    def full_name(self, group: str) -> str:
        """Return the name of its samples for a group."""
        return f"pulsed_{group}_{self.key}"

    @property
    def key(self) -> str:
        """The name in JSON."""
        return f"{self.name}_total" if self.type == "counter" else self.name


def _gauge(name: str, help: str, get: Callable[[GroupSums], Value], *groups: GroupName) -> OwnerFamily:
    return OwnerFamily(name, "gauge", help, get, groups)


def _counter(name: str, help: str, get: Callable[[AccountTotals], Value]) -> OwnerFamily:
    return OwnerFamily(name, "counter", help, lambda sums: get(sums.totals))


FAMILIES: tuple[OwnerFamily, ...] = (
    _gauge(
        "gpus",
        "GPUs and MIG instances; shared ones count in full, instances of a board that several jobs claim in part",
        lambda sums: len(sums.gpus) + sums.claimed,
        "pod",
        "job",
    ),
    _gauge("gpus", "GPUs and MIG instances; shared ones count in part", lambda sums: sums.shares, "workload", "user"),
    _gauge("pods", "Pods with GPUs on this node", lambda sums: len(sums.pods), "workload"),
    _gauge("real_utilization_ratio", "Mean real utilization of its GPUs", lambda sums: sums.mean_real_utilization),
    _gauge(
        "real_utilization_ratio_sum",
        "Sum of the real utilization of its GPUs; shared ones count in part; absent if any is unknown; the mean over"
        " nodes is its sum divided by the sum of pulsed_workload_gpus",
        lambda sums: sums.whole_real_utilization,
        "workload",
    ),
    _gauge("memory_used_bytes", "Device memory in use", lambda sums: sums.memory_used_bytes),
    _gauge("power_watts", "Power", lambda sums: sums.power_watts),
    _counter("gpu_seconds", "Observed GPU time", lambda totals: observed(totals.counters)),
    _counter(
        "allocated_gpu_seconds",
        "Observed GPU time by the parts of GPUs that the scheduler allocated; absent if these are not known",
        lambda totals: totals.allocated,
    ),
    _counter("observed_seconds", "Observed GPU time; shared GPUs count in full", lambda totals: totals.observed),
    _counter(
        "real_utilization_seconds",
        "Integral of real utilization over its GPUs",
        lambda totals: value(totals.counters, "real_utilization_seconds"),
    ),
    _counter(
        "real_utilization_unknown_seconds",
        "Observed GPU time with unknown real utilization",
        lambda totals: value(totals.counters, "real_utilization_unknown_seconds") or 0.0,
    ),
    _counter("idle_seconds", "Observed idle GPU time", lambda totals: total(totals.counters, "idle_seconds") or 0.0),
    _counter("energy_joules", "Energy", lambda totals: totals.joules),
    _counter("idle_energy_joules", "Energy while idle", lambda totals: total(totals.counters, "idle_energy_joules")),
)


def families_of(group: GroupName) -> Sequence[OwnerFamily]:
    """Return the values of a group."""
    return [family for family in FAMILIES if not family.groups or group in family.groups]


MAX_WORKLOADS = 4096
"""Workloads whose counters are kept while they have no pod; more are forgotten, the oldest first."""


class WorkloadTotals:
    """The counters of all workloads since the start."""

    def __init__(self) -> None:
        self._taken: dict[OwnerAccount, AccountTotals] = {}
        self._sums: dict[GroupLabels, AccountTotals] = {}

    def skip(self, accounts: Iterable[OwnerAccount]) -> None:
        """Leave out what is in these accounts already: they are from before the start."""
        self._taken |= {account: totals_of(account) for account in accounts}

    def add_growth(self, accounts: Iterable[OwnerAccount]) -> None:
        """Add what these accounts have grown by; they have to be settled."""
        for account in accounts:
            labels = row_labels(WORKLOAD, account.owner)
            if labels is None:
                continue
            now = totals_of(account)
            growth = now.minus(self._taken.get(account, NO_TOTALS))
            self._taken[account] = now
            self._sums[labels] = self._sums.get(labels, NO_TOTALS).plus(growth)

    def end(self, account: OwnerAccount) -> None:
        """Add the last growth of an account that has ended."""
        self.add_growth([account])
        self._taken.pop(account, None)
        if len(self._sums) > MAX_WORKLOADS:
            current = {row_labels(WORKLOAD, each.owner) for each in self._taken}
            old = [labels for labels in self._sums if labels not in current]
            for labels in old[: len(self._sums) - MAX_WORKLOADS]:
                del self._sums[labels]

    @property
    def sums(self) -> Mapping[GroupLabels, AccountTotals]:
        """The counters by labels of the workload."""
        return self._sums
