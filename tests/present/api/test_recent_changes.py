from __future__ import annotations

from dataclasses import replace
from typing import Any

from pulsed.model.clocks import Unix
from pulsed.model.health import HealthChange, XidEvent
from pulsed.model.result import ClassChange
from pulsed.present.api.event_documents import CHANGE_KINDS, Change
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.kept_events import RecentChanges
from pulsed.present.api.routes.events import RecentChangesShape
from tests.present.api.client import application, ask
from tests.present.boards import TIME, gpu, store_of, tick
from tests.support.documents import has_shape


def change(kind: str, number: int, time: float) -> Change:
    return Change(kind, gpu(number).device, Unix(time), {"after": str(time)})


def test_the_newest_of_each_kind_are_kept() -> None:
    recent = RecentChanges(max_changes=3)
    recent.add(1, change("health", 0, 1.0), "here")
    for number in range(2, 12):
        recent.add(number, change("workload_class", number % 2, float(number)), "here")
    recent.add(12, change("owner", 1, 12.0), "here")

    def ids(gpu: str | None = None, since: float = 0.0, limit: int = 100, *kinds: str) -> list[int]:
        return [each.number for each in recent.find(kinds or CHANGE_KINDS, gpu, since, limit)]

    assert ids() == [12, 11, 10, 9, 1]
    assert ids("1") == [12, 11, 9]
    assert ids("GPU-node1-0000") == [10, 1]
    assert ids(None, 10.0) == [12, 11, 10]
    assert ids(None, 0.0, 2) == [12, 11]
    assert ids(None, 0.0, 9, "health", "owner") == [12, 1]


def test_what_is_kept_has_a_limit_of_bytes_and_holds_no_device() -> None:
    recent = RecentChanges(max_bytes=10_000)
    for number in range(100):
        long = change("owner", 0, 1.0)._replace(document={"owner": f"{number}" + "x" * 2_000})
        recent.add(number, long, "here")
    found = recent.find(["owner"], None, 0.0, 100)
    assert [each.number for each in found] == [99, 98, 97, 96]
    assert sum(len(each.document) for each in found) < 10_000
    recent.add(100, long._replace(document={"owner": "x" * 20_000}), "here")
    assert recent.find(["owner"], None, 0.0, 100) == []


async def get(events: EventBroadcaster, path: str) -> tuple[int, Any]:
    return (await ask(application(store_of(), events=events), path))[:2]


async def test_changes_without_any_subscriber_are_found_with_their_ids() -> None:
    events = EventBroadcaster(lambda: "here")
    gpus = [gpu(0), gpu(1)]
    events.publish(tick(gpus))
    worse = HealthChange("row_remap_pending", "ok", "warn", Unix(TIME), "message", "remedy", gpus[0].device)
    changes = (ClassChange(gpus[1].device, "idle", "memory_bound", Unix(TIME - 2), "memory"),)
    events.publish(replace(tick(gpus), changes=changes, health_changes=(worse,)))
    status, document = await get(events, "/events/recent")
    assert status == 200
    assert has_shape(RecentChangesShape, document)
    health, workload = document["changes"]
    assert (health["id"], health["event"], health["gpu"], health["check"]) == (4, "health", "0", "row_remap_pending")
    assert (health["before"], health["after"], health["remedy"]) == ("ok", "warn", "remedy")
    assert (workload["id"], workload["event"], workload["gpu"]) == (3, "workload_class", "1")
    assert workload["time"] == "2025-12-31T23:59:58.100Z"
    xid = XidEvent(gpus[1].device, 48, "crit", Unix(TIME - 1), 1, 3)
    events.publish(replace(tick(gpus), xids=(xid,)))
    (found,) = (await get(events, "/events/recent?types=xid&gpu=1"))[1]["changes"]
    assert (found["time"], found["code"], found["severity"]) == ("2025-12-31T23:59:59.100Z", 48, "crit")
    assert (found["count"], found["total"]) == (1, 3)
    assert "double-bit" in found["description"]
    assert found["remedy"] == "stop the jobs on this GPU and reset it"
    _, document = await get(events, f"/events/recent?types=workload_class&gpu=1&since={TIME - 3}")
    assert document["changes"] == [workload]
