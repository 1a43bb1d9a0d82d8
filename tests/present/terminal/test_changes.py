"""Which changes are shown, and how many there were."""

from __future__ import annotations

from typing import Any

from pulsed.present.terminal.lists import changes
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import EVENT_HEAD, model, with_documents

HEALTH: dict[str, Any] = {
    "id": 1, "event": "health", "time": "2025-12-31T23:59:58.100Z", **EVENT_HEAD, "check": "hw_slowdown",
    "before": "ok", "after": "warn", "message": "Slow", "remedy": "Look",
}  # fmt: skip
CLASS: dict[str, Any] = {
    "id": 2, "event": "workload_class", "time": "2025-12-31T23:59:59.100Z", **EVENT_HEAD, "before": "idle",
    "after": "memory_bound", "bottleneck": "memory",
}  # fmt: skip
OWNER: dict[str, Any] = {
    "id": 3, "event": "owner", "time": "2025-12-31T23:59:59.500Z", **EVENT_HEAD, "change": "begin",
    "owner": {"kind": "pod", "id": "ml/train-0", "user": "ann"},
}  # fmt: skip


def rows(*events: dict[str, Any], text: str = "") -> list[str]:
    shown = with_documents(model(), events={"changes": events})
    view = ViewState(view="events", filter=text)
    lines = [each.plain.rstrip() for each in changes(shown, view, shown.gpus, 120, 20).lines]
    return [each for each in lines if not each.startswith("TIME")]


def test_health_that_becomes_known_is_no_change() -> None:
    assert rows({**HEALTH, "before": "unknown", "after": "ok"}) == ["last 10 min: no change", "no changes so far"]


def test_a_change_of_a_check_is_not_shown_for_the_gpu_again() -> None:
    first, check, remedy = rows({**HEALTH, "check": None}, HEALTH)
    assert first == "last 10 min: 1 health"
    assert "hw_slowdown ok -> warn: Slow" in check
    assert "What to do: Look" in remedy
    assert "the GPU ok -> warn" in rows({**HEALTH, "check": None})[1]


def test_changes_of_classes_and_owners_are_counted_and_listed_with_a_filter() -> None:
    assert rows(CLASS, HEALTH)[0] == "last 10 min: 1 class, 1 health (/class lists those)"
    assert not any("idle -> memory bound" in row for row in rows(CLASS, HEALTH))
    assert any("idle -> memory bound" in row for row in rows(CLASS, HEALTH, text="class"))


def test_a_start_of_many_owners_does_not_bury_a_crit() -> None:
    begun = [{**OWNER, "id": 10 + number} for number in range(84)]
    first, check, *_ = rows(*begun, CLASS, {**HEALTH, "after": "crit"})
    assert first == "last 10 min: 1 class, 1 health, 84 owner (/class and /owner list those)"
    assert "hw_slowdown ok -> crit" in check
    assert "begin of pod ml/train-0 (ann)" in rows(*begun, HEALTH, text="owner")[1]


def test_the_count_is_of_the_last_minutes() -> None:
    assert rows({**HEALTH, "time": "2025-12-31T23:40:00.100Z"})[0] == "last 10 min: no change"
