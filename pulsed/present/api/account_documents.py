"""The JSON documents of the accounts of owners."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field, PlainValidator

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import node_of
from pulsed.model.host import JobHostUsage
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.account import VIOLATIONS, GpuAccount, OwnerAccount, OwnerCondition
from pulsed.owners.accounting.activity import WARM_UP_SECONDS
from pulsed.owners.accounting.balance import BALANCED, Balance, BalanceSums
from pulsed.owners.accounting.counter_vector import by_name, observed
from pulsed.owners.report.account_totals import with_totals
from pulsed.owners.report.job_advice import Advice, Unjudged
from pulsed.owners.report.job_numbers import NO_PRICES, PartSummary, Prices, summary_of
from pulsed.owners.report.job_statistics import (
    STATISTICS_HELP,
    GpuStatistic,
    JobStatistic,
    TimelineNumbers,
    gpu_statistics,
    timeline_numbers,
)
from pulsed.owners.report.sums import ratio_of
from pulsed.present.api.incident_shapes import IncidentShape
from pulsed.present.api.schema import Document, DocumentModel, Text, Time, TimeOrNull, at, shape_of

Seconds = Annotated[float, BeforeValidator(observed)]
"""Observed time, of counters."""


class OwnerShape(DocumentModel):
    """A job, pod or process that has GPUs; unknown texts are null."""

    kind: str = Field(description="slurm_job, pod, container, process, or nobody")
    id: str
    user: Text
    user_id: Text
    account: Text
    partition: Text
    cluster: Text
    name: Text
    namespace: Text
    container: Text
    uid: Text
    workload: Text
    workload_kind: Text
    labels: Annotated[dict[str, str], BeforeValidator(dict)]


Counters = Annotated[dict[str, float | dict[str, float] | None], PlainValidator(by_name)]


SummaryShape = shape_of("SummaryShape", PartSummary)


class CountedShape(DocumentModel):
    """Counters over the time in which an owner had GPUs."""

    gpu_seconds: Seconds = at(
        "account.estimate", "observed time, of a shared GPU a share: by measured use, otherwise an equal one"
    )
    observed_seconds: float = at("account.observed", "observed time, also of shared GPUs")
    bridged_joules: float = at("account.bridged_joules", "energy while pulsed did not run, by the GPU's own counter")
    estimated_joules: float | None = at(
        "account.estimated_joules",
        "energy that is a share of a board with MIG, by compute slices; null without any. `lower` is without it, and"
        " `upper` has all of the board's",
    )
    allocated_gpu_seconds: float | None = at(
        "account.allocated_seconds",
        "observed time by the part of each GPU that the scheduler allocated, as by shards; null if that is not known",
    )
    allocated_joules: float | None = at("account.allocated_joules", "energy by the same parts")
    counters: Counters = at("account.estimate", "counters of docs/metrics.md, with the same shares of shared GPUs")
    lower: Counters = at("account.alone", "at least: without shared time")
    upper: Counters = at("account.upper", "at most: all of shared time, and of samples in which it began or ended")
    summary: SummaryShape  # type: ignore[valid-type] # of a row


class PeaksShape(DocumentModel):
    """The largest values of the samples."""

    memory_used_bytes: float | None
    power_watts: float | None
    temperature_celsius: float | None


class IdleRunsShape(DocumentModel):
    """Runs of idle samples."""

    longest_seconds: float = at("longest_idle")
    last_seconds: float = at("idle_run", "the run at the end; 0 if the last sample was not idle")


class PausesShape(DocumentModel):
    """Runs of samples with hardly any DRAM activity, idle or not: the time limit of `hang` follows the longest one."""

    worked_seconds: float = at("worked", "samples that are in no pause")
    longest_seconds: float = at("longest_pause", "of those that ended, after the warm-up")
    last_seconds: float = at("pause", "the pause at the end")


class OwnerEventShape(DocumentModel):
    """A change of a GPU's health while the owner had it, or of a finding."""

    time: Time
    check: Text = Field(
        description="a health check or finding (`hang`, `straggler`, `leaked_memory`); null for the GPU as a whole"
    )
    before: str
    after: str
    message: str
    remedy: str = Field(description="what to do; empty for findings and where a check is no longer raised")


class GpuConditionShape(DocumentModel):
    """A problem of a GPU while the owner had it, from its first to its last time."""

    check: str = Field(description="a health check, `hang` or `straggler`")
    state: str = Field(description="the worst")
    since: Time = Field(description="before the owner had the GPU if it was raised already")
    until: TimeOrNull = Field(description="null if it was raised until the end")
    was_raised: bool = Field(description="when the owner got the GPU")
    message: str
    remedy: str = Field(description="what to do; empty for findings")


class FindingShape(DocumentModel):
    """Whether a finding holds."""

    state: str = Field(description="suspected, ok, or not_judged")
    missing: Text = Field(description="why it is not evaluated; otherwise null")


GpuStatisticShape = shape_of("GpuStatisticShape", GpuStatistic)
BalanceShape = shape_of("BalanceShape", BalanceSums)
TimelineShape = shape_of("TimelineShape", TimelineNumbers)
JobStatisticShape = shape_of("JobStatisticShape", JobStatistic)
UnjudgedShape = shape_of("UnjudgedShape", Unjudged)
AdviceShape = shape_of("AdviceShape", Advice)


class _OwnedGpu(NamedTuple):
    """A GPU of an owner, until a moment of the clock of the ticks."""

    account: GpuAccount
    node: str
    now: Monotonic

    @property
    def seconds(self) -> float:
        """Time for which the owner had it."""
        return self.account.held_seconds(self.now)

    @property
    def last_work(self) -> float | None:
        """Unix time of the last sample that showed work; None of a GPU that hardly worked."""
        extremes = self.account.extremes
        return extremes.last_work if extremes.worked >= WARM_UP_SECONDS else None

    @property
    def findings(self) -> dict[str, dict[str, str]]:
        """Whether each finding holds."""
        return {
            name: {"state": _FINDING_STATES[verdict.holds], "missing": verdict.missing}
            for name, verdict in self.account.findings.items()
        }

    @property
    def coverage(self) -> float | None:
        """Share of this time in which it was observed."""
        return ratio_of(self.account.observed, self.seconds)

    @property
    def statistics(self) -> dict[str, GpuStatistic]:
        """Mean and spread of its quantities."""
        return gpu_statistics(self.account.moments, self.account.device)

    @property
    def summary(self) -> PartSummary:
        """Means and sums of its counters."""
        account = self.account
        part = {"counters": by_name(account.estimate), "gpu_seconds": observed(account.estimate)}
        return summary_of(part | {"bridged_joules": account.bridged_joules})

    @property
    def conditions(self) -> list[OwnerCondition]:
        """The problems of the GPU."""
        return list(self.account.conditions.values())

    @property
    def violations(self) -> dict[str, Value]:
        """Increase of the GPU's own counters of lost clocks."""
        return dict(zip(VIOLATIONS, self.account.violations, strict=True))


class _GpuHead(DocumentModel):
    node: str
    gpu: str = at("account.device.entity.gpu")
    uuid: Text = at("account.device.entity.uuid")
    mig_id: Text = at("account.device.entity.mig_id")
    part: Text = Field("", description="of an array or a heterogeneous job: the task or component that had it")
    model: Text = at("account.device.model")
    memory_bytes: float | None = at("account.memory_bytes", "size of its device memory")
    shared_by: int = at("account.sharers", "most owners at a time; 1: not shared")
    held_seconds: float = at("seconds")
    coverage: float | None
    boundary_seconds: Seconds = at("account.boundary")
    samples: int = at("account.extremes.samples")


class GpuAccountShape(CountedShape, _GpuHead):
    """The account of an owner on one GPU."""

    statistics: dict[str, GpuStatisticShape] = Field(description=STATISTICS_HELP)  # type: ignore[valid-type] # of a row
    peaks: PeaksShape = at("account.extremes")
    idle_runs: IdleRunsShape = at("account.extremes")
    pauses: PausesShape = at("account.extremes")
    last_work_time: TimeOrNull = at("last_work", "by its own samples; null if it worked for less than 5 minutes")
    last_sample_time: TimeOrNull = at("account.extremes.last_sample", "the newest one with DRAM activity")
    media_active_seconds: float = at(
        "account.extremes.media_active", "integral of the activity of the busiest media engine"
    )
    violations: dict[str, float | None]
    events: list[OwnerEventShape] = at("account.events")
    conditions: list[GpuConditionShape]
    findings: dict[str, FindingShape] = Field(
        description="`hang`, `straggler`, `leaked_memory`; those that do not apply are absent"
    )


_FINDING_STATES = {True: "suspected", False: "ok", None: "not_judged"}


class CostShape(DocumentModel):
    """Cost by the prices of the configuration, in `currency`."""

    currency: str
    per_gpu_hour: float | None
    per_kwh: float | None
    gpu_time: float = Field(description="of `total.gpu_seconds`")
    energy: float | None = Field(description="null if the energy is unknown")
    total: float | None
    allocated: float | None = Field(description="the same by the parts of GPUs that were allocated; null if unknown")
    unknown: Text = Field(description="why energy and total are null")


class _Host(NamedTuple):
    node: str
    usage: JobHostUsage
    balance: Balance


class JobHostShape(DocumentModel):
    """Use of a host by a job or pod, by its control group, and events there meanwhile."""

    node: str
    cpu_seconds: float | None = at("usage.cpu_seconds")
    memory_peak_bytes: float | None = at("usage.memory_peak_bytes", "with page cache")
    memory_limit_bytes: float | None = at("usage.memory_limit_bytes", "null without a limit")
    balance: dict[str, BalanceShape] = at(  # type: ignore[valid-type] # of a row
        "balance.sums",
        f"{', '.join(BALANCED)}; absent if never known. Per second of a GPU, and of the host for its network",
    )
    network_shared_seconds: float = at(
        "balance.shared_seconds",
        "of those with a known network, the ones in which another owner had GPUs of the host, too",
    )


class _Shown(NamedTuple):
    """An account with what follows from its GPUs."""

    account: OwnerAccount
    here: str

    @property
    def hosts(self) -> list[_Host]:
        """Its use of this host, if anything is known of it."""
        usage, balance = self.account.host, self.account.balance
        return [_Host(self.here, usage or JobHostUsage(), balance)] if usage is not None or balance.sums else []

    @property
    def timeline(self) -> TimelineNumbers:
        """Its real utilization."""
        return timeline_numbers(self.account.timeline)

    @property
    def state(self) -> str:
        """Whether it is running."""
        return "running" if self.account.end is None else "ended"


class _AccountHead(DocumentModel):
    owner: OwnerShape = at("account.owner")
    state: str = Field(description="running or ended")
    begin: Time = at("account.begin")
    end: TimeOrNull = at("account.end")
    last_sample_time: Time = at("account.last_seen")
    elapsed_seconds: float = at("account.elapsed")
    exempt: Text = at("account.exempt", "why there are no findings and advice about its work, by `findings.exempt`")
    timeline: TimelineShape = Field(  # type: ignore[valid-type] # of a row
        description="real utilization since `begin`, in at most 64 buckets: known GPU seconds, "
        "and its integral over them"
    )
    hosts: list[JobHostShape] = Field(description="its use of each host; empty if nothing is known")


class AccountShape(_AccountHead):
    """The account of an owner over all its GPUs. `with_totals` adds the members of this class."""

    gpu_count: int
    coverage: float | None = Field(description="share of the time with its GPUs in which they were observed")
    boundary_seconds: float = Field(description="samples in which it began or ended; not in counters, but in upper")
    total: CountedShape
    statistics: dict[str, JobStatisticShape] = Field(description=STATISTICS_HELP)  # type: ignore[valid-type] # of a row
    gpus: list[GpuAccountShape]
    cost: CostShape | None = Field(description="null without prices")
    not_judged: list[UnjudgedShape] = Field(  # type: ignore[valid-type] # of a row
        description="findings about a running job for which something is missing"
    )
    incidents: list[IncidentShape] = Field(description="what went wrong with its GPUs meanwhile, the newest first")
    advice: list[AdviceShape] = Field(description="empty without enough observed time")  # type: ignore[valid-type] # of a row


def account_document(account: OwnerAccount, here: str, prices: Prices = NO_PRICES) -> Document:
    """Return an account with all of its GPUs; `here` is this process's node."""
    gpus = [
        GpuAccountShape.render(_OwnedGpu(each, node_of(each.device, here), account.now))
        for each in account.gpus.values()
    ]
    return with_totals(_AccountHead.render(_Shown(account, here)), gpus, prices)
