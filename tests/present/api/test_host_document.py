from __future__ import annotations

import psutil

from pulsed.present.api.routes.daemon import HostUsage
from tests.support.clocks import ManualClock


def test_the_cpu_is_measured_between_requests() -> None:
    clock, percents = ManualClock(0.0), iter((0.0, 50.0, 25.0))
    usage = HostUsage(lambda: next(percents), clock)
    busy = []
    for clock.now in (0.5, 2.0, 2.5, 3.0):
        busy.append(usage.document()["cpu_busy_ratio"])
    assert busy == [None, 0.5, 0.5, 0.25]


def test_the_cpu_of_this_host() -> None:
    clock = ManualClock(0.0)
    usage = HostUsage(clock=clock)
    clock.now = 2.0
    ratio = usage.document()["cpu_busy_ratio"]
    assert ratio is not None
    assert 0.0 <= ratio <= 1.0


def test_the_memory_of_the_host() -> None:
    found = HostUsage().document()
    assert found["memory_bytes"] == psutil.virtual_memory().total
    assert 0 < found["memory_used_bytes"] < found["memory_bytes"]
    assert found["cpu_count"] == psutil.cpu_count()
    assert found["load_average"] >= 0.0
