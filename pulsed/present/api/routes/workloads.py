"""The route `/workloads`: what pods, workloads, jobs and users do with their GPUs now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from pulsed.model.target_store import TargetStore
from pulsed.present.api import schema
from pulsed.present.api.account_documents import Accounts
from pulsed.present.api.json_response import REFUSED, json_response
from pulsed.present.api.workload_documents import workloads_document
from pulsed.present.owner_groups import GROUPS, GroupName
from pulsed.present.time_text import rfc3339


def workload_router(board: TargetStore, accounts: Accounts, config: Mapping[str, Any]) -> APIRouter:
    """Return the route `/workloads`; `config` has the target of scale hints."""
    router = APIRouter()

    @router.get(
        "/workloads",
        response_model=schema.WorkloadsShape,
        responses=REFUSED,
        summary="Pods, workloads, jobs or users with GPUs on this node: utilization, classes, memory, energy",
    )
    async def workloads(
        by: Annotated[GroupName, Query(description="what to group by; workload: what controls pods")] = "workload",
    ) -> Response:
        target = config["publish"]["scale_target"]
        rows = workloads_document(board, accounts, GROUPS[by], time.monotonic(), target)
        return json_response({"node": board.node, "time": rfc3339(time.time()), "by": by, "workloads": rows})

    return router
