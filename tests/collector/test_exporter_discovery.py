"""Which pods discovery watches and reads, and why it reads no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pulsed.collector.exporter_discovery import DiscoveredExporter, ExporterDiscovery, pod_requirements
from pulsed.collector.pool import CollectorPool
from pulsed.config.configuration import Config, load
from pulsed.errors import DuplicateGpu
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.settings import USUAL_NAMESPACES
from pulsed.model.target_store import TargetStore
from tests.support.exporters import Exporter, exporting, page
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod
from tests.support.waiting import eventually

OPERATOR = "gpu-operator/nvidia-dcgm-exporter"


def configured(*settings: str) -> Config:
    """Return a configuration with discovery; settings of `source.exporter.kubernetes` without that beginning."""
    discovers = ("node=node-a", "source.kind=exporter", "source.interval=1s", "source.exporter.discovery=kubernetes")
    return load(None, [*discovers, *(f"source.exporter.kubernetes.{each}" for each in settings)], {})


@asynccontextmanager
async def discovering(fake: FakeApiServer, *settings: str) -> AsyncIterator[ExporterDiscovery]:
    client = ApiClient(access_to(fake), limits=())
    discovery = ExporterDiscovery(configured(*settings), client)
    discovery.start()
    try:
        await discovery.settle()
        yield discovery
    finally:
        await discovery.stop()
        await client.close()


def targets(discovery: ExporterDiscovery) -> list[str]:
    return [endpoint.target for endpoint in discovery.endpoints]


@pytest.mark.parametrize(
    ("own", "settings", "namespaces"),
    [
        ("", [], USUAL_NAMESPACES),
        ("gpu-team\n", [], (*USUAL_NAMESPACES, "gpu-team")),
        ("monitoring", [], USUAL_NAMESPACES),
        ("default", [], USUAL_NAMESPACES),
        ("gpu-team", ["namespaces=[ml]"], ("ml",)),
        ("gpu-team", ["namespaces=default"], ("default",)),
        ("gpu-team", ["namespaces=all"], None),
    ],
)
def test_the_namespaces_that_are_read(own: str, settings: Sequence[str], namespaces: object, tmp_path: Path) -> None:
    (file := tmp_path / "namespace").write_text(own)
    config = configured(*settings)
    kubernetes = replace(config.kubernetes, namespace_file=str(file))
    assert pod_requirements(replace(config, kubernetes=kubernetes)).namespaces == namespaces


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        ([], {"/api/v1/pods"}),
        (["namespaces=all"], {"/api/v1/pods"}),
        (["namespaces=[ml, gpu]"], {"/api/v1/namespaces/ml/pods", "/api/v1/namespaces/gpu/pods"}),
    ],
)
async def test_named_namespaces_need_no_rights_in_others(
    server: FakeApiServer, settings: Sequence[str], paths: set[str]
) -> None:
    async with discovering(server, *settings):
        await eventually(lambda: {request.path for request in server.requests} == paths)


async def test_pods_that_are_not_read_are_logged_once_and_named_when_there_is_no_exporter(
    server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for number in range(20):
        server.put(pod(f"web-{number:02}", namespace="ml"))
    server.put(pod("bare", owner=""))
    server.put(pod("starting", ready=False))
    async with discovering(server) as discovery:
        assert targets(discovery) == []
        error = discovery.problem()
        assert "pod gpu-operator/bare has no controller, not by DaemonSet.apps; pod ml/web-00 is in another" in str(
            error
        )
        assert "and 14 more" in str(error)
        assert len(str(error)) < 1500
        assert ".namespaces, .controllers" in error.remedy
        server.put(pod("starting"))
        await eventually(lambda: targets(discovery) == [OPERATOR])
        messages = [each.getMessage() for each in caplog.records]
        assert messages.count("pods with the labels of exporters are not read") == 1


async def test_a_named_namespace_and_controller_are_read(server: FakeApiServer) -> None:
    server.put(pod("bare", owner="", namespace="default"))
    async with discovering(server, "namespaces=default", "controllers=[]") as discovery:
        assert targets(discovery) == ["default/bare"]


async def test_the_first_pages_of_two_exporters_with_a_gpu_are_refused(server: FakeApiServer) -> None:
    with exporting({"metrics": Exporter(page(0).replace('Hostname="node"', 'Hostname="node-a"'))}) as url:
        port = int(url.rstrip("/").rsplit(":", 1)[1])
        server.put(pod("one", port=port))
        server.put(pod("two", port=port, namespace="monitoring"))
        async with discovering(server) as discovery:
            sources = [each for each in discovery.sources if isinstance(each, DiscoveredExporter)]
            found = await asyncio.gather(*(source.read() for source in sources), return_exceptions=True)
            assert [type(each) for each in found] == [DuplicateGpu] * 2
            assert all("gpu-operator/one and monitoring/two" in str(each) for each in found)
            await asyncio.gather(*(source.close() for source in sources))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("source.exporter.timeout=3s", True),
        ("source.exporter.kubernetes.namespaces=monitoring", False),
        ("source.exporter.kubernetes.controllers=StatefulSet.apps", False),
    ],
)
async def test_a_reload_with_other_requirements_keeps_no_exporter(
    server: FakeApiServer, change: str, kept: bool
) -> None:
    """Also while the API server fails."""

    def with_server(*more: str) -> Config:
        access = (
            f"kubernetes.server={server.url}",
            f"kubernetes.token_file={server.token_file}",
            f"kubernetes.ca_file={server.ca_file}",
        )
        overrides = ("node=node-a", "source.kind=exporter", "source.exporter.discovery=kubernetes", *access, *more)
        return load(None, overrides, {})

    server.put(pod("one"))
    store = TargetStore("node-a")
    pool = CollectorPool(store, lambda layer, seconds: None, lambda tick: None)
    names: Callable[[], list[str]] = lambda: [target.name for target in store.targets]  # noqa: E731
    try:
        pool.apply(with_server())
        await eventually(lambda: names() == [OPERATOR])
        server.fault = 500
        pool.apply(with_server(change))
        assert names() == ([OPERATOR] if kept else ["kubernetes"])
    finally:
        await pool.stop()


async def test_an_exporter_that_is_found_first_thing_is_not_reported_missing(server: FakeApiServer) -> None:
    server.put(pod("exporter"))
    client = ApiClient(access_to(server), limits=())
    discovery = ExporterDiscovery(configured(), client)
    (missing,) = discovery.sources
    reading = asyncio.create_task(missing.read())
    discovery.start()
    try:
        await discovery.settle()
        assert discovery.sources != (missing,)
        assert await asyncio.wait({reading}, timeout=0.5) == (set(), {reading}), "it waits to be replaced"
    finally:
        reading.cancel()
        await discovery.stop()
        await client.close()
