"""The routes of the owners of GPUs: accounts of jobs, pods and others, and what groups of them do now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from orjson import Fragment
from pydantic import Field, create_model

from pulsed.durations import DAY
from pulsed.json_text import as_text
from pulsed.lane import Lane, LaneFull
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import GpuKey
from pulsed.model.job_names import group_of, without_step
from pulsed.model.owner import OwnerKind
from pulsed.model.target_store import TargetStore
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.saved_accounts import account_key
from pulsed.owners.report.job_report import report_of
from pulsed.owners.report.owner_totals import (
    FAMILIES,
    GROUPS,
    WORKLOAD,
    AccountTotals,
    GroupLabels,
    GroupName,
    Owned,
    families_of,
    fresh_owners,
    rows_of,
    sums_of,
)
from pulsed.owners.report.usage import GroupBy
from pulsed.present.api.account_documents import AccountShape, account_document
from pulsed.present.api.account_lookup import (
    AccountDigests,
    AccountFilter,
    Accounts,
    ReadingStopped,
    ReadingTime,
    accounts_in_files,
    accounts_in_memory,
    digest,
    ended_accounts,
    nearest_names,
    newest_first,
    running_accounts,
)
from pulsed.present.api.event_documents import finite
from pulsed.present.api.routing import NOT_FOUND, REFUSED, ApiError, NodeAnswer, json_response, node_answer
from pulsed.present.api.schema import Document, DocumentModel
from pulsed.present.api.usage_documents import (
    USAGE_ROW,
    USED_JOB,
    NewestAccountShape,
    Usage,
    comparison_document,
    newest_document,
    usage,
)
from pulsed.present.asgi import client_of

_T = TypeVar("_T")

MAX_JOBS = 1000
MAX_OFFSET = 10**9

MAX_WAITING, PATIENCE_SECONDS = 32, 5.0
"""Requests that may wait for documents of ended owners, and how long; others get 503."""

READ_SECONDS = 30.0
"""Time limit of reading the files of accounts for one request."""

REPORT_SECONDS = 30 * DAY


class AccountsShape(NodeAnswer):
    """Accounts of owners."""

    running: int = Field(description="owners that match and have a GPU, on all pages")
    idle_gpus: int = Field(description="GPUs that they hold and do not use")
    jobs: list[AccountShape]


_FAMILIES: Any = {
    family.key: (float | None, Field(None if family.groups else ..., description=family.help)) for family in FAMILIES
}

_ROW_MEMBERS: Any = {
    **{label: (str | None, None) for group in GROUPS.values() for label in group.labels},
    "classes": (dict[str, float], Field(description="GPUs by workload class, shared ones in part")),
    **_FAMILIES,
    "gpus": (float, Field(description="of workloads and users, shared ones in part")),
    "pods": (int, 0),
}

OWNER_ROW = create_model("OwnerRow", __base__=DocumentModel, **_ROW_MEMBERS)
"""GPU use of a pod, workload, job or user on this node; a row has the members of its group only."""


class ReportShape(NodeAnswer):
    """Who used how many GPU hours."""

    by: str
    rows: list[USAGE_ROW]  # type: ignore[valid-type] # made of a table
    worst: list[USED_JOB] = Field(description="owners with the most held idle time")  # type: ignore[valid-type]
    gpus: dict[str, list[str]] = Field({}, description="with `?parts=true`: the keys of all GPUs of accounts, by node")


class WorkloadsShape(NodeAnswer):
    """What pods, workloads, jobs or users do now."""

    by: str
    workloads: list[OWNER_ROW]  # type: ignore[valid-type] # made of a table


def _idle_gpus(owned: Owned, accounts: Iterable[OwnerAccount]) -> Mapping[OwnerAccount, frozenset[GpuKey]]:
    """Return the GPUs that owners have and do not use, by account; accounts without any are left out."""
    idle_rows = {}
    for account in accounts:
        if idle := frozenset(gpu.device.entity.key for gpu in owned.get(account, ()) if gpu.result.use == "held"):
            idle_rows[account] = idle
    return idle_rows


def _in_memory(accounts: Accounts, name: str, _: ReadingTime) -> list[OwnerAccount]:
    return list(accounts_in_memory(accounts, name))


def _in_files(accounts: Accounts, name: str, check: ReadingTime) -> list[OwnerAccount]:
    return list(accounts_in_files(accounts, name, check))


def owner_router(store: TargetStore, accounts: Accounts) -> APIRouter:
    """Return the routes of owners."""
    router = APIRouter()
    in_memory, of_files = (Lane(PATIENCE_SECONDS, MAX_WAITING) for _ in range(2))

    async def made(request: Request, lane: Lane, make: Callable[[ReadingTime], _T]) -> _T:
        """Return what is made in a thread, one at a time. Raises `ApiError`."""
        client = client_of(request.scope)
        try:
            async with lane.turn(client.network, client.is_gone):
                return await asyncio.to_thread(make, ReadingTime(READ_SECONDS, client.is_gone))
        except LaneFull:
            raise ApiError(
                503, "too many requests at the same time; try again in a second", {"Retry-After": "1"}
            ) from None
        except ReadingStopped:
            text = f"reading the files of accounts takes more than {READ_SECONDS:g} s; try again, or with a later since"
            raise ApiError(503, text, {"Retry-After": "10"}) from None

    def text_of(account: OwnerAccount) -> Fragment:
        return as_text(account_document(account, store.node, accounts.prices()))

    async def found_accounts(request: Request, id: str, *, all_kept: bool = False) -> list[OwnerAccount]:
        """Return the accounts of an id, the newest begin first. Files are read if none is in memory, or for all, as for
        the parts of an array. The id of a step denotes its job where no owner has it."""
        for name in dict.fromkeys((id, without_step(id))):
            find_in_memory, find_in_files = partial(_in_memory, accounts, name), partial(_in_files, accounts, name)
            found = await made(request, in_memory, find_in_memory)
            if all_kept or not found or any(group_of(each.owner) == name for each in found):
                found += await made(request, of_files, find_in_files)
            if found:
                return newest_first(found)
        nearest = await made(request, in_memory, lambda _: nearest_names(accounts, id))
        hint = f"the nearest names are {', '.join(nearest)}; " if nearest else ""
        error = ApiError(404, f"job {id!r} not found; {hint}/jobs lists all jobs")
        error.nearest = nearest
        raise error

    @router.get(
        "/jobs",
        response_model=AccountsShape,
        responses=REFUSED,
        summary="Running and ended owners of GPUs with their accounts",
    )
    async def jobs(
        request: Request,
        state: Annotated[str, Query(description="running or ended", pattern="^(running|ended)?$")] = "",
        kind: Annotated[Literal[OwnerKind, ""], Query(description="of the owner")] = "",
        user: str = "",
        account: str = "",
        namespace: str = "",
        since: Annotated[float, Query(description="not ended before this Unix time", allow_inf_nan=False)] = 0.0,
        sort: Annotated[
            str, Query(description="running ones: the newest first, or those with idle GPUs", pattern="^(begin|idle)$")
        ] = "begin",
        limit: Annotated[int, Query(ge=1, le=MAX_JOBS)] = 100,
        offset: Annotated[int, Query(description="how many to leave out, for the next page", ge=0, le=MAX_OFFSET)] = 0,
    ) -> Response:
        account_filter = AccountFilter(state, kind, user, account, namespace, since)
        running = running_accounts(accounts, account_filter)
        idle = _idle_gpus(fresh_owners(store, accounts.running, Monotonic(time.monotonic())), running)
        if sort == "idle":
            running.sort(key=lambda each: -len(idle.get(each, ())))
        shown = [text_of(each) for each in running[offset : offset + limit]]
        begin = max(0, offset - len(running))
        end = begin + limit - len(shown)
        if state != "running" and begin < end:
            lane = of_files if since else in_memory
            shown += await made(
                request,
                lane,
                lambda check: [
                    text_of(each) for each in islice(ended_accounts(accounts, account_filter, check), begin, end)
                ],
            )
        idle_gpus = len(frozenset().union(*idle.values()))
        head = {**node_answer(store.node), "running": len(running), "idle_gpus": idle_gpus}
        return json_response({**head, "jobs": shown})

    @router.get(
        "/jobs/{id:path}",
        response_model=NewestAccountShape | list[AccountShape],
        responses=REFUSED | NOT_FOUND,
        summary="Account of one owner: the newest with this id; a pod has all containers, an array all tasks",
    )
    async def one_job(
        request: Request,
        id: Annotated[
            str,
            Path(
                description="a job id (`501`), a task (`500_1`) or all tasks of an array (`500`), a component (`700+1`)"
                " or all of a heterogeneous job (`700`), a step (`4711.0`), a pod's UID, name or `namespace/name`, or"
                " an owner's id"
            ),
        ],
        all: Annotated[bool, Query(description="a list of all with this id, such as of a requeued job")] = False,
        report: Annotated[bool, Query(description="also the texts of `pulsed job`, unless `all`")] = False,
        other: Annotated[str, Query(alias="with", description="id of a job to compare with, unless `all`")] = "",
    ) -> Response:
        accounts_of_job = await found_accounts(request, id, all_kept=all)
        if all:
            return json_response([text_of(each) for each in accounts_of_job])
        document = newest_document(accounts_of_job, without_step(id), store.node, accounts.prices())
        texts = {"report": report_of(document)._asdict()} if report else {}
        if other:
            second_accounts = await found_accounts(request, other)
            second = newest_document(second_accounts, without_step(other), store.node, accounts.prices())
            texts["comparison"] = comparison_document(document, second)
        return json_response({**document, **texts})

    @router.get(
        "/report",
        response_model=ReportShape,
        response_model_exclude_unset=True,
        responses=REFUSED,
        summary="GPU hours, work, held idle time, energy and cost by user, account, namespace, workload or node",
    )
    async def report(
        request: Request,
        by: GroupBy = "user",
        since: Annotated[
            float, Query(description="owners that have ended before this Unix time are left out", allow_inf_nan=False)
        ] = 0.0,
        parts: Annotated[
            bool,
            Query(description="also what adding the reports of several daemons needs: sums by node, GPUs, jobs"),
        ] = False,
    ) -> Response:
        account_filter = AccountFilter(since=since or time.time() - REPORT_SECONDS)
        free = accounts.running.free()
        unfinished = [*running_accounts(accounts, account_filter), *([free] if free is not None else ())]
        running = usage(unfinished, by, store.node)
        newer = AccountDigests(digest(account_key(each)) for each in accounts.running.unfinished)

        def ended(check: ReadingTime) -> Usage:
            """Return the sums of the accounts in files, and of those in memory that are in none."""
            of_kept = accounts.kept_usage(account_filter.since, by, newer, check)
            keys = {key for key in accounts.ended.keys if digest(key) not in newer}
            ended = accounts.ended.find(lambda owner, end: bool(keys) and end >= account_filter.since)
            return of_kept.plus(usage((each for each in ended if account_key(each) in keys), by, store.node), by)

        both = running.plus(await made(request, of_files, ended), by).with_costs(accounts.prices())
        shown = both._asdict() if parts else both.without_parts()
        return json_response({**node_answer(store.node), "by": by, **shown})

    @router.get(
        "/workloads",
        response_model=WorkloadsShape,
        responses=REFUSED,
        summary="Pods, workloads, jobs or users with GPUs on this node: utilization, classes, memory, energy",
    )
    async def workloads(
        by: Annotated[GroupName, Query(description="what to group by; workload: what controls pods")] = "workload",
    ) -> Response:
        owned = fresh_owners(store, accounts.running, Monotonic(time.monotonic()))
        rows = list(_workloads(accounts, owned, by))
        return json_response({**node_answer(store.node), "by": by, "workloads": rows})

    return router


def _workloads(accounts: Accounts, owned: Owned, by: GroupName) -> Iterator[Document]:
    """Yield a row per pod, workload, job or user of these owners.

    It begins with the labels that are not empty.
    """
    group = GROUPS[by]
    accounts.running.settle(owned)
    totals: Mapping[GroupLabels, AccountTotals] = {}
    if group is WORKLOAD and accounts.workloads is not None:
        accounts.workloads.add_growth(owned)
        totals = accounts.workloads.sums
    for labels, members in rows_of(group, owned).items():
        sums = sums_of(members, owned, totals.get(labels))
        values = {family.key: finite(family.get(sums)) for family in families_of(by)}
        yield {**dict(labels), "classes": sums.classes, **values}
