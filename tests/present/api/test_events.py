"""Server-sent events over real sockets: readers that listen, that do not, and that go."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pulsed.model.clocks import Unix
from pulsed.model.health import HealthChange
from pulsed.model.result import ClassChange
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading
from pulsed.present.api.event_documents import KINDS, Change
from pulsed.present.api.events import EventBroadcaster, TooManySubscribers
from pulsed.present.api.kept_events import MAX_QUEUED_BYTES, Subscriber
from pulsed.server.http_server import Server
from pulsed.server.settings import WebServerSettings
from tests.present.api.client import application
from tests.present.boards import OPEN, TIME, Gpu, busy_gpus, gpu, store_of, tick
from tests.support.daemon import serving
from tests.support.waiting import SECONDS, eventually, until


class Event(NamedTuple):
    """One event as a browser sees it."""

    kind: str
    number: int | None
    document: dict[str, Any]


def parsed(text: str) -> list[Event]:
    """The events in a stream, comments and other fields left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            found.append(Event(fields["event"], number, json.loads(fields["data"])))
    return found


def changed(gpus: Sequence[Gpu], *changes: ClassChange, health: Sequence[HealthChange] = ()) -> Tick:
    return replace(tick(gpus), changes=changes, health_changes=tuple(health))


class Client:
    """A reader of a stream, which takes nothing unless asked to."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        self._socket.setblocking(False)
        self._port = port
        self.head, self._raw, self.text, self.ended = "", b"", "", False

    async def ask(self, path: str = "/events") -> Client:
        """Connect and take the head of the answer."""
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._socket, ("127.0.0.1", self._port))
        await loop.sock_sendall(self._socket, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await self.until(lambda: bool(self.head))
        return self

    async def until(self, what: Callable[[], bool]) -> None:
        """Take what comes until something is true."""
        deadline = time.monotonic() + SECONDS
        while not what():
            assert not self.ended, f"it ended after {self.text[-300:]!r}"
            await self._take(deadline - time.monotonic())

    @property
    def events(self) -> list[Event]:
        return parsed(self.text)

    @property
    def complete(self) -> bool:
        """Whether the answer has its last chunk."""
        return self._raw.startswith(b"0\r\n\r\n")

    def close(self) -> None:
        self._socket.close()

    async def _take(self, seconds: float) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 2**20), seconds)
        self.ended = not data
        self._raw += data
        if not self.head and b"\r\n\r\n" in self._raw:
            head, _, self._raw = self._raw.partition(b"\r\n\r\n")
            self.head = head.decode().lower()
        while self.head and b"\r\n" in self._raw:  # one chunk after the other
            size, _, rest = self._raw.partition(b"\r\n")
            length = int(size, 16)
            if not length or len(rest) < length + 2:
                break
            self.text += rest[:length].decode()
            self._raw = rest[length + 2 :]


class Running:
    """A hub behind the real server."""

    def __init__(self, events: EventBroadcaster) -> None:
        self.events = events
        self._socket = socket.create_server(("127.0.0.1", 0))
        # Little room in the kernel, so that a reader that does not read is soon felt.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        self.port: int = self._socket.getsockname()[1]
        self._server = Server(application(store_of(), events=events), WebServerSettings())
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        self._clients: list[Client] = []

    async def client(self, path: str = "/events") -> Client:
        """A reader who is in."""
        made = Client(self.port)
        self._clients.append(made)
        return await made.ask(path)

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        self._server.stop(signal.SIGTERM)
        await self._task
        self._socket.close()


Start = Callable[[EventBroadcaster], Running]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[Running] = []

    def begin(events: EventBroadcaster) -> Running:
        started.append(Running(events))
        return started[-1]

    yield begin
    for running in started:
        await running.stop()


def hub(**settings: Any) -> EventBroadcaster:
    return EventBroadcaster(lambda: "here", **settings)


async def test_a_subscriber_receives_a_tick(start: Start) -> None:
    running = start(hub())
    client = await running.client()
    assert client.head.startswith("http/1.1 200 ")
    for header in ("content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"):
        assert header in client.head
    reading = Reading(power_watts=700.5, sm_active_ratio=nan, memory_used_bytes=10**400)
    running.events.publish(tick([gpu(0)._replace(reading=reading), gpu(1, result=OPEN)]))
    await client.until(lambda: len(client.events) == 1)
    assert client.text.startswith("retry: 2000\n\n")
    (event,) = client.events
    assert event[:2] == ("tick", 1)
    assert (event.document["time"], event.document["target"]) == ("2026-01-01T00:00:00.100Z", "made")
    first, second = event.document["gpus"]
    assert (first["gpu"], first["uuid"], first["mig_id"], first["node"]) == ("0", "GPU-node1-0000", None, "node1")
    assert (first["workload_class"], first["bottleneck"]) == ("memory_bound", "memory")
    assert (first["real_utilization_ratio"], second["real_utilization_ratio"]) == (0.62, None)
    assert (first["power_watts"], first["sm_active_ratio"], first["memory_used_bytes"]) == (700.5, None, None)
    assert second["real_utilization_upper_ratio"] == 0.9


async def test_a_change_is_an_event_of_its_kind(start: Start) -> None:
    running = start(hub())
    client = await running.client("/events?types=workload_class,health")
    lost = HealthChange("gpu_lost", "ok", "crit", Unix(TIME), "It is gone", "Look for XID 79", gpu(7).device)
    running.events.publish(tick([gpu(0)]))
    running.events.publish(
        changed(
            [gpu(0), gpu(1)],
            ClassChange(gpu(1).device, "idle", "memory_bound", Unix(TIME - 2), "memory"),
            health=[lost],
        )
    )
    running.events.announce(Change("workload_class", gpu(5).device, Unix(TIME), {"before": "a", "after": "b"}))
    await client.until(lambda: len(client.events) == 3)
    workload, health, announced = client.events
    assert workload == (
        "workload_class",
        3,
        {
            "time": "2025-12-31T23:59:58.100Z",
            "gpu": "1",
            "uuid": "GPU-node1-0001",
            "mig_id": None,
            "node": "node1",
            "before": "idle",
            "after": "memory_bound",
            "bottleneck": "memory",
        },
    )
    assert (health.kind, health.number, health.document["gpu"]) == ("health", 4, "7")
    assert {key: health.document[key] for key in ("check", "before", "after", "message", "remedy")} == {
        "check": "gpu_lost",
        "before": "ok",
        "after": "crit",
        "message": "It is gone",
        "remedy": "Look for XID 79",
    }
    assert (announced.number, announced.document["gpu"], announced.document["after"]) == (5, "5", "b")


async def test_one_gpu_only(start: Start) -> None:
    running = start(hub())
    one, every = await running.client("/events?gpu=1"), await running.client()
    running.events.publish(tick([gpu(0)]))
    change = ClassChange(gpu(0).device, "idle", "memory_bound", Unix(TIME))
    running.events.publish(changed([gpu(0), gpu(1)], change, change._replace(device=gpu(1).device)))
    await every.until(lambda: len(every.events) == 4)
    await one.until(lambda: len(one.events) == 2)
    assert [each["gpu"] for each in one.events[0].document["gpus"]] == ["1"]
    assert one.events[1].document["gpu"] == "1"
    assert [event.number for event in one.events] == [2, 4]
    assert [event.number for event in every.events] == [1, 2, 3, 4]


async def test_without_subscribers_no_tick_is_encoded_and_numbers_go_on(start: Start) -> None:
    nodes: list[str] = []
    events = EventBroadcaster(lambda: nodes[0])  # every document needs the node
    for _ in range(3):
        events.publish(tick([gpu(0)]))
    nodes.append("here")
    events.publish(changed([gpu(0)], ClassChange(gpu(0).device, "idle", "memory_bound", Unix(TIME))))
    running = start(events)
    client = await running.client()
    events.publish(tick([gpu(0)]))
    await client.until(lambda: len(client.events) == 1)
    assert client.events[0].number == 6


async def test_a_quiet_stream_has_a_heartbeat(start: Start) -> None:
    running = start(hub(heartbeat=0.02))
    client = await running.client()
    await client.until(lambda: client.text.count(": nothing happened") >= 3)
    assert client.events == []
    running.events.publish(tick([gpu(0)]))
    await client.until(lambda: len(client.events) == 1)


async def test_a_subscriber_that_disconnects_makes_room_for_another(start: Start) -> None:
    running = start(hub(max_subscribers=2))
    first, second = await running.client(), await running.client()
    third = await running.client()
    assert third.head.startswith("http/1.1 503 ")
    assert "retry-after: 2" in third.head
    first.close()
    await eventually(lambda: len(running.events.subscribers) == 1)
    fourth = await running.client()
    assert fourth.head.startswith("http/1.1 200 ")
    running.events.publish(tick([gpu(0)]))
    await second.until(lambda: len(second.events) == 1)
    await fourth.until(lambda: len(fourth.events) == 1)


@pytest.mark.slow
async def test_a_slow_subscriber_delays_no_other(start: Start) -> None:
    """600 ticks of 50 GPUs, some 12 MB: one reader gets all of it, the other what fits, and is told."""
    running = start(hub(patience=20 * SECONDS))  # a slow machine is not cut off
    slow, good = await running.client(), await running.client()
    behind, ahead = running.events.subscribers
    busy = busy_gpus(50, 1)
    plain = tick(busy)
    count, most, most_bytes, got = 0, 0, 0, list[Event]()

    async def read() -> None:
        while len(got) < 606:
            await good.until(lambda: "\n\n" in good.text)
            whole, _, good.text = good.text.rpartition("\n\n")
            got.extend(parsed(whole))

    reading = asyncio.create_task(read())
    for number in range(600):
        change = ClassChange(busy[number % 50].device, "idle", "memory_bound", Unix(TIME))
        running.events.publish(plain if number % 100 else changed(busy, change))
        count += 1
        most, most_bytes = max(most, behind.queued[0]), max(most_bytes, behind.queued[1])
        await eventually(lambda: ahead.queued[0] < 20)  # in step with the one that reads
    await asyncio.wait_for(reading, SECONDS)
    assert [event.number for event in got] == list(range(1, 607))
    assert (ahead.lost_ticks, ahead.lost_changes) == (0, 0)
    assert count == 600
    assert most <= 256
    assert most_bytes <= MAX_QUEUED_BYTES
    assert behind.lost_ticks > 200
    assert behind.lost_changes == 0, "changes go last"

    await slow.until(lambda: bool(slow.events) and slow.events[-1].number == 606)
    (lag,) = [event for event in slow.events if event.kind == "lag"]
    others = [event for event in slow.events if event.kind != "lag"]
    numbers = [event.number for event in others if event.number is not None]
    assert numbers == sorted(set(numbers))
    assert lag == ("lag", None, {"lost": 606 - len(others), "ticks": 606 - len(others), "changes": 0})
    assert sum(event.kind == "workload_class" for event in others) == 6


async def test_a_reader_that_never_reads_is_cut_off(start: Start) -> None:
    running = start(hub(patience=0.05, max_queued=4))
    await running.client()
    made = tick(busy_gpus(50, 1))

    def cut() -> bool:
        running.events.publish(made)
        return not running.events.subscribers

    await eventually(cut)


async def test_closing_ends_every_stream(start: Start) -> None:
    running = start(hub(patience=20 * SECONDS))
    deaf, good = await running.client(), await running.client()
    behind, _ = running.events.subscribers
    made = tick(busy_gpus(50, 1))
    while not behind.lost_ticks:
        seen = len(good.text)
        running.events.publish(made)
        await good.until(lambda: len(good.text) > seen)  # noqa: B023 # it is asked at once
    running.events.close()
    await good.until(lambda: good.complete)
    await eventually(lambda: not running.events.subscribers)
    late = await running.client()
    assert late.head.startswith("http/1.1 503 ")
    deaf.close()


async def test_too_many() -> None:
    events = hub(max_subscribers=1)
    with events.subscribed(), pytest.raises(TooManySubscribers), events.subscribed():
        pass
    with events.subscribed():
        assert len(events.subscribers) == 1
    assert events.subscribers == ()


async def test_no_client_holds_all_streams() -> None:
    events = hub(max_subscribers=3)
    with contextlib.ExitStack() as stack:
        first, second, third = [stack.enter_context(events.subscribed(client="one")) for _ in range(3)]
        with pytest.raises(TooManySubscribers), events.subscribed(client="one"):
            pass
        with events.subscribed(client="two") as other:
            assert third.ended
            assert list(events.subscribers) == [first, second, other]
            with pytest.raises(TooManySubscribers), events.subscribed(client="two"):
                pass
        assert list(events.subscribers) == [first, second]


async def test_the_queue_drops_ticks_first_and_keeps_the_order() -> None:
    events = hub(max_queued=5)
    with events.subscribed() as subscriber:
        assert isinstance(subscriber, Subscriber)
        for number in range(6):
            change = ClassChange(gpu(0).device, "idle", f"class {number}", Unix(TIME))
            events.publish(changed([gpu(0)], change) if number % 2 else tick([gpu(0)]))
        # All changes, and the two youngest of six ticks.
        kinds = [event.kind for event in parsed(subscriber.next_chunk().decode())]
        assert kinds == ["lag", "workload_class", "workload_class", "tick", "tick", "workload_class"]
        assert subscriber.next_chunk() == b""
        for number in range(7):
            events.announce(Change("health", gpu(0).device, Unix(TIME), {"check": None, "number": number}))
        lag, *rest = parsed(subscriber.next_chunk().decode())
        assert lag.document == {"lost": 2, "ticks": 0, "changes": 2}
        assert [event.document["number"] for event in rest] == [2, 3, 4, 5, 6]


async def test_one_event_always_has_room() -> None:
    events = hub()
    with events.subscribed() as subscriber:
        huge = tick(busy_gpus(4000, 1))
        events.publish(huge)
        events.publish(huge)
        lag, event = parsed(subscriber.next_chunk().decode())
        assert lag.document == {"lost": 1, "ticks": 1, "changes": 0}
        assert (event.number, len(event.document["gpus"])) == (2, 4000)
        assert subscriber.queued == (0, 0)


def test_the_kinds() -> None:
    assert KINDS == ("tick", "workload_class", "health", "xid", "removal", "owner", "finding")


@pytest.mark.slow
def test_a_daemon_stops_with_open_event_streams(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--source", "demo", "--set", "source.interval=0.1") as daemon,
        socket.create_connection(("127.0.0.1", daemon.port), SECONDS) as listening,
        socket.create_connection(("127.0.0.1", daemon.port), SECONDS) as deaf,
    ):
        for client in (listening, deaf):
            client.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while received.count(b"event: tick") < 3:
            received += listening.recv(65536)
        assert daemon.stop(signal.SIGTERM) == 0
        while chunk := listening.recv(65536):
            received += chunk
        assert received.endswith(b"0\r\n\r\n")
        assert "level=error" not in daemon.log()


@pytest.mark.slow
def test_a_daemon_keeps_the_configured_fields_and_seconds(tmp_path: Path) -> None:
    overrides = ("--set", "source.interval=0.1", "--set", "history.fields=[power_watts]", "--set", "history.seconds=2s")
    with serving(tmp_path, "--source", "demo", *overrides) as daemon:
        until(lambda: len(daemon.get("/gpus/3/history").json()["time"]) >= 5)
        document = daemon.get("/gpus/3/history").json()
        assert (document["gpu"], document["seconds"], list(document["fields"])) == ("3", 2.0, ["power_watts"])
        assert all(power > 0 for power in document["fields"]["power_watts"])
