"""Columns of the state of all GPUs: read once, and as what has changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest

from pulsed.model.clocks import Monotonic
from pulsed.model.health import CheckState, Health
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.gpu_columns import SUMMARY_FIELDS, ColumnReader, GpuColumnsShape
from tests.present.api.client import application, ask
from tests.present.api.test_events import parsed
from tests.present.boards import SETTLED, TIME, Gpu, gpu, mig, store_of, target, tick
from tests.support.daemon import serving
from tests.support.documents import has_shape
from tests.support.waiting import eventually

NOW = 100.5
FIELDS = ("real_utilization_ratio", "power_watts", "workload_class", "health_state")


def store(*targets: Sequence[Gpu]) -> TargetStore:
    made = store_of()
    made.targets += [target(f"target {number}", tick(gpus)) for number, gpus in enumerate(targets)]
    return made


async def get(made: TargetStore, path: str) -> tuple[int, Any]:
    return (await ask(application(made), path))[:2]


class Client:
    """The state that a client has after the events it got."""

    def __init__(self, reader: ColumnReader) -> None:
        self._reader = reader
        self.roster: dict[str, Any] = {}
        self.rows: dict[int, dict[str, Any]] = {}

    def take(self, now: float = NOW) -> list[str]:
        """Read the next events; return their kinds."""
        kinds = []
        for event in parsed(self._reader.read(Monotonic(now), TIME).decode()):
            kinds.append(event.kind)
            self._apply(event.kind, event.document)
        return kinds

    def _apply(self, kind: str, document: dict[str, Any]) -> None:
        if kind == "roster":
            self.roster, self.rows = document, {}
            return
        assert document["roster"] == self.roster["roster"]
        others = ("stale", "sample_time", "known_checks", "applicable_checks")
        columns = {**document["fields"], **{name: document[name] for name in others}}
        assert {len(column) for column in columns.values()} == {len(document["at"])}
        for number, position in enumerate(document["at"]):
            self.rows[position] = {name: column[number] for name, column in columns.items()}


async def test_a_summary_has_the_values_of_the_documents() -> None:
    made = store([gpu(0, power_watts=700.123456), gpu(1, power_watts=inf), mig(2, 7)], [gpu(0, "node2")])
    status, document = await get(made, "/gpus?view=summary")
    assert status == 200
    assert has_shape(GpuColumnsShape, document)
    _, full = await get(made, "/gpus")
    assert document["sources"] == full["sources"]
    assert list(document["fields"]) == list(SUMMARY_FIELDS)
    assert document["gpus"]["uuid"] == [each["uuid"] for each in full["gpus"]]
    assert document["gpus"]["mig_id"] == [None, None, "7", None]
    assert document["stale"] == [each["stale"] for each in full["gpus"]]
    for position, each in enumerate(full["gpus"]):
        row = {name: column[position] for name, column in document["fields"].items()}
        assert row["real_utilization_ratio"] == each["real_utilization"]["ratio"]
        assert row["workload_class"] == each["workload"]["class"]
        assert row["health_state"] == each["health"]["state"]
        assert row["power_watts"] == each["metrics"]["power_watts"]
        assert row["limiting_resource"] == each["saturation"]["limiting_resource"]


async def test_how_many_checks_are_known_is_in_the_summary_and_in_the_stream() -> None:
    checks = (
        *(CheckState("temp_gpu", "ok"), CheckState("xid", "ok"), CheckState("imex", "unknown")),
        CheckState("fabric_link", "unknown", applies=False),
    )
    boards = [gpu(at, result=SETTLED._replace(health=Health("ok", 0.5, checks[at:]))) for at in (0, 1)]
    now = time.monotonic()
    made = store_of(target("now", tick(boards), arrived=now))
    _, document = await get(made, "/gpus?view=summary&fields=health_state")
    expected = [[2, 1], [3, 2]]
    assert [document["known_checks"], document["applicable_checks"]] == expected
    client = Client(ColumnReader(made, ["health_state"]))
    client.take(now)
    assert [[client.rows[at][name] for at in (0, 1)] for name in ("known_checks", "applicable_checks")] == expected
    _, rows = await get(made, "/health/gpus")
    assert [[row[name] for row in rows] for name in ("known_checks", "applicable_checks")] == expected


async def test_a_thousand_gpus() -> None:
    made = store(*[[gpu(number, f"node{node}") for number in range(8)] for node in range(125)])
    status, document = await get(made, "/gpus?view=summary&fields=workload_class")
    assert (status, document["fields"]) == (200, {"workload_class": ["memory_bound"] * 1000})
    client = Client(ColumnReader(made, ["workload_class"]))
    assert client.take() == ["roster", "columns"]
    assert sorted(client.rows) == list(range(1000))
    assert client.roster["gpus"] == document["gpus"]
    assert client.roster["roster"] == document["roster"]


def test_only_targets_with_a_new_tick_are_sent() -> None:
    made = store([gpu(0, power_watts=1.0)], [gpu(0, "node2", power_watts=2.0), gpu(1, "node2")])
    client = Client(ColumnReader(made, FIELDS))
    assert client.take() == ["roster", "columns"]
    assert client.roster["gpus"]["node"] == ["node1", "node2", "node2"]
    assert client.rows[1] == {
        "real_utilization_ratio": 0.62,
        "power_watts": 2.0,
        "workload_class": "memory_bound",
        "health_state": "warn",
        "stale": False,
        "sample_time": TIME,
        "known_checks": 2,
        "applicable_checks": 3,
    }
    assert client.take() == []
    accept(made.targets[1], [gpu(0, "node2", power_watts=3.0), gpu(1, "node2")])
    client.rows.clear()
    assert client.take() == ["columns"]
    assert {position: row["power_watts"] for position, row in client.rows.items()} == {1: 3.0, 2: None}


def accept(one: Target, gpus: Sequence[Gpu], arrived: float = NOW) -> None:
    """Another tick of a target."""
    one.accept(tick(gpus, TIME + 1), Monotonic(arrived))


def test_gpus_that_come_and_go_are_another_roster() -> None:
    made = store([gpu(0)], [gpu(0, "node2")])
    client = Client(ColumnReader(made, FIELDS))
    client.take()
    before = client.roster["roster"]
    accept(made.targets[0], [gpu(0), gpu(1)])
    assert client.take() == ["roster", "columns"]
    assert client.roster["roster"] != before
    assert (len(client.rows), client.roster["gpus"]["gpu"]) == (3, ["0", "1", "0"])
    accept(made.targets[0], [gpu(0)])
    assert client.take() == ["roster", "columns"]
    assert (len(client.rows), client.roster["roster"]) == (2, before)
    made.replace([])
    assert client.take() == ["roster"]
    assert client.roster["gpus"]["gpu"] == []


def test_a_gpu_that_goes_stale_is_sent_with_the_health_that_needs_no_inputs() -> None:
    made = store([gpu(0)])
    client = Client(ColumnReader(made, FIELDS))
    client.take()
    stale = 100.0 + made.targets[0].stale_after + 0.1
    assert client.take(stale) == ["columns"]
    assert client.rows[0]["stale"] is True
    assert client.take(1000.0) == []
    assert (client.rows[0]["stale"], client.rows[0]["health_state"]) == (True, "warn")
    accept(made.targets[0], [gpu(0)], 1000.0)
    client.take(1000.0)
    assert (client.rows[0]["stale"], client.rows[0]["health_state"]) == (False, "warn")


def test_a_gpu_of_two_targets_is_taken_from_the_fresh_one() -> None:
    made = store([gpu(0, power_watts=1.0), gpu(1)], [gpu(0, power_watts=2.0)])
    client = Client(ColumnReader(made, ("power_watts",)))
    client.take()
    assert [client.rows[position]["power_watts"] for position in (0, 1)] == [1.0, None]
    stale = 100.0 + made.targets[0].stale_after + 0.1
    accept(made.targets[1], [gpu(0, power_watts=3.0)], stale)
    client.take(stale)
    index = client.roster["gpus"]["gpu"].index("0")
    assert (len(client.rows), client.rows[index]["power_watts"], client.rows[index]["stale"]) == (2, 3.0, False)


def test_one_gpu() -> None:
    client = Client(ColumnReader(store([gpu(0), gpu(1), mig(2, 7)]), FIELDS, "2:7"))
    client.take()
    assert (client.roster["gpus"]["mig_id"], list(client.rows)) == (["7"], [0])
    absent = Client(ColumnReader(store([gpu(0)]), FIELDS, "9"))
    assert absent.take() == ["roster"]
    assert absent.take() == []


class Stream:
    """A client's side of a stream that is served without a network."""

    def __init__(self, events: EventBroadcaster, reader: ColumnReader, *, stuck: bool = False) -> None:
        self.text, self.ended = "", False
        self._stuck = stuck
        self._events, self._reader = events, reader

    async def run(self) -> None:
        async def send(message: Any) -> None:
            self.text += message["body"].decode()
            self.ended = not message["more_body"]
            if self._stuck:
                await asyncio.Event().wait()

        async def receive() -> Any:
            await asyncio.Event().wait()

        with self._events.subscribed((), None) as subscriber:
            await self._events.serve(subscriber, receive, send, self._reader)


async def test_heartbeat_and_end() -> None:
    events = EventBroadcaster(lambda: "here", heartbeat=0.01)
    stream = Stream(events, ColumnReader(store([gpu(0)]), FIELDS, interval=0.001))
    running = asyncio.create_task(stream.run())
    await eventually(lambda: stream.text.count(": nothing") >= 2)
    assert [event.kind for event in parsed(stream.text)] == ["roster", "columns"]
    events.close()
    await running
    assert stream.ended


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    events = EventBroadcaster(lambda: "here", patience=0.01)
    stream = Stream(events, ColumnReader(store([gpu(0)]), FIELDS), stuck=True)
    await stream.run()
    assert events.subscribers == ()


@pytest.mark.slow
def test_over_a_real_daemon(tmp_path: Path) -> None:
    with serving(tmp_path, "--source", "demo", "--set", "source.interval=100ms") as daemon:
        with httpx.stream(
            "GET", f"http://{daemon.address}/events?format=columns&fields=power_watts&max_rate=10", timeout=30
        ) as answer:
            text = ""
            for part in answer.iter_text():
                text += part
                if len([event for event in parsed(text) if event.kind == "columns"]) >= 3:
                    break
        found = [event for event in parsed(text) if event.kind in ("roster", "columns")]
        assert [event.kind for event in found[:2]] == ["roster", "columns"]
        summary = daemon.get("/gpus?view=summary&fields=power_watts").json()
        assert {event.document["roster"] for event in found} == {summary["roster"]}
        assert found[0].document["gpus"] == summary["gpus"]
        assert all(event.document["at"] == list(range(8)) for event in found[1:])
        assert list(found[1].document["fields"]) == ["power_watts"]
        for query in ("max_rate=0", "max_rate=11", "fields=x", "format=csv"):
            assert "error" in json.loads(daemon.get(f"/events?format=columns&{query}").body)
