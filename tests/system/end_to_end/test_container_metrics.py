"""`/container/metrics` of a real daemon: the tables of zxporter's own tests for scraper, mapper, handler and cache."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Answer, Daemon, free_port, serving
from tests.support.exporters import Exporter, exporting
from tests.support.kubernetes.gpu_cluster import gpu_cluster
from tests.support.nightly import nightly_rows_after
from tests.support.waiting import until
from tests.system.end_to_end.dcgm_pages import Row, dcgm_page

PATH = "/container/metrics"

HANDLER = {
    "one": dcgm_page(
        [
            Row({"DEV_GPU_UTIL": 85, "DEV_GPU_TEMP": 72}, 0, "node-1", "train-pod", "ml", "trainer"),
            Row({"DEV_GPU_UTIL": 30, "DEV_GPU_TEMP": 55}, 1, "node-1", "inference-pod", "ml", "serve"),
        ]
    ),
    "two": dcgm_page([Row({"DEV_GPU_UTIL": 95, "DEV_GPU_TEMP": 80}, 0, "node-2", "batch-pod", "batch", "worker")]),
}

KEYS = [
    "node_name", "model_name", "device", "device_id", "device_uuid", "pod", "container", "namespace", "sm_active",
    "sm_occupancy", "tensor_active", "dram_active", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes",
    "nvlink_rx_bytes", "graphics_engine_active", "framebuffer_total", "framebuffer_used", "framebuffer_free",
    "pcie_link_gen", "pcie_link_width", "temperature", "memory_temperature", "power_usage", "gpu_utilization",
    "int_pipe_active", "fp16_pipe_active", "fp32_pipe_active", "fp64_pipe_active", "clocks_event_reasons",
    "xid_errors", "power_violation", "thermal_violation", "sm_clock", "mem_clock", "timestamp",
]  # fmt: skip

ALL_28 = {
    "PROF_SM_ACTIVE": 0.5, "PROF_SM_OCCUPANCY": 0.25, "PROF_PIPE_TENSOR_ACTIVE": 0.125, "PROF_DRAM_ACTIVE": 0.0625,
    "PROF_PCIE_TX_BYTES": 1000000, "PROF_PCIE_RX_BYTES": 2000000, "PROF_NVLINK_TX_BYTES": 3000000,
    "PROF_NVLINK_RX_BYTES": 4000000, "PROF_GR_ENGINE_ACTIVE": 0.75, "DEV_FB_TOTAL": 81920, "DEV_FB_USED": 20481,
    "DEV_FB_FREE": 61000, "DEV_PCIE_LINK_GEN": 4, "DEV_PCIE_LINK_WIDTH": 16, "DEV_GPU_TEMP": 55, "DEV_MEMORY_TEMP": 60,
    "DEV_POWER_USAGE": 72.5, "DEV_GPU_UTIL": 85, "PROF_PIPE_INT_ACTIVE": 0.03, "PROF_PIPE_FP16_ACTIVE": 0.000012,
    "PROF_PIPE_FP32_ACTIVE": 0.05, "PROF_PIPE_FP64_ACTIVE": 0.06, "DEV_CLOCKS_EVENT_REASONS": 4, "DEV_XID_ERRORS": 31,
    "DEV_POWER_VIOLATION": 1234567891, "DEV_THERMAL_VIOLATION": 7, "DEV_SM_CLOCK": 1410, "DEV_MEM_CLOCK": 1215,
}  # fmt: skip
"""Every metric that zxporter maps, in the order of its keys."""


@contextlib.contextmanager
def reading(folder: Path, urls: Sequence[str], *extra: str, ready: bool = True) -> Iterator[Daemon]:
    settings = ["source.kind=exporter", "source.interval=1", f"source.exporter.targets=[{','.join(urls)}]"]
    with serving(folder, *(f"--set={each}" for each in (*settings, *extra)), ready=ready) as daemon:
        yield daemon


@contextlib.contextmanager
def serving_pages(folder: Path, pages: Mapping[str, str], *extra: str) -> Iterator[tuple[Daemon, dict[str, Exporter]]]:
    exporters = {name: Exporter(text) for name, text in pages.items()}
    with exporting(exporters) as url, reading(folder, [url + name for name in pages], *extra) as daemon:
        until(lambda: all(each.asked for each in exporters.values()))
        yield daemon, exporters


@pytest.fixture(scope="module")
def three_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving_pages(tmp_path_factory.mktemp("handler"), HANDLER) as (daemon, _):
        until(lambda: len(daemon.get(PATH).json()) == 3)
        yield daemon


@pytest.mark.parametrize(
    ("query", "pods"),
    [
        ("", ["train-pod", "inference-pod", "batch-pod"]),
        ("?pod=train-pod", ["train-pod"]),
        ("?namespace=ml", ["train-pod", "inference-pod"]),
        ("?container=worker", ["batch-pod"]),
        ("?node=node-2", ["batch-pod"]),
        ("?pod=train-pod&namespace=ml", ["train-pod"]),
        ("?pod=train-pod&namespace=batch", []),
        ("?pod=train-pod&node=node-2", []),
        ("?pod=nonexistent", []),
        ("?pod=&namespace=", ["train-pod", "inference-pod", "batch-pod"]),
        ("?unknown=1", ["train-pod", "inference-pod", "batch-pod"]),
    ],
)
def test_handler(three_rows: Daemon, query: str, pods: list[str]) -> None:
    answer = three_rows.get(PATH + query)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [row["pod"] for row in answer.json()] == pods
    assert answer.body == b"[]\n" or pods
    assert "x-pulsed-stale" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_handler_refuses_other_methods(three_rows: Daemon, method: str) -> None:
    answer = three_rows.get(PATH, method=method)
    assert answer.status == 405
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["allow"] == "GET"
    assert answer.body == (b"" if method == "HEAD" else b"method not allowed\n")


def test_the_bytes_are_those_of_the_original(tmp_path: Path) -> None:
    row = Row(ALL_28, 3, "node-1", "train-0", "ml", "a<b>&c", model='NVIDIA \u00e9\\"A100\\"')
    with serving_pages(tmp_path, {"page": dcgm_page([row])}) as (daemon, _):
        until(lambda: daemon.get(PATH).json() != [])
        text = daemon.get(PATH).text
    (made,) = json.loads(text)
    assert list(made) == KEYS
    time = made["timestamp"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    texts = {
        "node_name": '"node-1"', "model_name": '"NVIDIA \u00e9\\"A100\\""', "device": '"nvidia3"', "device_id": '"3"',
        "device_uuid": '"GPU-node-1-3"', "pod": '"train-0"', "container": '"a\\u003cb\\u003e\\u0026c"',
        "namespace": '"ml"',
    }  # fmt: skip
    texts |= {key: str(value) for key, value in zip(KEYS[8:-1], ALL_28.values(), strict=True)}
    texts |= {"fp16_pipe_active": "0.000012", "timestamp": f'"{time}"'}
    assert text == "[\n  {\n" + ",\n".join(f'    "{key}": {texts[key]}' for key in KEYS) + "\n  }\n]\n"


TEST_NODE = Row({"DEV_GPU_UTIL": 85.0}, 0, "test-node")


@pytest.mark.parametrize(
    ("rows", "expected"),
    nightly_rows_after(
        3,
        [
            ([Row({"DEV_VGPU_LICENSE_STATUS": 1})], [{"gpu_utilization": 0}]),
            (
                [Row({"DEV_VGPU_LICENSE_STATUS": 1, "PROF_GR_ENGINE_ACTIVE": 1.0})],
                [{"graphics_engine_active": 1, "node_name": "node-1"}],
            ),
            ([TEST_NODE], [{"node_name": "test-node", "device": "nvidia0", "gpu_utilization": 85}]),
            (
                [TEST_NODE._replace(values={"DEV_GPU_UTIL": 85, "DEV_GPU_TEMP": 72})],
                [{"gpu_utilization": 85, "temperature": 72}],
            ),
            (
                [Row({"DEV_GPU_TEMP": 55, "DEV_POWER_USAGE": 72.5}, model="Tesla T4")],
                [{"temperature": 55, "power_usage": 72.5, "model_name": "Tesla T4"}],
            ),
            (
                [Row({"DEV_GPU_UTIL": 9223372036854775794, "DEV_GPU_TEMP": 40})],
                [{"gpu_utilization": 0, "temperature": 40}],
            ),
            (
                [
                    Row({"DEV_GPU_UTIL": 7}, 0, pod="a", namespace="n", container="c"),
                    Row({"DEV_GPU_UTIL": 7}, 0, pod="b", namespace="n", container="c"),
                ],
                [{"pod": "a", "gpu_utilization": 7}, {"pod": "b", "gpu_utilization": 7}],
            ),
            (
                [
                    Row({"PROF_SM_ACTIVE": 0.5, "DEV_FB_USED": 100, "DEV_GPU_TEMP": 40}, mig=("8", "1g.5gb"), pod="a"),
                    Row({"PROF_SM_ACTIVE": 0.25, "DEV_FB_USED": 200, "DEV_GPU_TEMP": 40}, mig=("9", "3g.20gb")),
                ],
                [
                    {"mig_profile": "1g.5gb", "mig_instance_id": "8", "pod": "a", "sm_active": 0.5, "temperature": 40},
                    {"mig_profile": "3g.20gb", "mig_instance_id": "9", "pod": "", "sm_active": 0.25, "temperature": 40},
                ],
            ),
        ],
    ),
    ids=[
        "nothing that is mapped",
        "one of two families",
        "one row",
        "equal labels are one row",
        "power and temperature",
        "blank",
        "pods that share a GPU",
        "MIG",
    ],
)
def test_mapper(tmp_path: Path, rows: Sequence[Row], expected: Sequence[Mapping[str, object]]) -> None:
    with serving_pages(tmp_path, {"page": dcgm_page(rows)}) as (daemon, _):
        until(lambda: daemon.get(PATH).json() != [])
        found = daemon.get(PATH).json()
    assert [{key: row[key] for key in wanted} for row, wanted in zip(found, expected, strict=True)] == list(expected)


def test_mapper_takes_samples_without_a_type(tmp_path: Path) -> None:
    page = "\n".join(line for line in dcgm_page([TEST_NODE]).splitlines() if not line.startswith("#"))
    with serving_pages(tmp_path, {"page": f"{page}\n"}) as (daemon, _):
        until(lambda: [row["gpu_utilization"] for row in daemon.get(PATH).json()] == [85])


def test_the_configured_node_is_the_name_of_a_host_without_one(tmp_path: Path) -> None:
    page = dcgm_page([TEST_NODE]).replace('Hostname="test-node",', "")
    with serving_pages(tmp_path, {"page": page}, "node=override-node") as (daemon, _):
        until(lambda: [row["node_name"] for row in daemon.get(PATH).json()] == ["override-node"])


def test_null_and_derived(tmp_path: Path) -> None:
    with serving_pages(tmp_path, {"page": dcgm_page([TEST_NODE])}) as (daemon, _):
        until(lambda: daemon.get(PATH).json() != [])
        (zero,) = daemon.get(PATH).json()
        (null,) = daemon.get(f"{PATH}?null=1").json()
        (derived,) = daemon.get(f"{PATH}?derived=1").json()
        text = daemon.get(f"{PATH}?derived=1").text
    numbers = KEYS[8:-1]
    assert {key for key in numbers if zero[key] != 0} == {"gpu_utilization"}
    assert {key for key in numbers if null[key] is not None} == {"gpu_utilization"}
    assert list(null) == list(zero) == KEYS
    assert list(derived)[: len(KEYS)] == KEYS
    assert {"real_utilization", "workload", "health"} <= set(derived) - set(KEYS)
    assert derived["real_utilization"]["ratio"] is None
    assert all(line.startswith("    ") for line in text.splitlines()[2:-2])


def count(answer: Answer) -> int:
    return len(answer.json()) if answer.status == 200 else -1


@pytest.mark.parametrize(
    ("fault", "said"),
    [(None, ""), ("status", "answered 500"), ("transport", "refused")],
)
def test_scraper(tmp_path: Path, fault: str | None, said: str) -> None:
    pages = {str(gpu): Exporter(dcgm_page([Row({"DEV_GPU_TEMP": 40}, gpu)])) for gpu in range(3)}
    pages["2"].status = 500 if fault == "status" else 200
    with exporting(pages) as url:
        urls = [url + name for name in pages]
        if fault == "transport":
            urls[2] = f"http://127.0.0.1:{free_port()}/metrics"
        with reading(tmp_path, urls) as daemon:
            until(lambda: count(daemon.get(PATH)) == (2 if fault else 3))
            until(lambda: said in daemon.get(PATH).headers.get("x-pulsed-stale", ""))
            assert ("x-pulsed-stale" in daemon.get(PATH).headers) == bool(fault)


def test_scraper_that_has_never_read_anything_is_an_error(tmp_path: Path) -> None:
    with reading(tmp_path, [f"http://127.0.0.1:{free_port()}/metrics"], ready=False) as daemon:
        answer = daemon.wait_for(PATH, 500)
    assert answer.body == b"internal server error\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "has no data yet" in answer.headers["x-pulsed-stale"]


def test_cache(tmp_path: Path) -> None:
    """Readers do not scrape; an error keeps the last values until they are stale, and then none are served."""
    with serving_pages(tmp_path, {"page": dcgm_page([TEST_NODE])}, "source.interval=5", "source.stale_after=8") as (
        daemon,
        exporters,
    ):
        exporter = exporters["page"]
        until(lambda: count(daemon.get(PATH)) == 1)
        asked = exporter.asked
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _: daemon.get(PATH), range(50)))
        assert {answer.body for answer in answers} == {answers[0].body}
        assert exporter.asked <= asked + 1
        exporter.status = 500
        until(lambda: "answered 500" in daemon.log())
        kept = daemon.get(PATH)
        assert (kept.json()[0]["gpu_utilization"], kept.json()[0]["timestamp"]) == (85, row_time(answers[0]))
        until(lambda: count(daemon.get(PATH)) == 0)
        stale = daemon.get(PATH)
        assert (stale.status, stale.body) == (200, b"[]\n")
        assert re.match(r"1 GPUs of \S+ are stale: .*answered 500", stale.headers["x-pulsed-stale"])
        exporter.status = 200
        until(lambda: count(daemon.get(PATH)) == 1)


def row_time(answer: Answer) -> str:
    (row,) = answer.json()
    return str(row["timestamp"])


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the summary of a node as zxporter makes it of rows."""
    whole = [row["gpu_utilization"] for row in rows if "mig_instance_id" not in row]
    return {
        "gpu_count": len({row["device_uuid"] for row in rows}),
        "instances": len(rows),
        "migs": len([row for row in rows if "mig_instance_id" in row]),
        "average": round(sum(whole) / len(whole), 6),
        "most": max(whole),
        "used": sum(row["framebuffer_used"] for row in rows),
    }


def whole(gpu: int, utilization: float, used: float) -> Row:
    return Row({"DEV_GPU_UTIL": utilization, "DEV_FB_USED": used}, gpu)


def part(gpu: int, instance: int, profile: str, used: float) -> Row:
    return Row({"PROF_SM_ACTIVE": 0.5, "DEV_FB_USED": used}, gpu, mig=(str(instance), profile))


EIGHT = [
    *(whole(gpu, utilization, 20000) for gpu, utilization in enumerate((90, 15, 0))),
    *(part(3 + n % 5, n, "1g.5gb", 700) for n in range(12)),
    *(part(3 + n % 5, 20 + n, "3g.20gb", 970) for n in range(7)),
]


@pytest.mark.parametrize(
    ("rows", "expected"),
    nightly_rows_after(
        3,
        [
            ([whole(0, 40, 10000)], (1, 1, 0, 40, 40, 10000)),
            ([whole(0, 87, 1), whole(1, 0, 1)], (2, 2, 0, 43.5, 87, 2)),
            ([whole(0, 92, 5), part(1, 8, "1g.5gb", 6), part(1, 9, "3g.20gb", 7)], (2, 3, 2, 92, 92, 18)),
            (EIGHT, (8, 22, 19, 35, 90, 75190)),
        ],
    ),
    ids=["one", "two", "a board in two instances", "eight boards with 22 rows"],
)
def test_summary(tmp_path: Path, rows: Sequence[Row], expected: Sequence[float]) -> None:
    with serving_pages(tmp_path, {"page": dcgm_page(rows)}) as (daemon, _):
        until(lambda: count(daemon.get(PATH)) > 0)
        assert tuple(summary(daemon.get(PATH).json()).values()) == expected


def test_workloads_are_those_of_the_resolver(tmp_path: Path) -> None:
    with gpu_cluster(tmp_path, 1) as cluster:
        daemon = cluster.nodes[0].daemon
        cluster.scale(2)
        cluster.load(0.5)

        def workloads() -> list[tuple[str | None, str | None]]:
            rows = daemon.get(f"{PATH}?namespace=ml").json()
            return [(row.get("workload_name"), row.get("workload_kind")) for row in rows]

        until(lambda: workloads() == [("infer", "Deployment")] * 2)
        (free,) = [row for row in daemon.get(PATH).json() if not row["pod"]]
        assert not {"workload_name", "workload_kind"} & free.keys()
        keys = list(daemon.get(f"{PATH}?namespace=ml").json()[0])
    assert keys[7:10] == ["namespace", "workload_name", "workload_kind"]
