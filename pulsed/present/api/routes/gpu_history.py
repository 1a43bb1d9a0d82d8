"""The route of the recent samples of a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pulsed.collector.target_store import TargetStore
from pulsed.present.api import documents, schema
from pulsed.present.api.event_documents import identity_document
from pulsed.present.api.gpu_lookup import NOT_ONE_GPU, GpuPath, NodeQuery, not_one_gpu
from pulsed.present.api.history import History
from pulsed.present.api.json_response import REFUSED, json_response
from pulsed.present.api.query_fields import some_of
from pulsed.present.api.sample_fields import FIELDS
from pulsed.present.gpu_keys import node_of
from pulsed.suggestions import did_you_mean


def history_router(board: TargetStore, history: History) -> APIRouter:
    """Return the route `/gpus/{gpu}/history`."""
    router = APIRouter()

    @router.get(
        "/gpus/{gpu}/history",
        response_model=schema.HistoryShape,
        responses=REFUSED | NOT_ONE_GPU,
        summary="Recent samples of a GPU, also of one that is gone",
    )
    async def gpu_history(
        gpu: GpuPath,
        node: NodeQuery = None,
        seconds: Annotated[
            float,
            Query(gt=0, allow_inf_nan=False, description="length of the window; at most what is kept"),
        ] = history.seconds,
        fields: str = some_of(history.fields, "fields"),
    ) -> Response:
        wanted = list(dict.fromkeys(fields.split(",")))
        if problem := _unkept(wanted, history.fields):
            return json_response({"error": problem}, 400)
        places = [
            (match.target.tick.target, match.device)
            for match in documents.find(board, gpu, node, time.monotonic())
            if match.target.tick is not None
        ] or [(past.target, past.device) for past in history.find(gpu, node, board.node)]
        if len(places) != 1:
            return not_one_gpu(gpu, [(node_of(device, board.node), device) for _, device in places])
        window = history.window(*places[0], seconds)
        head = identity_document(window.device, board.node)
        head |= {"interval_seconds": window.interval, "seconds": window.seconds}
        return Response(await history.write(window, wanted, head), media_type="application/json")

    return router


def _unkept(wanted: Iterable[str], kept: Sequence[str]) -> str:
    """Return the error for the first field that is not kept; empty if all are."""
    for name in wanted:
        if name in kept:
            continue
        if name in FIELDS:
            return f"fields: {name!r} is not kept; add it to history.fields"
        hint = did_you_mean(name, kept, did_you_mean(name, FIELDS, f"allowed: {', '.join(kept)}"))
        return f"fields: {name!r} is not a field; {hint}"
    return ""
