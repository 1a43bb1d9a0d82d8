"""The JSON documents of the accounts of owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pulsed.accounting.account import VIOLATIONS, GpuAccount, OwnerAccount
from pulsed.accounting.accounting import OwnerAccounting
from pulsed.accounting.counter_vector import by_name, observed
from pulsed.accounting.saved_accounts import EndedAccounts
from pulsed.model.owner import Owner
from pulsed.present.account_totals import coverage, with_totals
from pulsed.present.job_numbers import NO_PRICES, Prices
from pulsed.present.time_text import rfc3339, rfc3339_or_none
from pulsed.present.workload_totals import WorkloadTotals

Document = dict[str, Any]


class Accounts(NamedTuple):
    """Where accounts are found: those of owners that have a GPU, and those of owners that have ended; prices; and
    counters of workloads, None without those of pods that are gone.
    """

    running: OwnerAccounting
    ended: EndedAccounts
    prices: Prices = NO_PRICES
    workloads: WorkloadTotals | None = None


class AccountFilter(NamedTuple):
    """Which accounts are wanted; empty: any. `since`: not ended before this Unix time."""

    state: str = ""
    kind: str = ""
    user: str = ""
    account: str = ""
    namespace: str = ""
    since: float = 0.0

    def matches(self, account: OwnerAccount) -> bool:
        """Return whether the owner of an account is wanted, whatever its state."""
        return self.matches_owner(account.owner)

    def matches_owner(self, owner: Owner) -> bool:
        """Return whether an owner is wanted, whatever its state."""
        pairs = ((self.kind, owner.kind), (self.user, owner.user), (self.account, owner.account))
        return all(not wanted or wanted == found for wanted, found in (*pairs, (self.namespace, owner.namespace)))


def running_accounts(accounts: Accounts, wanted: AccountFilter) -> list[OwnerAccount]:
    """Return the accounts of owners that have a GPU and match, the newest begin first."""
    if wanted.state == "ended":
        return []
    return sorted(filter(wanted.matches, accounts.running.running), key=lambda each: -each.begin)


def ended_accounts(accounts: Accounts, wanted: AccountFilter) -> Iterator[OwnerAccount]:
    """Return the accounts of owners that have ended and match, the newest end first; may be used in another thread."""
    if wanted.state == "running":
        return iter(())
    return accounts.ended.find(lambda owner, end: end >= wanted.since and wanted.matches_owner(owner))


def accounts_named(accounts: Accounts, name: str) -> list[OwnerAccount]:
    """Return the accounts of an owner, the newest begin first.

    Args:
        name: a job id (`4711`, `4711_7`), the UID of a pod, `pod:namespace/name`, or an owner's id.
    """
    found = [each for each in accounts.running.running if name in names_of_owner(each.owner)]
    found += accounts.ended.find(lambda owner, end: name in names_of_owner(owner))
    return sorted(found, key=lambda each: -each.begin)


def names_of_owner(owner: Owner) -> set[str]:
    """Return all names by which an owner is found."""
    names = {owner.id, owner.uid}
    if owner.kind == "pod":
        names |= {f"pod:{owner.namespace}/{owner.name}", f"pod:{owner.id}"}
    return names - {""}


def owner_document(owner: Owner) -> Document:
    """Return who an owner is; unknown texts are null."""
    return {
        "kind": owner.kind,
        "id": owner.id,
        "user": owner.user or None,
        "user_id": owner.user_id or None,
        "account": owner.account or None,
        "partition": owner.partition or None,
        "cluster": owner.cluster or None,
        "name": owner.name or None,
        "namespace": owner.namespace or None,
        "container": owner.container or None,
        "uid": owner.uid or None,
        "workload": owner.workload or None,
        "workload_kind": owner.workload_kind or None,
        "labels": dict(owner.labels),
    }


def account_document(account: OwnerAccount, here: str, prices: Prices = NO_PRICES) -> Document:
    """Return an account with all of its GPUs; `here` is this process's node."""
    moment = account.last_seen if account.end is None else account.end
    document: Document = {
        "owner": owner_document(account.owner),
        "state": "running" if account.end is None else "ended",
        "begin": rfc3339(account.begin),
        "end": rfc3339_or_none(account.end),
        "last_sample_time": rfc3339(account.last_seen),
        "elapsed_seconds": max(moment - account.begin, 0.0),
    }
    return with_totals(document, [_gpu(each, moment, here) for each in account.gpus.values()], prices)


def _gpu(account: GpuAccount, moment: float, here: str) -> Document:
    device, extremes = account.device, account.extremes
    held = account.held_seconds(moment)
    return {
        "node": device.entity.node or here,
        "gpu": device.entity.gpu,
        "uuid": device.entity.uuid or None,
        "mig_id": device.entity.mig_id or None,
        "model": device.model or None,
        "memory_bytes": account.memory_bytes,
        "shared_by": account.sharers,
        "held_seconds": held,
        "coverage": coverage(account.observed, held),
        "boundary_seconds": observed(account.boundary),
        "samples": extremes.samples,
        "gpu_seconds": observed(account.estimate),
        "observed_seconds": account.observed,
        "bridged_joules": account.bridged_joules,
        "counters": by_name(account.estimate),
        "lower": by_name(account.alone),
        "upper": by_name(account.upper),
        "peaks": {
            "memory_used_bytes": extremes.memory_used_bytes,
            "power_watts": extremes.power_watts,
            "temperature_celsius": extremes.temperature_celsius,
        },
        "idle_runs": {"longest_seconds": extremes.longest_idle, "last_seconds": extremes.idle_run},
        "violations": dict(zip(VIOLATIONS, account.violations, strict=True)),
        "events": [
            {**event._asdict(), "time": rfc3339(event.time), "check": event.check or None} for event in account.events
        ],
    }
