"""The JSON API and its documentation, which works without internet: a FastAPI application.

Importing this module costs some 0.2 s and 13 MB: it is imported by the first request that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from pulsed import __version__
from pulsed.attribution.gpu_processes import GpuProcessTable
from pulsed.compute.settings import DEFAULT_SETTINGS, ComputeSettings
from pulsed.model.target_store import TargetStore
from pulsed.present.api.account_documents import Accounts
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History
from pulsed.present.api.json_compression import JsonCompression
from pulsed.present.api.json_response import ERROR_HANDLERS
from pulsed.present.api.openapi import openapi_document
from pulsed.present.api.response_headers import ResponseHeaders
from pulsed.present.api.routes.autoscale import autoscale_router
from pulsed.present.api.routes.catalog import catalog_router
from pulsed.present.api.routes.container_metrics import container_router
from pulsed.present.api.routes.daemon import daemon_router
from pulsed.present.api.routes.docs import docs_router
from pulsed.present.api.routes.events import event_router
from pulsed.present.api.routes.gpu_health import health_router
from pulsed.present.api.routes.gpu_history import history_router
from pulsed.present.api.routes.gpus import gpu_router
from pulsed.present.api.routes.host import host_router
from pulsed.present.api.routes.jobs import job_router
from pulsed.present.api.routes.page import page_router
from pulsed.present.api.routes.workloads import workload_router

SUMMARY = "Real utilization, workload class and health of the GPUs of this node."


def api(
    board: TargetStore,
    config: Mapping[str, Any],
    telemetry_path: str = "/metrics",
    settings: ComputeSettings = DEFAULT_SETTINGS,
    *,
    history: History,
    events: EventBroadcaster,
    accounts: Accounts,
    external_path: str | None = None,
    processes: GpuProcessTable | None = None,
) -> FastAPI:
    """Return the JSON API.

    Args:
        config: the configuration with secrets masked.
        settings: that results are computed with.
        processes: has those that use GPUs.
        external_path: path of all pages as clients see it, without a slash at the end; None: links are relative.
    """
    app = FastAPIOffline(
        None,  # its page has absolute links
        None,
        title="pulsed",
        version=__version__,
        summary=SUMMARY,
        root_path_in_servers=external_path is None,
        redirect_slashes=False,  # its addresses have the Host of the client
        exception_handlers=ERROR_HANDLERS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    app.add_middleware(JsonCompression)
    app.add_middleware(ResponseHeaders)
    for router in (
        page_router(board, telemetry_path, external_path),
        docs_router(),
        gpu_router(board, settings),
        history_router(board, history),
        job_router(board, accounts),
        workload_router(board, accounts, config),
        container_router(board, settings.preset_name),
        autoscale_router(board),
        event_router(board, events),
        health_router(board),
        host_router(config, processes or GpuProcessTable()),
        catalog_router(settings),
        daemon_router(config),
    ):
        app.include_router(router)
    document = openapi_document(app, telemetry_path, external_path)
    app.openapi = lambda: document  # type: ignore[method-assign] # FastAPI's way; what is in openapi_schema it may redo
    return app
