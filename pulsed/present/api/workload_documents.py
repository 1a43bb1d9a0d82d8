"""The JSON document of what the owners of GPUs do now, grouped by pod, workload, job or user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsed.model.target_store import TargetStore
from pulsed.present.api.account_documents import Accounts
from pulsed.present.api.event_documents import finite
from pulsed.present.owner_groups import (
    WORKLOAD,
    AccountTotals,
    GroupLabels,
    OwnerGroup,
    families_of,
    fresh_owners,
    rows_of,
    sums_of,
)


def workloads_document(
    board: TargetStore, accounts: Accounts, group: OwnerGroup, now: float, scale_target: float
) -> list[dict[str, Any]]:
    """Return a row per pod, workload, job or user that has GPUs of fresh targets at a monotonic time.

    Values have the names of their metrics; those that are unknown are null.
    """
    owned = fresh_owners(board, accounts.running, now)
    accounts.running.settle(owned)
    totals: Mapping[GroupLabels, AccountTotals] = {}
    if group is WORKLOAD and accounts.workloads is not None:
        accounts.workloads.take(owned)
        totals = accounts.workloads.sums
    found = []
    for labels, members in rows_of(group, owned).items():
        sums = sums_of(members, owned, totals.get(labels))
        row: dict[str, Any] = {**dict(labels), "classes": sums.classes}
        for family in families_of(group.name):
            number = family.get(sums)
            row[family.key] = None if number is None else finite(number)
        if group.name == "workload":
            row["scale_hint"] = sums.scale_hint(scale_target)
        found.append(row)
    return found
