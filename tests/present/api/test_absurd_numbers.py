"""Numbers that JSON or a calendar does not have cost their own value, not the answer."""

from __future__ import annotations

import json
from math import inf, nan

import pytest

from pulsed.json_text import rfc3339, rfc3339_or_none
from pulsed.model.clocks import Unix
from pulsed.model.health import CheckState, Health, XidLast
from pulsed.model.interval import exactly
from pulsed.model.result import RealUtilization, ShownClass
from pulsed.present.api.events import EventBroadcaster
from pulsed.present.api.history import History
from tests.present.api.client import application, ask
from tests.present.boards import COUNTED, SATURATED, SETTLED, gpu, store_of, target, tick

ABSURD = [inf, -inf, nan, 1e300, -1e300, 1e18, -1.0]
PATHS = ("/gpus", "/gpus/0", "/gpus/0/history", "/jobs", "/health/gpus", "/container/metrics")


@pytest.mark.slow
@pytest.mark.parametrize("number", ABSURD)
async def test_no_route_fails(number: float) -> None:
    check = CheckState("xid_critical", "crit", Unix(number), Unix(number), "x", (("xid", number),), "x", True)
    result = SETTLED._replace(
        real_utilization=RealUtilization(exactly(number), number),
        saturation=SATURATED._replace(ratio=exactly(number)),
        shown_class=ShownClass("idle", "idle", Unix(number)),
        counters=COUNTED._replace(values=(number,) * len(COUNTED.values), created=Unix(number)),
        health=Health(
            "crit", number, (check,), (("xid_critical", 3),), ((79, 1),), XidLast(79, Unix(number), "x"), Unix(number)
        ),
        clock_event_shares=(("power_cap", number),),
    )
    store = store_of(target("a", tick([gpu(0, result=result, power_watts=number)], time=number)))
    app = application(store, History(), EventBroadcaster(lambda: "here", max_subscribers=0))
    for path in PATHS:
        status, document, _ = await ask(app, path)
        assert status == 200, path
        json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1767225600.0996, "2026-01-01T00:00:00.100Z"),
        (0.0, "1970-01-01T00:00:00.000Z"),
        (-1.0, "1970-01-01T00:00:00.000Z"),
        (nan, "1970-01-01T00:00:00.000Z"),
        (inf, "9999-12-31T23:59:59.000Z"),
        (1e300, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_times_are_within_the_calendar(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == rfc3339_or_none(seconds) == text
