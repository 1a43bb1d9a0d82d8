"""Daemons with a real API server: tenants, restarts, frozen connections, costs."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.daemon import Daemon, serving
from tests.support.exporters import Exporter, exporting
from tests.support.freezing_proxy import FreezingProxy
from tests.support.kubernetes.fake_api_server import pod
from tests.support.kubernetes.gpu_cluster import api_variables, busy
from tests.support.kubernetes.real_api_server import RealApiServer
from tests.support.waiting import until
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page

NODE = "node-0"
FROZEN_SECONDS = 90.0
QUIET_SECONDS = 60.0
QUIET_REQUESTS = 2
"""In that time: 0.03 a second."""


def rows(pods: int, activity: float = 0.3) -> list[Row]:
    """Return a GPU for each of so many pods."""
    return [Row(busy(activity), gpu, NODE, f"job-{gpu}-x", "ml", "main") for gpu in range(pods)]


@contextlib.contextmanager
def exporter(real: RealApiServer, given: Exporter) -> Iterator[None]:
    """Serve a page as the exporter of the node's DaemonSet."""
    with exporting(defaultdict(lambda: given)) as url:
        real.put(pod("exporter", port=urlsplit(url).port or 0, node=NODE))
        yield


def put_job(real: RealApiServer, position: int) -> None:
    """Create a job with a pod on the node."""
    owner = real.put_object("batch/v1", "jobs", f"job-{position}")
    real.put(pod(f"job-{position}-x", node=NODE, namespace="ml", owner=owner, labels={}))


def put_jobs(real: RealApiServer, count: int) -> None:
    """Create jobs."""
    for position in range(count):
        put_job(real, position)


def daemon_of(real: RealApiServer, folder: Path, *more: str) -> contextlib.AbstractContextManager[Daemon]:
    """Run the daemon of the node, as the chart configures it."""
    given = ("source.kind=exporter", "source.interval=1s", "source.exporter.discovery=kubernetes", f"node={NODE}")
    settings = (f"--set={each}" for each in (*given, "attribution.workloads.enabled=true", *more))
    return serving(folder, *settings, ready=True, **api_variables(real))


def jobs(daemon: Daemon) -> int:
    """Return how many jobs have the name of their pods' workload."""
    return len(series(daemon, "pulsed_workload_pods"))


def series(daemon: Daemon, name: str) -> list[float]:
    """Return the values of a metric."""
    found = re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", daemon.get("/metrics").text, re.MULTILINE)
    return [float(each) for each in found]


def is_up(daemon: Daemon) -> bool:
    """Return whether the owners of the Kubernetes API are read."""
    return 'pulsed_attribution_up{source="kubernetes"} 1' in daemon.get("/metrics").text


@pytest.mark.parametrize(("pods", "seconds"), [(8, 3.0), (56, 10.0)])
def test_owners_are_named_soon_after_a_restart(real: RealApiServer, tmp_path: Path, pods: int, seconds: float) -> None:
    """Nothing is kept from before. The fastest of three: this machine may be busy with something else."""
    put_jobs(real, pods)
    took: list[float] = []
    with exporter(real, Exporter(dcgm_page(rows(pods)))):
        while len(took) < 3 and min(took, default=seconds) >= seconds:
            with daemon_of(real, tmp_path) as daemon:
                begun = time.monotonic()
                until(lambda: jobs(daemon) == pods)
                took.append(time.monotonic() - begun)
    assert min(took) < seconds, took


@pytest.mark.slow
def test_a_quiet_node_costs_few_requests(real: RealApiServer, tmp_path: Path) -> None:
    put_jobs(real, 16)
    with exporter(real, Exporter(dcgm_page(rows(16)))), daemon_of(real, tmp_path) as daemon:
        until(lambda: jobs(daemon) == 16)
        before = len(real.requests())
        time.sleep(QUIET_SECONDS)
        assert len(found := real.requests()[before:]) <= QUIET_REQUESTS, found


@pytest.mark.slow
async def test_a_frozen_connection_is_seen_and_replaced(real: RealApiServer, tmp_path: Path) -> None:
    put_jobs(real, 1)
    with contextlib.ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, exporter(real, Exporter(dcgm_page(rows(2)))))
        async with FreezingProxy(urlsplit(real.url).port or 0).running() as proxy:
            server = f"https://127.0.0.1:{proxy.port}"
            begun = daemon_of(real, tmp_path, f"kubernetes.server={server}")
            daemon = await asyncio.to_thread(stack.enter_context, begun)
            await asyncio.to_thread(until, lambda: jobs(daemon) == 1)
            assert is_up(daemon)
            proxy.freeze()
            await asyncio.to_thread(until, lambda: not is_up(daemon), FROZEN_SECONDS)
            assert series(daemon, "pulsed_source_up") == [1.0], "the exporter answers"
            assert jobs(daemon) == 1
            put_job(real, 1)
            proxy.thaw_new()
            await asyncio.to_thread(until, lambda: is_up(daemon) and jobs(daemon) == 2)
            await asyncio.to_thread(stack.close)


def test_the_exporter_of_a_tenant_changes_nothing(real: RealApiServer, tmp_path: Path) -> None:
    put_jobs(real, 1)
    own, tenant = Exporter(dcgm_page(rows(1))), Exporter(dcgm_page(rows(1, activity=0.9)))
    with exporter(real, own), exporting(defaultdict(lambda: tenant)) as url, daemon_of(real, tmp_path) as daemon:
        until(lambda: jobs(daemon) == 1)
        before = series(daemon, "pulsed_gpu_real_utilization_ratio")
        port = urlsplit(url).port or 0
        for namespace in ("ml", "default"):
            real.put(pod("exporter", port=port, node=NODE, namespace=namespace))
        asked = own.asked
        until(lambda: own.asked >= asked + 5)
        assert series(daemon, "pulsed_gpu_real_utilization_ratio") == before
        assert series(daemon, "pulsed_source_up") == [1.0]
    assert tenant.asked == 0
