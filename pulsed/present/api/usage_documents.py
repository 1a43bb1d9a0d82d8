"""The JSON documents of one job or pod, with the texts of `pulsed job` on request, and of the rows of `/report`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import nlargest
from typing import Any, NamedTuple

from pydantic import Field, create_model

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import key_of, node_of
from pulsed.model.job_names import group_of, part_of
from pulsed.model.owner import Owner
from pulsed.owners.accounting.account import FREE, GpuAccount, OwnerAccount
from pulsed.owners.accounting.counter_vector import observed, total, value
from pulsed.owners.report.account_totals import MAX_PARTS, group_account, pod_account
from pulsed.owners.report.job_comparison import compared_jobs, comparison_notes, comparison_rows
from pulsed.owners.report.job_numbers import Prices, allocated_cost, gpu_count
from pulsed.owners.report.job_report import JobReport, job_head
from pulsed.owners.report.text_table import first_finding, has_demo
from pulsed.owners.report.usage import LABELS, NO_SUMS, NULLABLE, SUMS, GroupBy, lacks_energy, merged_rows, with_parts
from pulsed.present.api.account_documents import AccountShape, OwnerShape, account_document
from pulsed.present.api.schema import Document, DocumentModel, Text, Time, TimeOrNull, shape_of


class EarlierAccountShape(DocumentModel):
    """An earlier account of the same name, such as of a job that was requeued; all of it is in `?all=true`."""

    begin: Time
    end: TimeOrNull


JobReportShape = shape_of("JobReportShape", JobReport, facts="title and text of each")
"""The texts of `pulsed job`. Tables are rows of cells, the first one is the head."""


class ComparisonShape(DocumentModel):
    """The texts of `pulsed job --compare`."""

    first: str
    second: str
    rows: list[list[str]] = Field(description="the table; the first row is the head")
    notes: list[str] = Field(description="what differs by more than its spread, and what cannot be judged")


class JobPartShape(DocumentModel):
    """A task of an array of jobs, or a component of a heterogeneous job."""

    id: str
    state: str = Field(description="running or ended")
    begin: Time
    end: TimeOrNull


class NewestAccountShape(AccountShape):
    """The newest account of a name."""

    parts: list[JobPartShape] = Field(
        [], description="of the id of an array or a heterogeneous job: the newest account of each task or component"
    )
    part_count: int = Field(0, description=f"their number; the account has the newest {MAX_PARTS} of them")
    earlier: list[EarlierAccountShape] = Field(description="earlier accounts of the name, the newest first")
    report: JobReportShape | None = Field(None, description="with `?report=true`")  # type: ignore[valid-type] # of a row
    comparison: ComparisonShape | None = Field(None, description="with `?with=`")


def newest_document(accounts: Sequence[OwnerAccount], name: str, here: str, prices: Prices) -> Document:
    """Return the first of the accounts of a name, the newest; of a pod with all containers that had GPUs then, of an
    array of jobs with all tasks, of a heterogeneous job with all components.
    """
    if any(group_of(each.owner) == name for each in accounts):
        return _group_document([each for each in accounts if group_of(each.owner) == name], name, here, prices)
    newest = accounts[0]
    containers = {newest.owner.id: newest}
    if newest.owner.kind == "pod":
        pod = (newest.owner.namespace, newest.owner.name)
        for each in accounts[1:]:
            is_of_pod = each.owner.kind == "pod" and (each.owner.namespace, each.owner.name) == pod
            if is_of_pod and (each.end is None or each.end >= newest.begin):
                containers.setdefault(each.owner.id, each)
    documents = [account_document(each, here, prices) for each in containers.values()]
    document = pod_account(documents) if len(documents) > 1 else documents[0]
    earlier = [EarlierAccountShape.render(each) for each in accounts if each not in containers.values()]
    return {**document, "parts": [], "part_count": 0, "earlier": earlier}


def _group_document(accounts: Sequence[OwnerAccount], name: str, here: str, prices: Prices) -> Document:
    """Return the account of the newest parts of an array or a heterogeneous job."""
    newest: dict[str, OwnerAccount] = {}
    for each in accounts:
        newest.setdefault(part_of(each.owner), each)
    parts = dict(list(newest.items())[:MAX_PARTS])
    documents = {part: account_document(each, here, prices) for part, each in parts.items()}
    earlier = [EarlierAccountShape.render(each) for each in accounts if each not in newest.values()]
    return {**group_account(name, documents, len(newest)), "earlier": earlier}


def comparison_document(first: Document, second: Document) -> Document:
    """Return the texts of a comparison of two newest accounts, from their documents."""
    quantities = compared_jobs(first, second)["quantities"]
    return {
        "first": job_head(first),
        "second": job_head(second),
        "rows": comparison_rows(quantities),
        "notes": comparison_notes(quantities),
    }


WORST = 50
"""Owners with the most held idle time that are named: a job may have GPUs of many daemons, and be the worst of none.

Its parts on nodes where it is not among them are not in its sums.
"""


class UsageCostShape(DocumentModel):
    """Cost by the prices of the configuration."""

    currency: str
    total: float = Field(description="of the observed time, and of the energy that is known")
    allocated: float | None = Field(None, description="of the time and energy by allocation; null if unknown")
    is_lower_bound: bool = Field(description="energy has a price, and is unknown for a part of the time")


_LABELS: Any = {label: (str | None, Field(None, description="")) for labels in LABELS.values() for label in labels}
_SUMS: Any = {
    name: (float | None, Field(None, description=help)) if name in NULLABLE else (float, Field(description=help))
    for name, help in SUMS.items()
}
_COST: Any = {
    "cost": (UsageCostShape | None, Field(description="null without prices")),
    "co2_grams": (float | None, Field(None, description="of the energy that is known, by prices.co2_grams_per_kwh")),
}

_KEYS: Any = {"job_keys": (list[str], Field(description="of their jobs; the same on all nodes of a job of Slurm"))}

_PART = create_model("UsagePart", __base__=DocumentModel, **_KEYS, **_SUMS, **_COST)
_JOB_PART = create_model("UsedJobPart", __base__=DocumentModel, gpu_count=(int, 0), **_KEYS, **_SUMS, **_COST)


def _by_node(part: type[DocumentModel]) -> Any:
    return dict[str, part]  # type: ignore[valid-type] # made of a table


_NODES: Any = {"nodes": (_by_node(_PART), Field({}, description="with `?parts=true`: the sums by node"))}

USAGE_ROW = create_model(
    "UsageRow",
    __base__=DocumentModel,
    **_LABELS,
    jobs=(int, Field(description="their number")),
    **_SUMS,
    **_COST,
    **_NODES,
)
"""What the owners of a group got out of their GPUs; it has the labels of its grouping only."""


class _UsedJob(DocumentModel):
    owner: OwnerShape
    begin: Time
    end: TimeOrNull
    gpu_count: int
    is_demo: bool = Field(description="whether its GPUs are simulated")
    finding: Text = Field(description="the first advice of its report; null without any")


_JOB_NODES: Any = {"nodes": (_by_node(_JOB_PART), Field({}, description="with `?parts=true`: the sums by node"))}

USED_JOB = create_model("UsedJob", __base__=_UsedJob, **_SUMS, **_COST, **_JOB_NODES)
"""What one owner got out of its GPUs."""


class Usage(NamedTuple):
    """Rows, the owners with the most held idle time, the worst first, and the keys of all GPUs by node."""

    rows: list[Document]
    worst: list[Document]
    gpus: dict[str, list[str]]

    def with_costs(self, prices: Prices) -> Usage:
        """Return the sums with their costs."""

        def priced(row: Document) -> Document:
            nodes = {node: part | _priced(part, prices) for node, part in row["nodes"].items()}
            return row | _priced(row, prices) | {"nodes": nodes}

        return Usage(list(map(priced, self.rows)), list(map(priced, self.worst)), self.gpus)

    def without_parts(self) -> Document:
        """Return the sums for a client that does not add them to the sums of other daemons."""
        rows, worst = (
            [{name: value for name, value in row.items() if name != "nodes"} for row in rows]
            for rows in (self.rows, self.worst)
        )
        return {"rows": rows, "worst": worst}

    def plus(self, other: Usage, by: GroupBy) -> Usage:
        """Return the sum with what other owners got."""
        labels = LABELS[by]
        rows = merged_rows([*self.rows, *other.rows], labels)
        if len(rows) > MAX_ROWS:
            further = ({**row, **dict.fromkeys(labels, OTHERS)} for row in rows[MAX_ROWS - 1 :])
            rows = merged_rows([*rows[: MAX_ROWS - 1], *further], labels)
        worst = sorted([*self.worst, *other.worst], key=lambda job: -float(job["held_idle_seconds"]))
        gpus = {
            node: sorted({*self.gpus.get(node, ()), *other.gpus.get(node, ())}) for node in {**self.gpus, **other.gpus}
        }
        return Usage(rows, worst[:WORST], gpus)


NO_USAGE = Usage([], [], {})


MAX_ROWS = 5_000
"""Rows of a report. Further groups are one row, whose labels are `OTHERS`: users choose the names of workloads."""

OTHERS = "(others)"

NO_OWNER = "(no owner)"
"""The labels of the row of GPU time without an owner."""


class UsageSums:
    """What owners got out of their GPUs, by groupings.

    Args:
        groupings: in which they are added up.
        here: this process's node.
    """

    def __init__(self, groupings: Iterable[GroupBy], here: str) -> None:
        self._rows: dict[GroupBy, dict[tuple[str, ...], _Parts]] = {by: {} for by in groupings}
        self._gpus: dict[str, set[str]] = {}
        self._here = here
        self._jobs: list[tuple[float, int, _Parts, OwnerAccount]] = []
        self._number = 0

    def add(self, account: OwnerAccount) -> None:
        """Add the account of an owner."""
        job: _Parts = {}
        is_free = account.owner.key == FREE.key
        for gpu in account.gpus.values():
            sums, node = list(_sums(gpu, account.now, is_held=not is_free)), node_of(gpu.device, self._here)
            key = None if is_free else _job_key(account, node)
            self._gpus.setdefault(node, set()).add("|".join(filter(None, key_of(gpu.device, self._here))))
            _add(job, node, key, sums)
            for by, rows in self._rows.items():
                _add(_row_of(rows, tuple(_labels(by, account.owner, node).values())), node, key, sums)
        if is_free:
            return
        self._number -= 1
        idle = sum(part["held_idle_seconds"] for part in job.values())
        self._jobs.append((idle, self._number, job, account))
        self._jobs = nlargest(WORST, self._jobs) if len(self._jobs) >= 2 * WORST else self._jobs

    def usage(self, by: GroupBy) -> Usage:
        """Return the sums by one of the groupings, without costs."""
        return Usage(self.rows(by), self.worst, self.gpus)

    @property
    def gpus(self) -> dict[str, list[str]]:
        """The keys of all GPUs by node."""
        return {node: sorted(keys) for node, keys in self._gpus.items()}

    def rows(self, by: GroupBy) -> list[Document]:
        """Return the rows of one of the groupings, without costs."""
        return [
            with_parts(dict(zip(LABELS[by], key, strict=True)), _listed(row)) for key, row in self._rows[by].items()
        ]

    @property
    def worst(self) -> list[Document]:
        """Return the owners with the most held idle time, the worst first, without costs."""
        return [_job(account, job, self._here) for _, _, job, account in nlargest(WORST, self._jobs)]


_Parts = dict[str, Document]
"""Sums by node, with the set of the keys of jobs."""


def _add(parts: _Parts, node: str, key: str | None, sums: Iterable[tuple[str, float]]) -> None:
    """Add what a job, or none, got out of a GPU."""
    part = parts.get(node)
    if part is None:
        part = parts[node] = {"job_keys": set(), **NO_SUMS, "cost": None}
    if key is not None:
        part["job_keys"].add(key)
    for name, amount in sums:
        part[name] = (part[name] or 0.0) + amount


def _listed(parts: _Parts) -> _Parts:
    return {node: {**part, "job_keys": list(part["job_keys"])} for node, part in parts.items()}


def _job_key(account: OwnerAccount, node: str) -> str:
    """Return a digest that stands for a job; a Slurm job has the same one on all of its nodes, even after a requeue."""
    owner = account.owner
    key: tuple[object, ...] = (owner.kind, node, owner.id, account.begin)
    if owner.kind == "slurm_job":
        key = (owner.kind, owner.cluster, part_of(owner) or owner.id)
    return blake2b(repr(key).encode(), digest_size=6).hexdigest()


def _row_of(rows: dict[tuple[str, ...], _Parts], key: tuple[str, ...]) -> _Parts:
    """Return the row with these labels, or the row of all others."""
    if key not in rows and len(rows) >= MAX_ROWS:
        key = (OTHERS,) * len(key)
    return rows.setdefault(key, {})


def usage(accounts: Iterable[OwnerAccount], by: GroupBy, here: str) -> Usage:
    """Return what the owners of each group got out of their GPUs, without costs; `here` is this process's node."""
    sums = UsageSums((by,), here)
    for account in accounts:
        sums.add(account)
    return sums.usage(by)


def _labels(by: GroupBy, owner: Owner, node: str) -> dict[str, str]:
    if owner.key == FREE.key:
        return dict.fromkeys(LABELS[by], NO_OWNER)
    return {label: node if label == "node" else getattr(owner, label) for label in LABELS[by]}


def _sums(gpu: GpuAccount, now: Monotonic, *, is_held: bool) -> Iterator[tuple[str, float]]:
    """Yield the members of `SUMS` of an owner's GPU, or of one without; without its energy if that was never known."""
    counters = gpu.estimate
    seconds = observed(counters)
    yield "gpu_seconds", seconds
    yield "held_seconds", gpu.held_seconds(now)
    yield "observed_seconds", gpu.observed
    for name in ("real_utilization", "energy"):
        unknown = value(counters, f"{name}_unknown_seconds")
        yield f"{name}_unknown_seconds", seconds if unknown is None else unknown
    yield "real_utilization_seconds", value(counters, "real_utilization_seconds") or 0.0
    yield "held_idle_seconds", (total(counters, "idle_seconds") or 0.0) if is_held else 0.0
    if (joules := gpu.joules) is not None:
        yield "energy_joules", joules
    if (estimated := gpu.estimated_joules) is not None:
        yield "estimated_joules", estimated
    if (allocated := gpu.allocated_seconds) is not None:
        yield "allocated_gpu_seconds", allocated
        if (joules := gpu.allocated_joules) is not None:
            yield "allocated_joules", joules


def _job(account: OwnerAccount, parts: _Parts, here: str) -> Document:
    document = account_document(account, here)
    head = {name: document[name] for name in ("owner", "begin", "end", "gpu_count")}
    head["is_demo"] = has_demo(document["gpus"])
    for node, part in parts.items():
        part["gpu_count"] = gpu_count(document["owner"], [gpu for gpu in document["gpus"] if gpu["node"] == node])
    return with_parts(head | {"finding": first_finding(document)}, _listed(parts)) | {"gpu_count": head["gpu_count"]}


def _priced(row: Mapping[str, Any], prices: Prices) -> Document:
    return {"cost": _cost(row, prices), "co2_grams": prices.co2_grams(row["energy_joules"])}


def _cost(row: Mapping[str, Any], prices: Prices) -> Document | None:
    if prices.gpu_hour is None and prices.kwh is None:
        return None
    total = prices.of_time(row["gpu_seconds"]) + prices.of_energy(row["energy_joules"] or 0.0)
    is_lower_bound = prices.kwh is not None and lacks_energy(row)
    allocated = allocated_cost(row, prices)
    return {"currency": prices.currency, "total": total, "allocated": allocated, "is_lower_bound": is_lower_bound}
