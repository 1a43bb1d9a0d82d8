"""The routes of the accounts of jobs, pods and other owners."""

from __future__ import annotations

import time
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from pulsed.background import in_background
from pulsed.model.target_store import TargetStore
from pulsed.present.api import schema
from pulsed.present.api.account_documents import (
    AccountFilter,
    Accounts,
    account_document,
    accounts_named,
    ended_accounts,
    running_accounts,
)
from pulsed.present.api.json_response import REFUSED, ApiError, json_response
from pulsed.present.time_text import rfc3339

MAX_JOBS = 1000


def job_router(board: TargetStore, accounts: Accounts) -> APIRouter:
    """Return the routes `/jobs` and `/jobs/{id}`."""
    router = APIRouter()

    @router.get(
        "/jobs",
        response_model=schema.AccountsShape,
        responses=REFUSED,
        summary="Running and ended owners of GPUs with their accounts",
    )
    async def jobs(
        state: Annotated[str, Query(description="running or ended", pattern="^(running|ended)?$")] = "",
        kind: Annotated[str, Query(description="slurm_job, pod or process")] = "",
        user: str = "",
        account: str = "",
        namespace: str = "",
        since: Annotated[float, Query(description="not ended before this Unix time", allow_inf_nan=False)] = 0.0,
        limit: Annotated[int, Query(ge=1, le=MAX_JOBS)] = 100,
    ) -> Response:
        wanted = AccountFilter(state, kind, user, account, namespace, since)
        shown = [
            account_document(each, board.node, accounts.prices) for each in running_accounts(accounts, wanted)[:limit]
        ]
        ended = islice(ended_accounts(accounts, wanted), limit - len(shown))
        shown += await in_background(lambda: [account_document(each, board.node, accounts.prices) for each in ended])
        return json_response({"node": board.node, "time": rfc3339(time.time()), "jobs": shown})

    @router.get(
        "/jobs/{id:path}",
        response_model=schema.AccountShape | list[schema.AccountShape],
        responses=REFUSED | {404: {"model": schema.Failure}},
        summary="Account of one owner: the newest with this id",
    )
    async def one_job(
        id: Annotated[str, Path(description="a job id, a pod's UID, `pod:namespace/name`, or an owner's id")],
        all: Annotated[bool, Query(description="a list of all with this id, such as of a requeued job")] = False,
    ) -> Response:
        found = [account_document(each, board.node, accounts.prices) for each in accounts_named(accounts, id)]
        if not found:
            raise ApiError(404, f"job {id!r} not found; /jobs lists all jobs")
        return json_response(found if all else found[0])

    return router
