"""Which incidents and changes are shown, and how many there were."""

from __future__ import annotations

from typing import Any

from pulsed.present.terminal.lists import events
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import EVENT_HEAD, INCIDENTS, model, with_documents

_, HEALTH, _ = INCIDENTS
CLASS: dict[str, Any] = {
    "id": 2, "event": "workload_class", "time": "2025-12-31T23:59:59.100Z", **EVENT_HEAD, "before": "idle",
    "after": "memory_bound", "bottleneck": "memory",
}  # fmt: skip
OWNER: dict[str, Any] = {
    "id": 3, "event": "owner", "time": "2025-12-31T23:59:59.500Z", **EVENT_HEAD, "change": "begin",
    "owner": {"kind": "pod", "id": "ml/train-0", "user": "ann"},
}  # fmt: skip


def rows(*changes: dict[str, Any], incidents: list[dict[str, Any]] | None = None, text: str = "") -> list[str]:
    shown = with_documents(model(), events={"changes": changes}, incidents={"incidents": incidents or []})
    view = ViewState(view="events", filter=text)
    lines = [each.plain.rstrip() for each in events(shown, view, shown.gpus, 120, 20).lines]
    return [each for each in lines if not each.startswith("TIME")]


def test_without_changes_there_is_a_note() -> None:
    assert rows() == ["last 10 min: no change", "no changes so far"]
    assert rows(text="nothing")[1] == "no change has this text"


def test_an_incident_has_its_state_and_remedy_and_its_end() -> None:
    first, check, remedy = rows(incidents=[HEALTH])
    assert first == "last 10 min: 1 health"
    assert "row_remap_pending warn: A memory repair waits for a reset" in check
    assert "What to do: Reset the GPU" in remedy
    assert "until" in rows(incidents=[{**HEALTH, "until": "2025-12-31T23:59:59.000Z"}])[1]


def test_changes_of_classes_and_owners_are_counted_and_listed_with_a_filter() -> None:
    assert rows(CLASS, incidents=[HEALTH])[0] == "last 10 min: 1 class, 1 health (/class lists those)"
    assert not any("idle -> memory bound" in row for row in rows(CLASS, incidents=[HEALTH]))
    assert any("idle -> memory bound" in row for row in rows(CLASS, incidents=[HEALTH], text="class"))


def test_a_start_of_many_owners_does_not_bury_a_crit() -> None:
    begun = [{**OWNER, "id": 10 + number} for number in range(84)]
    crit = {**HEALTH, "state": "crit"}
    first, check, *_ = rows(*begun, CLASS, incidents=[crit])
    assert first == "last 10 min: 1 class, 1 health, 84 owner (/class and /owner list those)"
    assert "row_remap_pending crit" in check
    assert "begin of pod ml/train-0 (ann)" in rows(*begun, incidents=[crit], text="owner")[1]


def test_the_count_is_of_the_last_minutes() -> None:
    assert rows(incidents=[{**HEALTH, "since": "2025-12-31T23:40:00.100Z"}])[0] == "last 10 min: no change"
