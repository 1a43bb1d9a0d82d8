"""The metric families of owners: who has each GPU, and the counters of pods, workloads and jobs.

The number of owners with series of their own is limited; their series end with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import Metric

from pulsed.accounting.account import OwnerAccount
from pulsed.accounting.accounting import HeldGpu, OwnerAccounting
from pulsed.accounting.counter_vector import EMPTY, CounterVector, added, observed, total, value
from pulsed.accounting.findings import FindingDetector, FindingName
from pulsed.attribution.owner import Owner
from pulsed.collector.target_store import TargetStore
from pulsed.present.exposition.text_format import label_pairs
from pulsed.present.gpu_keys import gpu_labels
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import Value

MAX_OWNERS = 256

_Labels = tuple[tuple[str, str], ...]


class OwnerGroup(NamedTuple):
    """What counters are grouped by: the first part of the names, and the labels of an owner, if it is in the group."""

    name: str
    labels: Callable[[Owner], Mapping[str, str] | None]


def _pod(owner: Owner) -> Mapping[str, str] | None:
    if owner.kind != "pod":
        return None
    return {"namespace": owner.namespace, "pod": owner.name, "container": owner.container}


def _workload(owner: Owner) -> Mapping[str, str] | None:
    if not owner.workload:
        return None
    return {"namespace": owner.namespace, "workload": owner.workload, "workload_kind": owner.workload_kind}


def _job(owner: Owner) -> Mapping[str, str] | None:
    if owner.kind != "slurm_job":
        return None
    return {"job_id": owner.id, "user": owner.user, "account": owner.account, "partition": owner.partition}


_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_]")

GROUPS = (OwnerGroup("pod", _pod), OwnerGroup("workload", _workload), OwnerGroup("job", _job))


def _info(owner: Owner) -> Mapping[str, str]:
    found: dict[str, str] = {"kind": owner.kind, "user": owner.user}
    for group in GROUPS:
        found |= group.labels(owner) or {}
    if owner.kind == "pod":
        for name, text in owner.labels:
            found.setdefault(f"label_{_NOT_IN_NAME.sub('_', name)}", text)
    return found


def owner_label_text(device: Device) -> str:
    """Return the labels of a device's owners for its series, with a leading comma; several values are in one label."""
    values: dict[str, dict[str, None]] = {}
    for owner in device.owners or ():
        for name, text in _info(owner).items():
            if text and name != "kind":  # counters have a `kind` of their own
                values.setdefault(name, {})[text] = None
    return "".join(f",{label_pairs([(name, ','.join(texts))])}" for name, texts in values.items())


@dataclass(slots=True)
class GroupSums:
    """Sums over the GPUs of an owner, or of several with equal labels; of a shared GPU an equal share.

    Attributes:
        weight: GPUs of which the real utilization is known.
        counters: of the accounts.
        observed: seconds, also of shared GPUs in full.
        joules: energy, also of the time in which pulsed did not run; None if never known.
    """

    gpus: int = 0
    weight: float = 0.0
    real_utilization: float = 0.0
    memory_used_bytes: Value = None
    power_watts: Value = None
    counters: CounterVector = EMPTY
    observed: float = 0.0
    joules: Value = None

    def add_gpu(self, held: HeldGpu) -> None:
        """Add what a GPU does now."""
        share = 1.0 / held.sharers
        self.gpus += 1
        if (ratio := held.result.real_utilization.ratio) is not None:
            self.weight += share
            self.real_utilization += share * ratio
        if (used := held.reading.memory_used_bytes) is not None:
            self.memory_used_bytes = (self.memory_used_bytes or 0.0) + share * used
        if (watts := held.reading.power_watts) is not None:
            self.power_watts = (self.power_watts or 0.0) + share * watts

    def add_account(self, account: OwnerAccount) -> None:
        """Add the counters of an account."""
        for each in account.gpus.values():
            counters = each.estimate
            self.counters = added(self.counters, counters)
            self.observed += each.observed
            joules = total(counters, "class_energy_joules")
            if joules is not None or each.bridged_joules:
                self.joules = (self.joules or 0.0) + (joules or 0.0) + each.bridged_joules


class OwnerFamily(NamedTuple):
    """A family of each group; its name is without `pulsed_{group}_` and `_total`."""

    name: str
    type: str
    help: str
    get: Callable[[GroupSums], Value]

    def full_name(self, group: str) -> str:
        """Return the name of its samples for a group."""
        return f"pulsed_{group}_{self.name}{'_total' if self.type == 'counter' else ''}"


FAMILIES: tuple[OwnerFamily, ...] = (
    OwnerFamily("gpus", "gauge", "GPUs and MIG instances, shared ones in full", lambda sums: sums.gpus),
    OwnerFamily(
        "real_utilization_ratio",
        "gauge",
        "Mean real utilization of its GPUs",
        lambda sums: sums.real_utilization / sums.weight if sums.weight else None,
    ),
    OwnerFamily("memory_used_bytes", "gauge", "Device memory in use", lambda sums: sums.memory_used_bytes),
    OwnerFamily("power_watts", "gauge", "Power", lambda sums: sums.power_watts),
    OwnerFamily("gpu_seconds", "counter", "Observed GPU time", lambda sums: observed(sums.counters)),
    OwnerFamily("observed_seconds", "counter", "Observed GPU time, shared GPUs in full", lambda sums: sums.observed),
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
        "idle_seconds", "counter", "Observed idle GPU time", lambda sums: total(sums.counters, "idle_seconds") or 0.0
    ),
    OwnerFamily("energy_joules", "counter", "Energy", lambda sums: sums.joules),
    OwnerFamily(
        "idle_energy_joules", "counter", "Energy while idle", lambda sums: total(sums.counters, "idle_energy_joules")
    ),
)


FINDING_FAMILIES: Mapping[FindingName, tuple[str, str]] = {
    "hang": (
        "pulsed_gpu_hang_suspected",
        "1 while the GPU of an owner is busy for 10 min without traffic or change, at half of the owner's peak power or"
        " less; absent without inputs, or if shared",
    ),
    "straggler": (
        "pulsed_gpu_straggler",
        "1 while the GPU differs from at least two others of its owner for 10 min, in real utilization or SM clock;"
        " absent without such peers",
    ),
}
"""Families of findings, per GPU: name and help."""

_INFO, _DROPPED = "pulsed_gpu_owner", "pulsed_jobs_dropped"
OWNER_NAMES: tuple[str, ...] = (
    f"{_INFO}_info",
    *(name for name, _ in FINDING_FAMILIES.values()),
    *(family.full_name(group.name) for group in GROUPS for family in FAMILIES),
    f"{_DROPPED}_total",
)
"""The names of all families here."""


@dataclass(slots=True)
class OwnerFamilies:
    """The families of the owners that have a GPU of a fresh target.

    Attributes:
        max_owners: owners with series of their own, the oldest first.
        published: the families to collect, of `OWNER_NAMES`.
    """

    board: TargetStore
    accounting: OwnerAccounting
    findings: FindingDetector
    max_owners: int = MAX_OWNERS
    published: frozenset[str] = frozenset(OWNER_NAMES)
    _left_out: frozenset[tuple[str, str]] = frozenset()
    _dropped: int = 0

    def collect(self, now: float) -> Iterator[Metric]:
        """Yield the families at a monotonic time."""
        shown = self._choose(now)
        if f"{_INFO}_info" in self.published:
            yield from self._info_family(shown)
        yield from self._finding_families(shown)
        for group in GROUPS:
            families = [each for each in FAMILIES if each.full_name(group.name) in self.published]
            if families:
                yield from _group_families(group, families, _sums(group, shown))
        if f"{_DROPPED}_total" in self.published:
            yield from self._dropped_family(shown)

    def _info_family(self, shown: Mapping[OwnerAccount, list[HeldGpu]]) -> Iterator[Metric]:
        info = Metric(_INFO, "Owners of the GPU, to be joined with its series", "info")
        for account, gpus in shown.items():
            for held in gpus:
                labels = {**dict(gpu_labels(held.device, self.board.node)), **_info(account.owner)}
                info.add_sample(f"{_INFO}_info", {name: text for name, text in labels.items() if text}, 1)
        if info.samples:
            yield info

    def _finding_families(self, shown: Mapping[OwnerAccount, list[HeldGpu]]) -> Iterator[Metric]:
        families = {name: Metric(*names, "gauge") for name, names in FINDING_FAMILIES.items()}
        for held in (each for gpus in shown.values() for each in gpus):
            for name, is_active in self.findings.states(held.device).items():
                family = families[name]
                family.add_sample(family.name, dict(gpu_labels(held.device, self.board.node)), int(is_active))
        yield from (family for family in families.values() if family.samples and family.name in self.published)

    def _dropped_family(self, shown: Mapping[OwnerAccount, list[HeldGpu]]) -> Iterator[Metric]:
        dropped = Metric(_DROPPED, "Owners without an account or series of their own", "counter")
        dropped.add_sample(f"{_DROPPED}_total", {"reason": "series"}, self._dropped)
        dropped.add_sample(f"{_DROPPED}_total", {"reason": "accounts"}, self.accounting.dropped)
        if self._dropped or self.accounting.dropped or shown:
            yield dropped

    def _choose(self, now: float) -> dict[OwnerAccount, list[HeldGpu]]:
        """Return the owners that have series, each with its GPUs, and count those that are left out."""
        fresh = {target.tick.target for target in self.board.targets if target.tick is not None and target.fresh(now)}
        found: dict[OwnerAccount, list[HeldGpu]] = {}
        for held in self.accounting.held():
            if held.target in fresh and held.account.owner.kind != "nobody":
                found.setdefault(held.account, []).append(held)
        if not found:
            return found
        oldest = sorted(found, key=lambda account: (account.begin, account.owner.key))
        left_out = frozenset(account.owner.key for account in oldest[self.max_owners :])
        self._dropped += len(left_out - self._left_out)
        self._left_out = left_out
        shown = oldest[: self.max_owners]
        self.accounting.settle(shown)
        return {account: found[account] for account in shown}


def _sums(group: OwnerGroup, shown: Mapping[OwnerAccount, list[HeldGpu]]) -> Mapping[_Labels, GroupSums]:
    found: dict[_Labels, GroupSums] = {}
    for account, gpus in shown.items():
        labels = group.labels(account.owner)
        if labels is None:
            continue
        sums = found.setdefault(tuple([pair for pair in labels.items() if pair[1]]), GroupSums())
        sums.add_account(account)
        for held in gpus:
            sums.add_gpu(held)
    return found


def _group_families(
    group: OwnerGroup, families: Sequence[OwnerFamily], rows: Mapping[_Labels, GroupSums]
) -> Iterator[Metric]:
    for each in families:
        family = Metric(f"pulsed_{group.name}_{each.name}", f"{each.help} of the {group.name}", each.type)
        for labels, sums in rows.items():
            number = each.get(sums)
            if number is not None:
                family.add_sample(each.full_name(group.name), dict(labels), number)
        if family.samples:
            yield family
