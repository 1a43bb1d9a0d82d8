"""The incidents of the last changes, and what needs attention."""

from __future__ import annotations

from typing import Any

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.owner import Ownership, pod
from pulsed.present.api.event_documents import Change
from pulsed.present.api.incident_documents import IncidentLog, attention_documents
from tests.present.boards import OPEN, SETTLED, TIME, Gpu, gpu, mig, store_of, target, tick

NOW = 100.25


def health(of: Gpu, check: str | None, after: str, time: float = TIME, before: str = "ok") -> Change:
    told = {"check": check, "before": before, "after": after, "message": f"{check} is {after}", "remedy": "Mend it."}
    return Change("health", of.device, Unix(time), told)


def xid(of: Gpu, code: int, time: float = TIME) -> Change:
    told: dict[str, Any] = {"code": code, "severity": "crit", "description": "off the bus", "remedy": "restart it"}
    return Change("xid", of.device, Unix(time), told)


def test_what_a_fault_brings_is_one_entry_per_gpu() -> None:
    log = IncidentLog()
    for change in (
        health(gpu(1), "gpu_lost", "crit"),
        health(gpu(1), None, "crit"),
        xid(gpu(1), 79),
        health(gpu(1), "telemetry", "warn", TIME + 10.0),
        health(gpu(2), "temp_gpu", "hot", TIME + 20.0),
        Change("owner", gpu(2).device, Unix(TIME + 30.0), {"change": "begin"}),
        Change("removal", gpu(3).device, Unix(TIME + 40.0), {"reason": "replaced", "message": "It was replaced."}),
        Change(
            "finding",
            gpu(4).device,
            Unix(TIME + 50.0),
            {"finding": "hang", "state": "suspected", "message": "It hangs."},
        ),
    ):
        log.add(change)
    found = log.find(None, 0.0, 10, "here")
    assert [(each["gpu"], each["kind"], each["cause"]) for each in found] == [
        ("4", "finding", "hang"),
        ("3", "removal", "replaced"),
        ("2", "health", "temp_gpu"),
        ("1", "xid", "79"),
    ]
    assert found[-1]["message"] == "XID 79: off the bus"
    assert [each["id"] for each in found[-1]["consequences"]] == ["gpu_lost", "telemetry"]
    assert [each["gpu"] for each in log.find("2", 0.0, 10, "here")] == ["2"]
    assert [each["gpu"] for each in log.find(None, TIME + 30.0, 10, "here")] == ["4", "3"]
    assert len(log.find(None, 0.0, 1, "here")) == 1


def test_it_is_over_when_the_checks_are_ok() -> None:
    log = IncidentLog()
    log.add(health(gpu(1), "temp_gpu", "hot"))
    assert log.find(None, 0.0, 10, "here")[0]["until"] is None
    log.add(health(gpu(1), "temp_gpu", "ok", TIME + 5.0, "hot"))
    assert log.find(None, 0.0, 10, "here")[0]["until"] == "2026-01-01T00:00:05.100Z"


def test_the_oldest_troubles_are_dropped() -> None:
    log = IncidentLog(max_troubles=2)
    for number in range(4):
        log.add(health(gpu(number), "temp_gpu", "hot", TIME + number))
    assert [each["gpu"] for each in log.find(None, 0.0, 10, "here")] == ["3", "2"]


def test_attention_has_the_worst_first_and_sources_that_are_silent() -> None:
    sick = gpu(1)  # SETTLED warns
    silent = target("http://far:9400/metrics", tick([gpu(7, node="far", result=OPEN)]), arrived=0.0)
    silent.fail("scrape_failed", "no answer")
    over = target("a recording", tick([gpu(8, node="past", result=OPEN)]), arrived=0.0)
    over.end("it is over")
    store = store_of(target("near", tick([gpu(0, result=OPEN), sick, mig(1, 3)])), silent, over, target("nothing"))
    found = attention_documents(store, Monotonic(NOW))
    assert [(each["gpu"], each["target"]) for each in found] == [
        (None, "nothing"),
        (None, "http://far:9400/metrics"),
        ("1", "near"),  # warn
    ]
    assert found[2]["state"] == SETTLED.health.state
    assert (found[1]["node"], found[1]["gpus"], found[1]["message"]) == ("far", 1, "no answer")
    assert found[0]["since"] is None


def test_attention_names_the_owners() -> None:
    made = tick([gpu(1)])
    made.gpus[0].ownership = Ownership(owners=(pod("ml", "train-0", "main"),))
    (only,) = attention_documents(store_of(target("a", made)), Monotonic(NOW))
    assert only["owners"] == ["pod:ml/train-0/main"]
