"""The JSON documents of the accounts of owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pulsed.model.gpu import Device, node_of
from pulsed.model.host import JobHostUsage
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.account import VIOLATIONS, GpuAccount, OwnerAccount, OwnerCondition
from pulsed.owners.accounting.accounting import OwnerAccounting
from pulsed.owners.accounting.balance import BALANCED, Balance, BalanceSums
from pulsed.owners.accounting.counter_vector import by_name, observed
from pulsed.owners.accounting.extremes import WARM_UP_SECONDS
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.present.account_totals import coverage, with_totals
from pulsed.present.api.gpu_matches import IDENTITY
from pulsed.present.api.schema import (
    TEXT,
    TIME,
    TIME_OR_NULL,
    Document,
    Member,
    Shape,
    ValueKind,
    listed,
    mapped,
    optional,
    shape_of,
)
from pulsed.present.job_advice import Advice
from pulsed.present.job_numbers import NO_PRICES, Prices
from pulsed.present.job_statistics import (
    STATISTICS_HELP,
    GpuStatistic,
    JobStatistic,
    TimelineNumbers,
    gpu_statistics,
    timeline_numbers,
)
from pulsed.present.owner_totals import WorkloadTotals


class Accounts(NamedTuple):
    """Where accounts are found: those of owners that have a GPU, and those of owners that have ended; the prices
    in force; and counters of workloads, None without those of pods that are gone.
    """

    running: OwnerAccounting
    ended: EndedAccounts
    prices: Callable[[], Prices] = lambda: NO_PRICES
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
    return sorted(filter(wanted.matches, accounts.running.running), key=lambda each: (-each.begin, each.owner.key))


def ended_accounts(accounts: Accounts, wanted: AccountFilter) -> Iterator[OwnerAccount]:
    """Return the accounts of owners that have ended and match, the newest end first; may be used in another thread."""
    if wanted.state == "running":
        return iter(())
    return accounts.ended.find(lambda owner, end: end >= wanted.since and wanted.matches_owner(owner))


def accounts_named(accounts: Accounts, name: str) -> list[OwnerAccount]:
    """Return the accounts of an owner, the newest begin first.

    Args:
        name: a job id (`4711`, `4711_7`), UID, name or `namespace/name` of a pod, or an owner's id.
    """
    found = [each for each in accounts.running.running if name in names_of_owner(each.owner)]
    found += accounts.ended.find(lambda owner, end: name in names_of_owner(owner))
    return sorted(found, key=lambda each: (-each.begin, each.owner.key))


def names_of_owner(owner: Owner) -> set[str]:
    """Return all names by which an owner is found."""
    names = {owner.id, owner.uid}
    if owner.kind == "pod":
        names |= {
            owner.name,
            f"{owner.namespace}/{owner.name}",
            f"pod:{owner.namespace}/{owner.name}",
            f"pod:{owner.id}",
        }
    return names - {""}


SECONDS = ValueKind(lambda: float, observed)
"""Observed time, of counters."""

OWNER = Shape(
    "OwnerShape",
    Member("kind", str, "slurm_job, pod, process, or nobody"),
    Member("id", str),
    Member("user", TEXT),
    Member("user_id", TEXT),
    Member("account", TEXT),
    Member("partition", TEXT),
    Member("cluster", TEXT),
    Member("name", TEXT),
    Member("namespace", TEXT),
    Member("container", TEXT),
    Member("uid", TEXT),
    Member("workload", TEXT),
    Member("workload_kind", TEXT),
    Member("labels", ValueKind(lambda: dict[str, str], dict)),
)
"""A job, pod or process that has GPUs; unknown texts are null."""

COUNTERS = ValueKind(lambda: dict[str, float | dict[str, float] | None], by_name)

_COUNTED = Shape(
    "CountedShape",
    Member("gpu_seconds", SECONDS, "observed time, of a shared GPU an equal share", "estimate"),
    Member("observed_seconds", float, "observed time, also of shared GPUs", "observed"),
    Member("bridged_joules", float, "energy while pulsed did not run, by the GPU's own counter"),
    Member("counters", COUNTERS, "counters of docs/metrics.md, with equal shares of shared GPUs", "estimate"),
    Member("lower", COUNTERS, "at least: without shared time", "alone"),
    Member("upper", COUNTERS, "at most: all of shared time, and of samples in which it began or ended"),
)
"""Counters over the time in which an owner had GPUs."""

_PEAKS = Shape(
    "PeaksShape",
    Member("memory_used_bytes", float | None),
    Member("power_watts", float | None),
    Member("temperature_celsius", float | None),
)
"""The largest values of the samples."""

_IDLE_RUNS = Shape(
    "IdleRunsShape",
    Member("longest_seconds", float, of="longest_idle"),
    Member("last_seconds", float, "the run at the end; 0 if the last sample was not idle", "idle_run"),
)
"""Runs of idle samples."""

_PAUSES = Shape(
    "PausesShape",
    Member("worked_seconds", float, "samples that are in no pause", "worked"),
    Member("longest_seconds", float, "of those that ended, after the warm-up", "longest_pause"),
    Member("last_seconds", float, "the pause at the end", "pause"),
)
"""Runs of samples with hardly any DRAM activity, idle or not: the time limit of `hang` follows the longest one."""

_EVENT = Shape(
    "OwnerEventShape",
    Member("time", TIME),
    Member(
        "check", TEXT, "a health check or finding (`hang`, `straggler`, `leaked_memory`); null for the GPU as a whole"
    ),
    Member("before", str),
    Member("after", str),
    Member("message", str),
    Member("remedy", str, "what to do; empty for findings and where a check is no longer raised"),
)
"""A change of a GPU's health while the owner had it, or of a finding."""


_CONDITION = Shape(
    "GpuConditionShape",
    Member("check", str, "a health check, `hang` or `straggler`"),
    Member("state", str, "the worst"),
    Member("since", TIME, "before the owner had the GPU if it was raised already"),
    Member("until", TIME_OR_NULL, "null if it was raised until the end"),
    Member("was_raised", bool, "when the owner got the GPU"),
    Member("message", str),
    Member("remedy", str, "what to do; empty for findings"),
)
"""What was wrong with a GPU while the owner had it, from its first to its last time."""


class _OwnedGpu(NamedTuple):
    """A GPU of an owner, until a moment of the clock of the ticks, which is a Unix time."""

    account: GpuAccount
    node: str
    now: float
    time: float

    @property
    def device(self) -> Device:
        """The GPU."""
        return self.account.device

    @property
    def seconds(self) -> float:
        """Time for which the owner had it."""
        return self.account.held_seconds(self.now)

    @property
    def last_work(self) -> float | None:
        """Unix time of the last sample that showed work; None of a GPU that hardly worked."""
        extremes = self.account.extremes
        return self.time - extremes.pause if extremes.worked >= WARM_UP_SECONDS else None

    @property
    def coverage(self) -> float | None:
        """Share of this time in which it was observed."""
        return coverage(self.account.observed, self.seconds)

    @property
    def conditions(self) -> list[OwnerCondition]:
        """What was wrong with the GPU."""
        return list(self.account.conditions.values())

    @property
    def violations(self) -> dict[str, Value]:
        """Increase of the GPU's own counters of lost clocks."""
        return dict(zip(VIOLATIONS, self.account.violations, strict=True))


_GPU = Shape(
    "GpuAccountShape",
    IDENTITY.members[-1],
    *IDENTITY.members[:-1],
    Member("model", TEXT, of="device.model"),
    Member("memory_bytes", float | None, "size of its device memory", "account.memory_bytes"),
    Member("shared_by", int, "most owners at a time; 1: not shared", "account.sharers"),
    Member("held_seconds", float, of="seconds"),
    Member("coverage", float | None),
    Member("boundary_seconds", SECONDS, of="account.boundary"),
    Member("samples", int, of="account.extremes.samples"),
    *_COUNTED.via("account"),
    Member(
        "statistics",
        mapped(shape_of("GpuStatisticShape", GpuStatistic)),
        STATISTICS_HELP,
        lambda gpu: gpu_statistics(gpu.account.moments, gpu.device),
    ),
    Member("peaks", _PEAKS, of="account.extremes"),
    Member("idle_runs", _IDLE_RUNS, of="account.extremes"),
    Member("pauses", _PAUSES, of="account.extremes"),
    Member("last_work_time", TIME_OR_NULL, "null if it worked for less than 5 minutes", "last_work"),
    Member(
        "media_active_seconds",
        float,
        "integral of the activity of the busiest media engine",
        "account.extremes.media_active",
    ),
    Member("violations", dict[str, float | None]),
    Member("events", listed(_EVENT), of="account.events"),
    Member("conditions", listed(_CONDITION)),
    first=("gpu", "uuid", "mig_id", "node", *(member.name for member in _COUNTED.members)),
)
"""What an owner got out of one GPU."""

_COST = Shape(
    "CostShape",
    Member("currency", str),
    Member("per_gpu_hour", float | None),
    Member("per_kwh", float | None),
    Member("gpu_time", float, "of `total.gpu_seconds`"),
    Member("energy", float | None, "null if the energy is unknown"),
    Member("total", float | None),
    Member("unknown", TEXT, "why energy and total are null"),
)
"""Cost by the prices of the configuration, in `currency`."""


class _Host(NamedTuple):
    node: str
    usage: JobHostUsage
    balance: Balance


_HOST = Shape(
    "JobHostShape",
    Member("node", str),
    Member("cpu_seconds", float | None, of="usage.cpu_seconds"),
    Member("memory_peak_bytes", float | None, "with page cache", "usage.memory_peak_bytes"),
    Member("memory_limit_bytes", float | None, "null without a limit", "usage.memory_limit_bytes"),
    Member(
        "balance",
        mapped(shape_of("BalanceShape", BalanceSums)),
        f"{', '.join(BALANCED)}; absent if never known. Per second of a GPU, and of the host for its network",
        "balance.sums",
    ),
    Member(
        "network_shared_seconds",
        float,
        "of those with a known network, the ones in which another owner had GPUs of the host, too",
        "balance.shared_seconds",
    ),
)
"""What a job or pod has used of a host, by its control group, and what happened there meanwhile."""


class _Shown(NamedTuple):
    """An account with what follows from its GPUs."""

    account: OwnerAccount
    here: str

    @property
    def hosts(self) -> list[_Host]:
        """What it used of this host, if anything is known of it."""
        usage, balance = self.account.host, self.account.balance
        return [_Host(self.here, usage or JobHostUsage(), balance)] if usage is not None or balance.sums else []

    @property
    def state(self) -> str:
        """Whether it goes on."""
        return "running" if self.account.end is None else "ended"


ACCOUNT = Shape(
    "AccountShape",
    Member("owner", OWNER, of="account.owner"),
    Member("state", str, "running or ended"),
    Member("begin", TIME, of="account.begin"),
    Member("end", TIME_OR_NULL, of="account.end"),
    Member("last_sample_time", TIME, of="account.last_seen"),
    Member("elapsed_seconds", float, of="account.elapsed"),
    Member(
        "timeline",
        shape_of("TimelineShape", TimelineNumbers),
        "real utilization since `begin`, in at most 64 buckets: known GPU seconds, and its integral over them",
        lambda shown: timeline_numbers(shown.account.timeline),
    ),
    Member("hosts", listed(_HOST), "what it used of them; empty if nothing is known"),
    # What follows is of `with_totals`.
    Member("gpu_count", int, of=None),
    Member("coverage", float | None, "share of the time with its GPUs in which they were observed", None),
    Member("boundary_seconds", float, "samples in which it began or ended; not in counters, but in upper", None),
    Member("total", _COUNTED, of=None),
    Member("statistics", mapped(shape_of("JobStatisticShape", JobStatistic)), STATISTICS_HELP, None),
    Member("gpus", listed(_GPU), of=None),
    Member("cost", optional(_COST), "null without prices", None),
    Member("advice", listed(shape_of("AdviceShape", Advice)), "empty without enough observed time", None),
)
"""What an owner got out of its GPUs."""


def account_document(account: OwnerAccount, here: str, prices: Prices = NO_PRICES) -> Document:
    """Return an account with all of its GPUs; `here` is this process's node."""
    gpus = [
        _GPU.of(_OwnedGpu(each, node_of(each.device, here), account.now, account.last_seen))
        for each in account.gpus.values()
    ]
    return with_totals(ACCOUNT.of(_Shown(account, here)), gpus, prices)
