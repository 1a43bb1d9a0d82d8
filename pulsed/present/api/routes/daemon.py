"""The routes of the daemon and its host: pages for browsers, version, configuration, CPU and memory, processes."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Sequence
from functools import cache

import psutil
from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import Field
from starlette.exceptions import HTTPException

from pulsed import __version__
from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import GpuProcess
from pulsed.owners.attribution.gpu_processes import ListedProcess, are_visible, listed_processes
from pulsed.present.api.documents import HealthCheck
from pulsed.present.api.routing import ApiParts, json_response
from pulsed.present.api.schema import Document, DocumentModel, Text, TimeOrNull
from pulsed.present.exposition.text_format import accepts_gzip
from pulsed.present.table import table
from pulsed.present.web import CONTENT_SECURITY_POLICY, Asset, Assets

WINDOW_SECONDS = 1.0
"""The shortest time over which the CPU is measured; requests in between get the result before."""


class Version(DocumentModel):
    """The version of pulsed and Python."""

    version: str
    python: str


class HostShape(DocumentModel):
    """CPU and memory of the host, also from inside a container, and of pulsed; None where it is unknown."""

    cpu_count: int | None
    cpu_busy_ratio: float | None = Field(description="since the request before, or at least 1 s; null at the first")
    load_average: float = Field(description="over one minute")
    memory_bytes: int
    memory_used_bytes: int = Field(description="without what programs can get: caches and free memory")
    pulsed_cpu_seconds: float = Field(description="CPU time of pulsed since its start")
    pulsed_memory_bytes: int = Field(description="resident memory of pulsed")
    problems: list[HealthCheck] = Field(description="checks of the node that are worse than ok")


class ProcessGpu(DocumentModel):
    """A GPU or MIG instance that a process uses."""

    gpu: str
    uuid: str
    mig_id: Text
    memory_bytes: int | None
    sm_utilization_ratio: float | None = Field(description="share of time with kernels, in the last sampling period")
    mean_utilization_ratio: float | None = Field(description="the same since its start, in accounting mode")
    peak_memory_bytes: int | None = Field(description="since its start, in accounting mode")


class ProcessRow(DocumentModel):
    """A process whose control group belongs to a job or pod, or that uses a GPU."""

    pid: int
    slurm_job: str | None
    pod_uid: str | None
    user: str | None = Field(description="null, like the rest, of a process that uses a GPU and cannot be seen")
    memory_bytes: int | None = Field(description="resident")
    cpu_seconds: float | None = Field(description="CPU time since its start")
    start: TimeOrNull
    command: str | None = Field(
        description="program and script; with attribution.processes.arguments all of it; at most 256 characters"
    )
    gpus: list[ProcessGpu] | None = Field(description="the GPUs that it uses; null where the source does not list them")


class Processes(DocumentModel):
    """Processes of jobs and pods, and with the source nvml those that use a GPU."""

    published: bool = Field(description="the key attribution.processes.enabled")
    visible: bool | None = Field(description="whether all processes of the host can be seen, not with hidepid; or null")
    processes: list[ProcessRow]


def _process(pid: int, process: ListedProcess | None, gpus: Sequence[GpuProcess] | None) -> dict[str, object]:
    """Return the values of `ProcessRow`.

    A process is None if it is hidden or has just ended, its GPUs are None where the source does not list them.
    """
    if process is None:
        unknown = ("slurm_job", "pod_uid", "user", "memory_bytes", "cpu_seconds", "start", "command")
        return {"pid": pid, **dict.fromkeys(unknown), "gpus": gpus}
    values = process._asdict()
    owner = values.pop("owner")
    return values | {
        "slurm_job": owner.id if owner is not None and owner.kind == "slurm_job" else None,
        "pod_uid": owner.id if owner is not None and owner.kind == "pod" else None,
        "gpus": gpus,
    }


def daemon_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/version` and `/config`."""
    router = APIRouter()

    @router.get("/version", response_model=Version, summary="Version of pulsed and Python")
    async def version() -> Response:
        return json_response({"version": __version__, "python": platform.python_version()})

    @router.get("/config", summary="Configuration in force, with secrets masked")
    async def configuration() -> Response:
        return json_response(parts.config)

    return router


def host_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/host` and `/processes`; the latter is empty without `attribution.processes.enabled`."""
    router, usage = APIRouter(), HostUsage()

    @router.get("/host", response_model=HostShape, summary="CPU and memory of the host, and what is wrong with it")
    async def host() -> Response:
        health = parts.store.node_health
        problems = [HealthCheck.render(check) for check in (health.problems if health is not None else ())]
        return json_response(usage.document() | {"problems": problems})

    @router.get(
        "/processes",
        response_model=Processes,
        summary="Processes of jobs and pods on this host, and those that use its GPUs",
    )
    async def processes() -> Response:
        settings = parts.config["attribution"]["processes"]
        if not settings["enabled"]:
            return json_response({"published": False, "visible": None, "processes": []})
        return json_response(
            await asyncio.to_thread(processes_document, parts.processes.current, settings["arguments"])
        )

    return router


class HostUsage:
    """Measures the host when requested, from one request to the next, in the thread that creates it."""

    def __init__(
        self, cpu_percent: Callable[[], float] = psutil.cpu_percent, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cpu_percent, self._clock = cpu_percent, clock
        self._cpu_percent()
        self._measured = clock()
        self._busy: float | None = None

    def document(self) -> Document:
        """Return the members of `HostShape` except its problems. In a container they describe the node."""
        now = self._clock()
        if now - self._measured >= WINDOW_SECONDS:
            self._busy, self._measured = self._cpu_percent() / 100, now
        memory, own = psutil.virtual_memory(), psutil.Process().cpu_times()
        return {
            "cpu_count": psutil.cpu_count(),
            "cpu_busy_ratio": self._busy,
            "load_average": psutil.getloadavg()[0],
            "memory_bytes": memory.total,
            "memory_used_bytes": memory.total - memory.available,
            "pulsed_cpu_seconds": own.user + own.system,
            "pulsed_memory_bytes": psutil.Process().memory_info().rss,
        }


def processes_document(on_gpus: Sequence[GpuProcess] | None, with_arguments: bool) -> Document:
    """Return the processes that belong to jobs and pods or use a GPU. Reads /proc, which may take long.

    The driver lists the latter, None where the source does not.

    Where processes of the host are hidden, the driver's process ids are not looked up: they may be other processes'
    here.
    """
    is_visible = are_visible()
    uses: dict[int, list[GpuProcess]] = {}
    for use in on_gpus or ():
        uses.setdefault(use.pid, []).append(use)
    pids = uses.keys() if is_visible else ()
    listed = {process.pid: process for process in listed_processes(pids, with_arguments=with_arguments)}
    is_joined = is_visible and on_gpus is not None
    rows = [_process(pid, process, uses.get(pid, []) if is_joined else None) for pid, process in listed.items()]
    rows += [_process(pid, None, gpus) for pid, gpus in uses.items() if not (is_visible and pid in listed)]
    return Processes.render({"published": True, "visible": is_visible, "processes": rows})


IMMUTABLE = "private, max-age=31536000, immutable"


_DOCS_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""Swagger UI has an inline script and inline styles."""


def page_router(parts: ApiParts) -> APIRouter:
    """Return the routes `/`, `/static/`, `/docs` and `/docs/NAME`."""
    router = APIRouter()

    @cache
    def assets() -> Assets:
        return Assets.load()

    @cache
    def page() -> Asset:
        return assets().page(__version__, parts.telemetry_path, parts.external_path)

    @router.get("/", include_in_schema=False)
    async def landing(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            paths = f"Prometheus: {parts.telemetry_path}   JSON: /gpus   API: /docs"
            text = f"{table(parts.store, Monotonic(time.monotonic()))}\n{paths}\n"
            return Response(text, media_type="text/plain", headers={"vary": "Accept"})
        headers = {
            "cache-control": "no-cache",
            "content-security-policy": CONTENT_SECURITY_POLICY,
            "referrer-policy": "no-referrer",
            "vary": "Accept, Accept-Encoding",
        }
        return _file(request, page(), headers)

    @router.get("/static/{version}/{name:path}", include_in_schema=False)
    async def static(request: Request, version: str, name: str) -> Response:
        asset = assets().files.get(name)
        if asset is None or version != assets().version:
            raise HTTPException(404, "Not Found")
        return _file(request, asset, {"cache-control": IMMUTABLE, "vary": "Accept-Encoding"})

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        static = "static-offline-docs"
        page = get_swagger_ui_html(
            openapi_url="openapi.json",
            title="pulsed: API",
            swagger_js_url=f"{static}/swagger-ui-bundle.js",
            swagger_css_url=f"{static}/swagger-ui.css",
            swagger_favicon_url=f"{static}/favicon.png",
        )
        page.headers["content-security-policy"] = _DOCS_POLICY
        return page

    @router.get("/docs/{name}", include_in_schema=False)
    async def document(request: Request, name: str) -> Response:
        from pulsed.present.web.documents import DOCUMENT_POLICY, documents

        asset = (await asyncio.to_thread(documents)).get(name)
        if asset is None:
            raise HTTPException(404, "Not Found")
        headers = {"cache-control": "no-cache", "content-security-policy": DOCUMENT_POLICY, "vary": "Accept-Encoding"}
        return _file(request, asset, headers | {"referrer-policy": "no-referrer"})

    return router


def _file(request: Request, asset: Asset, headers: dict[str, str]) -> Response:
    """Return a file, or 304 for a client that has it."""
    headers |= {"etag": asset.etag}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(asset.compressed, headers=headers | {"content-encoding": "gzip"}, media_type=asset.media_type)
    return Response(asset.body, headers=headers, media_type=asset.media_type)
