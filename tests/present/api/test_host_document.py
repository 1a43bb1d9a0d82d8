from __future__ import annotations

import psutil

from pulsed.present.api.host_document import HostUsage
from tests.clocks import ManualClock


def times(clock: ManualClock) -> dict[str, float]:
    """Two CPUs, of which one is busy."""
    return {"user": clock.now, "guest": clock.now / 2, "idle": clock.now * 0.75, "iowait": clock.now * 0.25}


def test_the_cpu_is_measured_between_requests() -> None:
    clock = ManualClock(0.0)
    usage = HostUsage(lambda: times(clock), clock)
    busy = []
    for clock.now in (0.5, 2.0, 2.5):
        busy.append(usage.document()["cpu_busy_ratio"])
    assert busy == [None, 0.5, 0.5]


def test_the_memory_of_the_host() -> None:
    found = HostUsage().document()
    assert found["memory_bytes"] == psutil.virtual_memory().total
    assert 0 < found["memory_used_bytes"] < found["memory_bytes"]
    assert found["cpu_count"] == psutil.cpu_count()
    assert found["load_average"] >= 0.0
