"""What a fault brings within a minute is one incident."""

from __future__ import annotations

from pulsed.model.clocks import Unix
from pulsed.model.health import CheckState
from pulsed.owners.report.incidents import (
    Trouble,
    Troubles,
    account_incidents,
    current_incidents,
    incident_numbers,
    incidents_of,
)


def trouble(id: str, since: float, state: str = "warn", **given: object) -> Trouble:
    kind = "xid" if id.isdecimal() else "health"
    return Trouble(kind, id, state, since, f"message of {id}", **given)  # type: ignore[arg-type]


def test_an_xid_is_the_cause_of_what_follows_within_a_minute() -> None:
    found = incidents_of(
        [
            trouble("gpu_lost", 100.0, "crit"),
            trouble("79", 100.0, "crit", until=100.0, remedy="restart it"),
            trouble("xid_critical", 101.0, "crit", remedy="Drain the node, then restart it."),
            trouble("telemetry", 110.0),
            trouble("temp_gpu", 170.0),
        ]
    )
    assert [incident.cause.id for incident in found] == ["79", "temp_gpu"]
    first = found[0]
    assert [each.id for each in first.consequences] == ["gpu_lost", "telemetry"]
    assert first.cause.remedy == "Drain the node, then restart it."
    assert (first.state, first.since, first.until) == ("crit", 100.0, None)


def test_a_symptom_is_a_cause_only_alone() -> None:
    (alone,) = incidents_of([trouble("telemetry", 5.0)])
    assert alone.cause.id == "telemetry"
    (both,) = incidents_of([trouble("telemetry", 5.0, "crit"), trouble("thermal_hw", 6.0)])
    assert both.cause.id == "thermal_hw"


def test_an_incident_is_over_when_all_of_it_is() -> None:
    (incident,) = incidents_of([trouble("temp_gpu", 0.0, until=50.0), trouble("thermal_sw", 10.0, until=80.0)])
    assert incident.until == 80.0
    assert incident_numbers(incident)["until"] == "1970-01-01T00:01:20.000Z"


def test_what_returns_soon_is_the_same_trouble() -> None:
    troubles = Troubles()
    for time, state in ((0.0, "warn"), (30.0, "ok"), (200.0, "hot"), (230.0, "ok"), (2000.0, "warn")):
        troubles.add_state("health", "temp_gpu", time, state, state, "")  # type: ignore[arg-type]
    first, second = troubles
    assert (first.since, first.until, first.times, first.state) == (0.0, 230.0, 2, "hot")
    assert (second.since, second.until, second.times) == (2000.0, None, 1)


def test_a_check_that_becomes_unknown_lasts() -> None:
    troubles = Troubles()
    troubles.add_state("health", "temp_gpu", Unix(0.0), "hot", "", "")
    troubles.add_state("health", "temp_gpu", Unix(5.0), "unknown", "", "")
    assert [each.until for each in troubles] == [None]


def test_raised_checks_are_incidents_the_worst_first() -> None:
    checks = (
        CheckState("temp_gpu", "warn", Unix(10.0), message="warm"),
        CheckState("gpu_lost", "crit", Unix(500.0), message="The GPU does not answer"),
        CheckState("xid_critical", "crit", Unix(500.0), message="An XID that needs a reset: XID 79, fell off the bus"),
        CheckState("telemetry", "unknown"),
        CheckState("thermal_hw", "hot", Unix(500.0), applies=False),
    )
    worst, other = current_incidents(checks)
    assert (worst.cause.id, worst.cause.message) == ("xid_critical", "XID 79, fell off the bus")
    assert [each.id for each in worst.consequences] == ["gpu_lost"]
    assert other.cause.id == "temp_gpu"


def test_the_incidents_of_an_owner_are_those_of_its_gpus() -> None:
    def event(time: str, check: str | None, before: str, after: str) -> dict[str, object]:
        return {"time": time, "check": check, "before": before, "after": after, "message": check or "", "remedy": ""}

    gpus = [
        {
            "node": "n", "gpu": gpu, "uuid": None, "mig_id": None,
            "events": [
                event(f"2026-01-01T00:0{gpu}:00Z", None, "ok", "crit"),
                event(f"2026-01-01T00:0{gpu}:00Z", "ecc_uncorrectable", "ok", "crit"),
                event(f"2026-01-01T00:0{gpu}:20Z", "hang", "ok", "suspected"),
                event(f"2026-01-01T00:0{gpu}:50Z", "hang", "suspected", "ok"),
            ],
        }
        for gpu in ("1", "2")
    ]  # fmt: skip
    found = account_incidents(gpus)
    assert [(each["gpu"], each["cause"]) for each in found] == [("2", "ecc_uncorrectable"), ("1", "ecc_uncorrectable")]
    assert [each["id"] for each in found[0]["consequences"]] == ["hang"]
