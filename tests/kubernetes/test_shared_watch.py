"""Readers of one list have one watch, whatever they read of its objects and whenever they begin and end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pulsed.kubernetes.api_client import ApiClient, JsonObject
from pulsed.kubernetes.objects import labels_of, pod_metadata
from pulsed.kubernetes.shared_watch import WatchReader
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod
from tests.support.waiting import eventually

NODE = {"fieldSelector": "spec.nodeName=node-a"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    fake = FakeApiServer(tmp_path)
    fake.put(pod("web", labels={"app": "web"}))
    fake.put(pod("db", labels={"app": "db"}))
    with fake.running() as url:
        fake.url = url
        yield fake


@pytest.fixture
async def client(server: FakeApiServer) -> AsyncIterator[ApiClient]:
    made = ApiClient(access_to(server), limits=())
    yield made
    await made.close()


def name(item: JsonObject) -> str:
    return pod_metadata(item, lambda label: True).name


def web(item: JsonObject) -> str | None:
    return name(item) if labels_of(item)["app"] == "web" else None


@contextlib.asynccontextmanager
async def reading(reader: WatchReader[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def requests(server: FakeApiServer) -> list[str]:
    return ["watch" if "watch" in request.query else "list" for request in server.requests]


async def test_readers_share_a_watch_and_keep_what_they_read(server: FakeApiServer, client: ApiClient) -> None:
    changes: list[str] = []
    every = WatchReader(client, "/api/v1/pods", NODE, name, lambda: changes.append("every"))
    some = WatchReader(client, "/api/v1/pods", NODE, web, lambda: changes.append("some"))
    assert (every.is_listed, dict(every.objects), every.error) == (False, {}, "")
    async with reading(every), reading(some):
        await eventually(lambda: requests(server) == ["list", "watch"] and {"every", "some"} == set(changes))
        assert sorted(every.objects.values()) == ["db", "web"]
        assert dict(some.objects) == {("gpu-operator", "web"): "web"}
        assert (len(some.objects), some.objects.get(("gpu-operator", "db"))) == (1, None)
        server.put(pod("web-2", labels={"app": "web"}))
        await eventually(lambda: len(every.objects) == 3 and len(some.objects) == 2)
        assert requests(server) == ["list", "watch"]


async def test_a_reader_that_begins_later_gets_all_and_one_that_ends_takes_nothing(
    server: FakeApiServer, client: ApiClient
) -> None:
    every, some = (WatchReader(client, "/api/v1/pods", NODE, read) for read in (name, web))
    async with reading(every):
        await eventually(lambda: len(every.objects) == 2 and requests(server)[-1] == "watch")
        async with reading(some):
            await eventually(lambda: len(some.objects) == 1 and len(every.objects) == 2)
        server.delete("db")
        await eventually(lambda: list(every.objects.values()) == ["web"])
        await eventually(lambda: requests(server) == ["list", "watch"] * 2)
    again = WatchReader(client, "/api/v1/pods", NODE, web)
    async with reading(again):
        await eventually(lambda: list(again.objects.values()) == ["web"])
        await eventually(lambda: requests(server) == ["list", "watch"] * 3)


async def test_the_error_of_the_watch_is_that_of_all(server: FakeApiServer, client: ApiClient) -> None:
    server.denied = True
    readers = [WatchReader(client, "/api/v1/pods", NODE, read) for read in (name, web)]
    async with reading(readers[0]), reading(readers[1]):
        await eventually(lambda: all("403 Forbidden" in reader.error for reader in readers))
        assert all(reader.is_denied and not reader.is_listed for reader in readers)
