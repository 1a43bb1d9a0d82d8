"""The API, asked without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
from fastapi import APIRouter, FastAPI

from pulsed.model.target_store import TargetStore
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.owners.attribution.gpu_processes import GpuProcessTable
from pulsed.present.api.account_lookup import Accounts
from pulsed.present.api.application import api
from pulsed.present.api.day_history import DayHistory
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History
from pulsed.present.api.routes.events import event_router
from pulsed.present.api.routes.history import history_router
from pulsed.present.api.routes.owners import owner_router
from pulsed.present.api.routing import ERROR_HANDLERS, ApiParts


class Answer(NamedTuple):
    """A response; the document is its JSON."""

    status: int
    document: Any
    headers: Mapping[str, str]


def application(store: TargetStore, history: History | None = None, events: EventBroadcaster | None = None) -> FastAPI:
    """The whole API of a store, without accounts."""
    history = history or History()
    of_features = (
        history_router(store, history, DayHistory(history.fields, 0)),
        event_router(store, events or EventBroadcaster(lambda: "here")),
        owner_router(store, Accounts(OwnerAccounting(), EndedAccounts())),
    )
    return api(parts(store), of_features)


def parts(store: TargetStore) -> ApiParts:
    return ApiParts(store, GpuProcessTable(), {})


def routes(router: APIRouter) -> FastAPI:
    """Some of its routes."""
    app = FastAPI(exception_handlers=ERROR_HANDLERS)
    app.include_router(router)
    return app


async def ask(app: FastAPI, path: str, method: str = "GET") -> Answer:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://pulsed") as client:
        answer = await client.request(method, path)
    return Answer(answer.status_code, answer.json(), answer.headers)
