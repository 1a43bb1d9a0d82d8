"""Values of pods, workloads, jobs and users: sums over the GPUs that they have now, and over their accounts.

Of a GPU that several owners share, each has an equal share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pulsed.accounting.account import GpuKey, OwnerAccount, gpu_key
from pulsed.accounting.accounting import HeldGpu, OwnerAccounting
from pulsed.accounting.counter_vector import EMPTY, CounterVector, added, observed, scaled, total, value
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Value

SCALE_TARGET = 0.6
"""Real utilization above which a workload needs more replicas; below half of it, fewer."""

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
    "pod", lambda owner: owner.kind == "pod", {"namespace": "namespace", "pod": "name", "container": "container"}
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


class AccountTotals(NamedTuple):
    """Counters of accounts.

    Attributes:
        counters: of a shared GPU an equal share.
        observed: seconds, also of shared GPUs in full.
        joules: energy, also of the time in which pulsed did not run; None if never known.
    """

    counters: CounterVector
    observed: float
    joules: Value

    def plus(self, other: AccountTotals, factor: float = 1.0) -> AccountTotals:
        """Return the sum with another one, times a factor."""
        joules = self.joules if other.joules is None else (self.joules or 0.0) + factor * other.joules
        counters = added(self.counters, scaled(other.counters, factor))
        return AccountTotals(counters, self.observed + factor * other.observed, joules)

    def minus(self, other: AccountTotals) -> AccountTotals:
        """Return the growth since another one of the same accounts."""
        return self if other is NO_TOTALS else self.plus(other, -1.0)


NO_TOTALS = AccountTotals(EMPTY, 0.0, None)


def totals_of(account: OwnerAccount) -> AccountTotals:
    """Return the counters of an account."""
    found = NO_TOTALS
    for each in account.gpus.values():
        counters = each.estimate
        joules = total(counters, "class_energy_joules")
        if joules is not None or each.bridged_joules:
            joules = (joules or 0.0) + each.bridged_joules
        found = found.plus(AccountTotals(counters, each.observed, joules))
    return found


@dataclass(slots=True)
class GroupSums:
    """Sums over the GPUs of an owner, or of several with equal labels; of a shared GPU an equal share.

    Attributes:
        gpus: all GPUs, shared ones in full.
        shares: the same, shared ones by their shares.
        pods: names of the pods.
        known: GPUs of which the real utilization is known, by shares.
        classes: GPUs by workload class, by shares.
        totals: of the accounts.
    """

    gpus: set[GpuKey] = field(default_factory=set)
    shares: float = 0.0
    pods: set[str] = field(default_factory=set)
    known: float = 0.0
    real_utilization: float = 0.0
    classes: dict[str, float] = field(default_factory=dict)
    memory_used_bytes: Value = None
    power_watts: Value = None
    totals: AccountTotals = NO_TOTALS

    @property
    def counters(self) -> CounterVector:
        """Counters of the accounts."""
        return self.totals.counters

    def add_gpu(self, held: HeldGpu) -> None:
        """Add what a GPU does now."""
        share = 1.0 / held.sharers
        self.gpus.add(gpu_key(held.device))
        self.shares += share
        if held.account.owner.kind == "pod":
            self.pods.add(held.account.owner.name)
        name = held.result.held.workload_class
        self.classes[name] = self.classes.get(name, 0.0) + share
        if (ratio := held.result.real_utilization.ratio) is not None:
            self.known += share
            self.real_utilization += share * ratio
        if (used := held.reading.memory_used_bytes) is not None:
            self.memory_used_bytes = (self.memory_used_bytes or 0.0) + share * used
        if (watts := held.reading.power_watts) is not None:
            self.power_watts = (self.power_watts or 0.0) + share * watts

    @property
    def mean_real_utilization(self) -> Value:
        """Mean over the GPUs of which it is known; None if of none."""
        return self.real_utilization / self.known if self.known else None

    @property
    def whole_real_utilization(self) -> Value:
        """Sum over all GPUs; None if it is unknown of any: a sum without it would be too low."""
        return self.real_utilization if self.known >= self.shares - 1e-9 else None

    def scale_hint(self, target: float) -> int | None:
        """Return whether more replicas are needed (1), fewer (-1), or neither (0); None if that is unknown.

        Args:
            target: real utilization, 0..1. Between its half and itself nothing changes, so that a change of replicas
                does not lead to the opposite change.
        """
        if (whole := self.whole_real_utilization) is None:
            return None
        mean = whole / self.shares
        return int(mean > target) - int(mean < target / 2)


class OwnerFamily(NamedTuple):
    """A value of each group, by its name without `pulsed_{group}_` and `_total`.

    Attributes:
        groups: that have it; all if empty.
    """

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


FAMILIES: tuple[OwnerFamily, ...] = (
    OwnerFamily(
        "gpus", "gauge", "GPUs and MIG instances, shared ones in full", lambda sums: len(sums.gpus), ("pod", "job")
    ),
    OwnerFamily(
        "gpus", "gauge", "GPUs and MIG instances, shared ones in part", lambda sums: sums.shares, ("workload", "user")
    ),
    OwnerFamily("pods", "gauge", "Pods with GPUs on this node", lambda sums: len(sums.pods), ("workload",)),
    OwnerFamily(
        "real_utilization_ratio",
        "gauge",
        "Mean real utilization of its GPUs",
        lambda sums: sums.mean_real_utilization,
    ),
    OwnerFamily(
        "real_utilization_ratio_sum",
        "gauge",
        "Sum of the real utilization of its GPUs, shared ones in part; absent if that of any is unknown; over nodes,"
        " sum / sum of gpus is the mean",
        lambda sums: sums.whole_real_utilization,
        ("workload",),
    ),
    OwnerFamily("memory_used_bytes", "gauge", "Device memory in use", lambda sums: sums.memory_used_bytes),
    OwnerFamily("power_watts", "gauge", "Power", lambda sums: sums.power_watts),
    OwnerFamily("gpu_seconds", "counter", "Observed GPU time", lambda sums: observed(sums.counters)),
    OwnerFamily(
        "observed_seconds", "counter", "Observed GPU time, shared GPUs in full", lambda sums: sums.totals.observed
    ),
    OwnerFamily(
        "real_utilization_seconds",
        "counter",
        "Integral of real utilization over its GPUs",
        lambda sums: value(sums.counters, "real_utilization_seconds"),
    ),
    OwnerFamily(
        "real_utilization_unknown_seconds",
        "counter",
        "Observed GPU time with unknown real utilization",
        lambda sums: value(sums.counters, "real_utilization_unknown_seconds") or 0.0,
    ),
    OwnerFamily(
        "idle_seconds",
        "counter",
        "Observed idle GPU time",
        lambda sums: total(sums.counters, "idle_seconds") or 0.0,
    ),
    OwnerFamily("energy_joules", "counter", "Energy", lambda sums: sums.totals.joules),
    OwnerFamily(
        "idle_energy_joules",
        "counter",
        "Energy while idle",
        lambda sums: total(sums.counters, "idle_energy_joules"),
    ),
)


def families_of(group: GroupName) -> Sequence[OwnerFamily]:
    """Return the values of a group."""
    return [family for family in FAMILIES if not family.groups or group in family.groups]


Owned = Mapping[OwnerAccount, Sequence[HeldGpu]]
"""Accounts of owners with the GPUs that they have now."""


def fresh_owners(board: TargetStore, accounting: OwnerAccounting, now: float) -> Owned:
    """Return the owners of GPUs of fresh targets at a monotonic time, the oldest first."""
    fresh = {target.tick.target for target in board.targets if target.tick is not None and target.fresh(now)}
    found: dict[OwnerAccount, list[HeldGpu]] = {}
    for held in accounting.held():
        if held.target in fresh and held.account.owner.kind != "nobody":
            found.setdefault(held.account, []).append(held)
    return {account: found[account] for account in sorted(found, key=lambda each: (each.begin, each.owner.key))}


def rows_of(group: OwnerGroup, accounts: Iterable[OwnerAccount]) -> Mapping[GroupLabels, Sequence[OwnerAccount]]:
    """Return the accounts of a group by its labels, without empty ones."""
    found: dict[GroupLabels, list[OwnerAccount]] = {}
    for account in accounts:
        if (labels := row_labels(group, account.owner)) is not None:
            found.setdefault(labels, []).append(account)
    return found


def row_labels(group: OwnerGroup, owner: Owner) -> GroupLabels | None:
    """Return the labels of an owner in a group without empty ones; None if it is not in the group."""
    labels = group.labels_of(owner)
    return tuple([pair for pair in labels.items() if pair[1]]) if labels else None


def sums_of(accounts: Iterable[OwnerAccount], owned: Owned, totals: AccountTotals | None = None) -> GroupSums:
    """Return the sums over accounts, which have to be settled.

    Args:
        totals: instead of the counters of the accounts.
    """
    sums = GroupSums()
    for account in accounts:
        if totals is None:
            sums.totals = sums.totals.plus(totals_of(account))
        for held in owned[account]:
            sums.add_gpu(held)
    if totals is not None:
        sums.totals = totals
    return sums
