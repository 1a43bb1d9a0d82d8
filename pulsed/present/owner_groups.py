"""The groups of owners that values are shown for: pods, workloads, jobs and users; and who has GPUs now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from pulsed.accounting.account import OwnerAccount
from pulsed.accounting.accounting import OwnedGpu, OwnerAccounting
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore

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


Owned = Mapping[OwnerAccount, Sequence[OwnedGpu]]
"""Accounts of owners with the GPUs that they have now."""


def fresh_owners(store: TargetStore, accounting: OwnerAccounting, now: float) -> Owned:
    """Return the owners of GPUs of fresh targets at a monotonic time, the oldest first."""
    fresh = {target.tick.target for target in store.targets if target.tick is not None and target.fresh(now)}
    found: dict[OwnerAccount, list[OwnedGpu]] = {}
    for gpu in accounting.owned():
        if gpu.target in fresh and gpu.account.owner.kind != "nobody":
            found.setdefault(gpu.account, []).append(gpu)
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
