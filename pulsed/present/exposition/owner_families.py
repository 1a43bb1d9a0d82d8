"""The metric families of owners: who has each GPU, and the counters of pods, workloads and jobs.

The number of owners with series of their own is limited; their series end with them.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeVar

from prometheus_client import Metric

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import GpuKey, gpu_labels
from pulsed.model.owner import Owner, Owners
from pulsed.model.target_store import TargetStore
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.findings import FindingName
from pulsed.owners.report.owner_totals import (
    JOB,
    POD,
    WORKLOAD,
    GroupLabels,
    GroupSums,
    Owned,
    OwnerGroup,
    WorkloadTotals,
    families_of,
    fresh_owners,
    rows_of,
    sums_of,
)
from pulsed.present.exposition.text_format import label_pairs

log = logging.getLogger(__name__)

MAX_OWNERS = 256

_Key = TypeVar("_Key", bound=Hashable)
_T = TypeVar("_T")

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_]")

_COUNTED = {"series": "owners", "workloads": "workloads"}
"""Limited objects, by the label `reason` of the counter."""

PUBLISHED_GROUPS = (POD, WORKLOAD, JOB)
"""Groups that have series."""


def _info(owner: Owner) -> Mapping[str, str]:
    labels: dict[str, str] = {"kind": owner.kind, "user": owner.user}
    for group in PUBLISHED_GROUPS:
        labels |= group.labels_of(owner)
    if owner.kind == "container":
        labels["container"] = owner.container
    if owner.kind == "pod":
        for name, text in owner.labels:
            labels.setdefault(f"label_{_NOT_IN_NAME.sub('_', name)}", text)
    return labels


def owner_label_text(owners: Owners | None) -> str:
    """Return the labels of a device's owners for its series, with a leading comma; several values are in one label."""
    values: dict[str, dict[str, None]] = {}
    for owner in owners or ():
        for name, text in _info(owner).items():
            if text and name != "kind":  # counters have a `kind` of their own
                values.setdefault(name, {})[text] = None
    return "".join(f",{label_pairs([(name, ','.join(texts))])}" for name, texts in values.items())


def _oldest_of_each_gpu(owned: Owned) -> Sequence[OwnerAccount]:
    """Return the owners, given by age: the oldest one of each GPU, then the second one, and so on."""
    owners: Counter[GpuKey] = Counter()
    ranks: dict[OwnerAccount, int] = {}
    for account, gpus in owned.items():
        keys = {gpu.device.entity.key for gpu in gpus}
        ranks[account] = min(owners[key] for key in keys)
        owners.update(keys)
    return sorted(owned, key=ranks.__getitem__)


FINDING_FAMILIES: Mapping[FindingName, tuple[str, str]] = {
    "hang": (
        "pulsed_gpu_hang_suspected",
        "1 if for 30 min, and three times the longest pause of the owner, none of its GPUs has worked while kernels on"
        " some spin: busy without tensor work, memory work, traffic or changes; absent if not evaluated, see /jobs",
    ),
    "straggler": (
        "pulsed_gpu_straggler",
        "1 if the GPU has been slower than at least two others of its owner at the same tensor and memory work for 10"
        " min; absent if not evaluated, see /jobs",
    ),
    "leaked_memory": (
        "pulsed_gpu_leaked_memory",
        "1 if an idle GPU has had memory in use for 10 min or more although it has no owner; absent otherwise, and"
        " without a source of owners",
    ),
}
"""Families of findings, per GPU: name and help."""

_INFO, _DROPPED = "pulsed_gpu_owner", "pulsed_jobs_dropped"
WITHOUT_SERIES = "pulsed_owners_without_series"
WITHOUT_SERIES_HELP = (
    "Owners and workloads with a GPU but without series of their own, because of publish.max_owners; group=accounts:"
    " owners beyond 8 for each GPU and 64 shared ones, which reports show together as other owners"
)

OWNER_NAMES: tuple[str, ...] = (
    f"{_INFO}_info",
    *(name for name, _ in FINDING_FAMILIES.values()),
    *(family.full_name(group.name) for group in PUBLISHED_GROUPS for family in families_of(group.name)),
    f"{_DROPPED}_total",
    WITHOUT_SERIES,
)
"""The names of all families here."""


@dataclass(slots=True)
class OwnerFamilies:
    """The families of the owners that have a GPU of a fresh target.

    Attributes:
        max_owners: owners with series of their own, the oldest of each GPU first, and workloads, the oldest first.
        published: the families to collect, of `OWNER_NAMES`.
        workloads: counters of workloads, which also get the accounts that have ended.
    """

    store: TargetStore
    accounting: OwnerAccounting
    max_owners: int = MAX_OWNERS
    published: frozenset[str] = frozenset(OWNER_NAMES)
    workloads: WorkloadTotals = field(default_factory=WorkloadTotals)
    _left_out: dict[str, frozenset[object]] = field(default_factory=dict)
    _dropped: dict[str, int] = field(default_factory=dict)

    def collect(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the families at a monotonic time."""
        owned = fresh_owners(self.store, self.accounting, now)
        ranked = owned if len(owned) <= self.max_owners else _oldest_of_each_gpu(owned)
        shown = self._limited("series", {account.owner.key: account for account in ranked}).values()
        workloads = self._limited("workloads", rows_of(WORKLOAD, owned))
        self.accounting.settle({*shown, *chain.from_iterable(rows_of(WORKLOAD, owned).values())})
        self.workloads.add_growth(owned)
        if f"{_INFO}_info" in self.published:
            yield from self._info_family(shown, owned)
        yield from self._finding_families(shown, owned)
        for group in PUBLISHED_GROUPS:
            rows = workloads if group is WORKLOAD else rows_of(group, shown)
            totals = self.workloads.sums if group is WORKLOAD else {}
            sums = {labels: sums_of(accounts, owned, totals.get(labels)) for labels, accounts in rows.items()}
            yield from self._group_families(group, sums)
        if f"{_DROPPED}_total" in self.published:
            yield from self._dropped_family(is_needed=bool(owned))
        if owned and WITHOUT_SERIES in self.published:
            without = Metric(WITHOUT_SERIES, WITHOUT_SERIES_HELP, "gauge")
            for reason, left_out in self._left_out.items():
                without.add_sample(WITHOUT_SERIES, {"group": _COUNTED[reason]}, len(left_out))
            without.add_sample(WITHOUT_SERIES, {"group": "accounts"}, self.accounting.without_account)
            yield without

    def _limited(self, reason: str, rows: Mapping[_Key, _T]) -> Mapping[_Key, _T]:
        """Return the first `max_owners`, and count those that are left out, once each."""
        left_out = frozenset(islice(rows, self.max_owners, None))
        before = self._left_out.get(reason, frozenset())
        new = left_out - before
        self._left_out[reason] = left_out
        if bool(left_out) != bool(before):
            self._log(reason, len(left_out))
        self._dropped[reason] = self._dropped.get(reason, 0) + len(new)
        return dict(islice(rows.items(), self.max_owners)) if left_out else rows

    def _log(self, reason: str, left_out: int) -> None:
        """Log the first workloads that are left out, and the end of the condition."""
        extra: dict[str, object] = {"group": _COUNTED[reason], "max_owners": self.max_owners}
        if left_out:
            extra |= {"without": left_out, "remedy": "raise publish.max_owners; /jobs and /workloads have all"}
            log.warning("more than publish.max_owners: the newest have no series", extra=extra)
        else:
            log.info("all have series again", extra=extra)

    def _info_family(self, shown: Iterable[OwnerAccount], owned: Owned) -> Iterator[Metric]:
        info = Metric(_INFO, "Owners of the GPU, to be joined with its series", "info")
        for account in shown:
            for gpu in owned[account]:
                labels = {**dict(gpu_labels(gpu.device, self.store.node)), **_info(account.owner)}
                info.add_sample(f"{_INFO}_info", {name: text for name, text in labels.items() if text}, 1)
        yield info

    def _finding_families(self, shown: Iterable[OwnerAccount], owned: Owned) -> Iterator[Metric]:
        families = {name: Metric(*names, "gauge") for name, names in FINDING_FAMILIES.items()}
        leaked = [gpu for gpu in self.accounting.owned() if gpu.account.is_of_leaked_memory]
        for gpu in chain(chain.from_iterable(owned[account] for account in shown), leaked):
            verdicts = gpu.account.on(gpu.device).findings
            for name, family in families.items():
                if name in verdicts and (holds := verdicts[name].holds) is not None:
                    family.add_sample(family.name, dict(gpu_labels(gpu.device, self.store.node)), int(holds))
        yield from (family for family in families.values() if family.name in self.published)

    def _group_families(self, group: OwnerGroup, rows: Mapping[GroupLabels, GroupSums]) -> Iterator[Metric]:
        for each in families_of(group.name):
            if each.full_name(group.name) not in self.published:
                continue
            family = Metric(f"pulsed_{group.name}_{each.name}", f"{each.help} of the {group.name}", each.type)
            for labels, sums in rows.items():
                if (number := each.get(sums)) is not None:
                    family.add_sample(each.full_name(group.name), dict(labels), number)
            yield family

    def _dropped_family(self, *, is_needed: bool) -> Iterator[Metric]:
        dropped = Metric(_DROPPED, "Owners without an account or series of their own", "counter")
        counts = {**self._dropped, "accounts": self.accounting.dropped}
        for reason, count in counts.items():
            if count or reason != "workloads":
                dropped.add_sample(f"{_DROPPED}_total", {"reason": reason}, count)
        if is_needed or any(counts.values()):
            yield dropped
