"""The Kubernetes client against a server with TLS, tokens and faults: what was read stays, requests stay few."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pulsed.errors import ConfigError
from pulsed.kubernetes import api_client, resource_watch
from pulsed.kubernetes.api_client import REQUEST_LIMITS, ApiClient, RateLimit, server_of_pod
from pulsed.kubernetes.objects import JsonObject, labels_of
from pulsed.kubernetes.resource_watch import ResourceWatch
from tests.support.clocks import ManualClock
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod
from tests.support.waiting import eventually

QUERY = {"labelSelector": "app=nvidia-dcgm-exporter", "fieldSelector": "spec.nodeName=node-a"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    fake = FakeApiServer(tmp_path)
    with fake.running() as fake.url:
        yield fake


def address(item: JsonObject) -> str:
    status = item["status"]
    assert isinstance(status, dict)
    return str(status.get("podIP", ""))


@asynccontextmanager
async def watching(
    server: FakeApiServer,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    path: str = "/api/v1/pods",
    *,
    is_paged: bool = False,
    limits: Sequence[RateLimit] | None = None,
    query: Mapping[str, str] = QUERY,
    read: Callable[[JsonObject], str | None] = address,
) -> AsyncIterator[ResourceWatch[str]]:
    client = ApiClient(access_to(server), timeout=2, limits=limits, sleep=sleep)
    watch = ResourceWatch(client, path, query, read, sleep=sleep, is_paged=is_paged)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.close()


async def hurried(seconds: float) -> None:
    """Wait a hundredth of what was asked for."""
    await asyncio.sleep(seconds / 100)


def names(watch: ResourceWatch[str]) -> set[str]:
    return {name for _, name in watch.objects}


async def test_pods_come_and_go(server: FakeApiServer) -> None:
    server.put(pod("one"))
    server.put(pod("elsewhere", node="node-b"))
    server.put(pod("other", labels={"app": "web"}))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        server.put(pod("two", "10.0.0.2"))
        await eventually(lambda: names(watch) == {"one", "two"})
        server.put(pod("two", "10.0.0.3"))
        await eventually(lambda: watch.objects["gpu-operator", "two"] == "10.0.0.3")
        server.put(pod("one", labels={}))
        await eventually(lambda: names(watch) == {"two"})
        server.delete("two")
        await eventually(lambda: names(watch) == set())
        assert watch.error == ""
    assert {request.query["fieldSelector"] for request in server.requests} == {"spec.nodeName=node-a"}


def address_of_web(item: JsonObject) -> str | None:
    return address(item) if labels_of(item).get("app") == "web" else None


async def test_objects_that_are_read_as_none_are_not_kept(server: FakeApiServer) -> None:
    server.put(pod("web", labels={"app": "web"}))
    server.put(pod("db", labels={"app": "db"}))
    async with watching(server, query={}, read=address_of_web) as watch:
        await eventually(lambda: names(watch) == {"web"})
        server.put(pod("db", labels={"app": "web"}))
        await eventually(lambda: names(watch) == {"web", "db"})
        server.put(pod("web", labels={"app": "db"}))
        await eventually(lambda: names(watch) == {"db"})


async def test_a_list_of_several_pages_is_complete(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "PAGE_OBJECTS", 3)

    for number in range(8):
        server.put(pod(f"p{number}"))
    async with watching(server, hurried, is_paged=True) as watch:
        await eventually(lambda: len(watch.objects) == 8)
    lists = [request.query for request in server.requests if "watch" not in request.query]
    assert [query.get("limit") for query in lists] == ["3", "3", "3"]
    assert not [query for query in lists if "resourceVersion" in query], "a list from memory has no pages"


async def test_an_internal_error_is_shown_and_the_objects_are_listed_again(server: FakeApiServer) -> None:
    server.put(pod("one"))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        server.put({**pod("two"), "status": "not an object"})  # `address` cannot read it
        await eventually(lambda: watch.error == "internal error")
        assert "one" in names(watch)
        server.put(pod("two", "10.0.0.2"))
        await eventually(lambda: watch.objects.get(("gpu-operator", "two")) == "10.0.0.2" and not watch.error)


@pytest.mark.parametrize("fault", [401, 403, 429, 500])
async def test_what_was_read_stays_while_the_api_server_refuses(server: FakeApiServer, fault: int) -> None:
    server.put(pod("one"))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        server.fault = fault
        server.cut()
        await eventually(lambda: str(fault) in watch.error)
        assert names(watch) == {"one"}
        server.put(pod("two"))
        server.fault = 0
        await eventually(lambda: names(watch) == {"one", "two"} and not watch.error)
        assert watch.restarts > 0


async def test_a_first_list_that_is_forbidden_has_a_remedy(server: FakeApiServer) -> None:
    server.denied = True
    async with watching(server, hurried) as watch:
        await eventually(lambda: "403" in watch.error)
        assert "get, list and watch of pods" in watch.error
        assert 'User "reader" cannot list resource "pods"' in watch.error
        assert not watch.is_listed
        server.denied = False
        await eventually(lambda: watch.is_listed and not watch.error)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"kind": "Status", "message": "no \x1b quota\n" + 500 * "x"}, "for /api/v1/pods: no ? quota?xxx"),
        ({"kind": "Status", "message": 7}, "for /api/v1/pods."),
        ([], "for /api/v1/pods."),
        ("nonsense", "for /api/v1/pods."),
    ],
)
async def test_the_message_of_a_refusal_is_in_the_error(server: FakeApiServer, document: object, reason: str) -> None:
    server.fault, server.fault_document = 400, document
    async with watching(server, hurried) as watch:
        await eventually(lambda: reason in watch.error)
        assert len(watch.error) < 600


async def test_a_slow_api_server_fails_by_name_and_loses_nothing(server: FakeApiServer) -> None:
    server.put(pod("one"))
    server.delay = 3
    async with watching(server, hurried) as watch:
        await eventually(lambda: "did not answer in 2 s" in watch.error)
        server.delay = 0
        await eventually(lambda: names(watch) == {"one"})


async def test_a_cut_watch_continues_without_a_list(server: FakeApiServer) -> None:
    server.put(pod("one"))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        for name in ("two", "three"):
            await eventually(lambda: server.requests[-1].query.get("watch") == "true")
            server.cut()
            server.put(pod(name))
            await eventually(lambda name=name: name in names(watch))  # type: ignore[misc]
    watches = [request for request in server.requests if "watch" in request.query]
    assert len(watches) > 1
    assert len(server.requests) - len(watches) == 1


async def test_an_expired_version_is_listed_again(server: FakeApiServer) -> None:
    server.put(pod("one"))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        with server.changed:
            del server.pods["gpu-operator", "one"]
        server.compact()
        await eventually(lambda: names(watch) == set())
    lists = [request.query for request in server.requests if "watch" not in request.query]
    assert [query.get("resourceVersion") for query in lists] == ["0", None], "from memory, then consistent"


async def test_a_version_that_the_server_has_not_reached_is_listed_again(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch from there gets nothing, bookmarks neither."""
    monkeypatch.setattr(resource_watch, "WATCH_SECONDS", 1)
    server.put(pod("one"))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        server.restore()
        server.put(pod("two"))
        await eventually(lambda: names(watch) == {"two"})


async def test_quiet_watches_follow_each_other_without_growing_pauses(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "WATCH_SECONDS", 1)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await hurried(seconds)

    async with watching(server, sleep, limits=()) as watch:
        await eventually(lambda: len(server.requests) >= 8)
        assert watch.restarts == 0
    assert max(waited) <= 1.0


async def test_a_renewed_token_is_used_by_the_next_request(server: FakeApiServer) -> None:
    server.put(pod("one"))
    async with watching(server, hurried) as watch:
        await eventually(lambda: names(watch) == {"one"})
        server.rotate("second")
        server.put(pod("two"))
        await eventually(lambda: names(watch) == {"one", "two"})
    assert {request.token for request in server.requests} == {"first", "second"}


@pytest.mark.slow
async def test_churning_pods_cost_no_requests(server: FakeApiServer) -> None:
    """50 changes a second, watches cut and lists expired meanwhile: a list, a watch, and not one a second."""

    stop = threading.Event()

    def churn() -> None:
        for number in range(10**6):
            if stop.wait(0.02):
                return
            server.put(pod(f"p{number}"))
            if number >= 3:
                server.delete(f"p{number - 3}")
            if number % 100 == 50:
                server.cut()
            if number % 200 == 120:
                server.compact()

    thread = threading.Thread(target=churn)
    begun = time.monotonic()
    async with watching(server) as watch:
        thread.start()
        await eventually(lambda: server.version > 900)
        stop.set()
        thread.join()
        await eventually(lambda: names(watch) == {name for _, name in server.pods})
        assert len(server.requests) <= 2 + time.monotonic() - begun


async def test_requests_stay_apart_while_everything_fails(server: FakeApiServer) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await hurried(seconds)

    server.fault = 500
    async with watching(server, sleep):
        await eventually(lambda: len(server.requests) > 8)
    assert max(waited) > 30, "up to a minute"
    assert sum(waited) >= len(server.requests) - 1


@pytest.mark.slow
async def test_the_rate_of_requests_has_a_short_and_a_long_limit(server: FakeApiServer) -> None:
    server.put(pod("one"))
    clock = ManualClock()
    begun, moments = clock.now, list[float]()

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    client = ApiClient(access_to(server), clock=clock, sleep=sleep)
    for _ in range(90):
        await client.get("/api/v1/namespaces/gpu-operator/pods/one")
        moments.append(clock.now - begun)
    await client.close()
    (burst, seconds), (most, long_seconds) = REQUEST_LIMITS
    assert moments[burst - 1] == pytest.approx(0.0, abs=1e-6)
    assert moments[55] == pytest.approx((56 - burst) * seconds)
    assert moments[-1] == pytest.approx((90 - most) * long_seconds)


async def test_another_authority_is_refused(server: FakeApiServer, tmp_path: Path) -> None:
    server.ca_file = tmp_path / "other.crt"
    async with watching(server, hurried) as watch:
        await eventually(lambda: "certificate that is not trusted" in watch.error)
    assert server.requests == []


@pytest.mark.parametrize("content", [None, "", "two words"])
async def test_a_bad_token_file_is_named_and_nothing_is_sent(
    server: FakeApiServer, tmp_path: Path, content: str | None
) -> None:
    server.token_file = tmp_path / "other-token"
    if content is not None:
        server.token_file.write_text(content)
    async with watching(server, hurried) as watch:
        await eventually(lambda: f"token file {server.token_file}" in watch.error)
        assert "automountServiceAccountToken" in watch.error
    assert server.requests == []


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, "https://10.96.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT_HTTPS": "6443"}, "https://[fd00::1]:6443"),
    ],
)
def test_the_api_server_of_a_pod(environment: dict[str, str], url: str) -> None:
    assert server_of_pod(environment) == url


def test_outside_of_a_pod_there_is_a_remedy() -> None:
    with pytest.raises(ConfigError, match=r"KUBERNETES_SERVICE_HOST is not set.*kubernetes\.server"):
        server_of_pod({})
