"""An adapter with the limit of the chart's memory: hostile clients before any login, and a hostile pod of a daemon."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer

import pytest

from pulsed.apps.adapter.cluster_gpus import MAX_PAGE_BYTES
from tests.support.attacks.watch import attacked, forget_peak, peak_megabytes
from tests.support.control_group import control_group
from tests.support.daemon import Daemon
from tests.support.http_servers import QuietHandler, running
from tests.support.kubernetes.fake_api_server import pod
from tests.support.kubernetes.gpu_cluster import DAEMON_LABELS, DAEMONS, Adapter, GpuCluster, adapter, gpu_cluster
from tests.support.waiting import until
from tests.system.attacks.test_http_clients import MAX_WORK

MEGABYTES = 128
TASKS = 64
SECONDS = 1.5
PROBES = ("/livez", "/metrics")

CLIENTS = (
    "unfinished_heads",
    "short_lines",
    "half_requests",
    "slow_readers",
    "slow_readers_of_pages",
    "drops_of_answers",
    "small_pipelined",
    "connection_flood",
    "silent_connections",
    "garbage",
    "odd_headers",
)

OF_TLS = (*CLIENTS, "half_handshakes")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuCluster]:
    with gpu_cluster(tmp_path_factory.mktemp("adapter"), 1) as made:
        made.scale(1)
        made.load(0.5)
        yield made


@pytest.fixture(scope="module")
def running_adapter(cluster: GpuCluster) -> Iterator[Adapter]:
    with (
        control_group(MEGABYTES * 2**20, TASKS) as within,
        adapter(cluster, "source.exporter.timeout=0.5s", name="localhost", within=within) as made,
    ):
        until(lambda: len(made.pods("gpu_real_utilization")) == 1)
        yield made


@pytest.mark.parametrize("name", CLIENTS)
def test_the_plain_port_survives_and_answers(running_adapter: Adapter, name: str) -> None:
    survives(
        running_adapter, Daemon(running_adapter.process, running_adapter.plain_port, running_adapter.log_path), name
    )


@pytest.mark.parametrize("name", OF_TLS)
def test_the_port_of_the_api_server_survives_and_answers(running_adapter: Adapter, name: str) -> None:
    process, port = running_adapter.process, running_adapter.port
    survives(running_adapter, Daemon(process, port, running_adapter.log_path, running_adapter.server_ca), name)


def survives(adapter: Adapter, port: Daemon, name: str) -> None:
    forget_peak(adapter.process.pid)
    seen = attacked(port, name, SECONDS, probes=PROBES)
    assert adapter.process.poll() is None, adapter.log()
    assert seen.failed == []
    assert seen.longest_work < MAX_WORK
    assert seen.peak_megabytes < MEGABYTES
    assert "Traceback" not in adapter.log()
    until(lambda: len(adapter.pods("gpu_real_utilization")) == 1)


Answer = tuple[dict[str, str], bytes]
GZIP = {"Content-Encoding": "gzip"}
LIMIT = MAX_PAGE_BYTES


def row(number: int, namespace: str = "ml", name: str = "p") -> str:
    return json.dumps(
        {
            "namespace": namespace,
            "pod": f"{name}-{number}",
            "container": "c",
            "workload": f"w-{number}",
            "workload_kind": "Deployment",
            "gpu": f"GPU-{number}",
            "share": 1.0,
            "age_seconds": 0.0,
            "stale": False,
            "values": {},
        }
    )


def page(rows: Iterator[str]) -> Answer:
    """As many rows as the limit of a page allows."""
    text, size = [], 0
    for each in rows:
        size += len(each) + 1
        if size > LIMIT - 1000:
            break
        text.append(each)
    return GZIP, gzip.compress(f'{{"node": "node-x", "gpus": [{",".join(text)}]}}'.encode(), 1)


def many_rows() -> Answer:
    return page(row(number) for number in range(10**6))


def many_namespaces() -> Answer:
    return page(row(number, f"ns-{number}") for number in range(10**6))


def long_names() -> Answer:
    return page(row(number, name="x" * 10**6) for number in range(10**6))


def too_large() -> Answer:
    """More than the limit of a page."""
    return GZIP, gzip.compress(b'{"node": "node-x", "gpus": [' + b",".join([row(0).encode()] * 2**16) + b"]}", 1)


def rows_of_the_pod() -> Answer:
    """Rows of a pod that exists, as a daemon of another node would have them."""
    return page(row(number).replace(f'"p-{number}"', '"infer-5d9c8b7f6-00000"') for number in range(10**6))


def nested() -> Answer:
    return GZIP, gzip.compress(b'{"node": "n", "gpus": ' + b"[" * (LIMIT - 1000), 1)


def bomb() -> Answer:
    return GZIP, gzip.compress(b" " * 2**28, 9)


PAGES: tuple[Callable[[], Answer], ...] = (
    many_rows,
    many_namespaces,
    long_names,
    too_large,
    rows_of_the_pod,
    nested,
    bomb,
)


@pytest.mark.parametrize("attack", PAGES)
def test_a_hostile_daemon_costs_its_own_rows_only(
    cluster: GpuCluster, running_adapter: Adapter, attack: Callable[[], Answer]
) -> None:
    headers, body = attack()
    asked: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    forget_peak(running_adapter.process.pid)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, running(server):
        hostile = pod("hostile", "127.0.0.1", server.server_port, node="node-x", namespace=DAEMONS, port_name="http")
        hostile["metadata"]["labels"] = DAEMON_LABELS
        cluster.fake.put(hostile)
        try:
            until(lambda: len(asked) > 3 or running_adapter.process.poll() is not None)
            slowest = 0.0
            for _ in range(20):
                begun = time.perf_counter()
                assert running_adapter.request("/livez")[0] == 200
                slowest = max(slowest, time.perf_counter() - begun)
            until(lambda: len(running_adapter.pods("gpu_real_utilization")) == 1)
        finally:
            cluster.fake.delete("hostile", DAEMONS)
    assert running_adapter.process.poll() is None, running_adapter.log()
    assert peak_megabytes(running_adapter.process.pid) < MEGABYTES
