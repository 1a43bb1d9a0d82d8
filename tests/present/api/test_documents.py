from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, pod
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.documents import gpu_document, gpus_document, health_document, sources_of
from pulsed.present.api.gpu_matches import find
from pulsed.present.api.routing import ApiError, find_one
from tests.present.boards import FLICKER, OPEN, SETTLED, SICK, TIME, Gpu, gpu, mig, store_of, target, tick

NOW = 100.25
WALL = TIME + 0.25


def test_the_class_is_held_and_the_raw_one_beside_it() -> None:
    made = store_of(target("a", tick([gpu(0, result=FLICKER)])))
    assert gpu_document(find(made, "0")[0], Monotonic(NOW), "ai")["workload"] == {
        "class": "idle",
        "bottleneck": "idle",
        "since": "2025-12-31T23:58:20.100Z",
        "raw_class": "memory_bound",
        "candidates": [],
        "used": False,
        "use": "idle",
    }


def test_a_gpu_object_is_the_contracts() -> None:
    made = store_of(target("a", tick([gpu(0, sm_active_ratio=0.41)])))
    document = gpu_document(find(made, "0")[0], Monotonic(NOW), "ai")
    metrics = document.pop("metrics")
    health = document["health"]
    contract = {
        "gpu": "0",
        "uuid": "GPU-node1-0000",
        "node": "node1",
        "model": "NVIDIA H100 80GB HBM3",
        "mig": None,
        "time": "2026-01-01T00:00:00.100Z",
        "age_seconds": 0.25,
        "stale": False,
        "real_utilization": {
            "ratio": 0.62,
            "lower": 0.62,
            "upper": 0.62,
            "coverage": 1.0,
            "preset": "ai",
            "missing_inputs": [],
        },
        "saturation": {
            "ratio": 0.9,
            "lower": 0.9,
            "upper": 1.0,
            "limiting_resource": "dram",
            "compute": 0.3,
            "memory": 0.9,
            "resources": {
                "tensor": 0.3,
                "fp64": 0.0,
                "fp32": 0.25,
                "fp16": 0.0,
                "integer": 0.1,
                "dram": 0.9,
                "pcie": None,
                "nvlink": 0.05,
                "c2c": None,
            },
            "missing": ["pcie"],
            "tensor_throughput_ratio": None,
        },
        "workload": {
            "class": "memory_bound",
            "bottleneck": "memory",
            "since": "2025-12-31T23:59:50.100Z",
            "raw_class": "memory_bound",
            "candidates": [],
        },
        "health": health,
        "attribution": {"known": False, "owners": [], "pods": [], "slurm_job": None, "processes": []},
    }
    for key, expected in contract.items():
        found = document[key]
        if isinstance(expected, dict):  # values declared later have keys behind those of the contract
            found = dict(list(found.items())[: len(expected)])
        assert found == expected
    assert list(metrics) == list(QUANTITIES)
    assert metrics.pop("sm_active_ratio") == 0.41
    assert set(metrics.values()) == {None}


def test_a_check_has_message_time_evidence_and_remedy() -> None:
    health = gpu_document(find(store_of(target("a", tick([gpu(0)]))), "0")[0], Monotonic(NOW), "ai")["health"]
    assert (health["state"], health["severity"], health["coverage"]) == ("warn", 2, 0.5)
    assert [check["id"] for check in health["checks"]] == ["row_remap_pending", "xid_critical", "pcie_link"]
    assert health["checks"][0] == {
        "id": "row_remap_pending",
        "state": "warn",
        "since": "2025-12-31T23:59:55.100Z",
        "last_event": None,
        "covered": True,
        "message": "A memory repair waits for a reset",
        "evidence": {"row_remap_pending": 1.0},
        "remedy": "Reset the GPU when the current jobs finish",
    }
    assert health["last_xid"] == {
        "code": 13,
        "description": "graphics engine exception",
        "time": "2025-12-31T23:59:10.100Z",
    }


@pytest.mark.parametrize(
    ("checks", "state", "coverage"),
    [
        ((), "warn", 0.5),
        (("row_remap_pending",), "warn", 1.0),
        (("row_remap_pending", "pcie_link"), "warn", 0.5),
        (("xid_critical",), "ok", 1.0),
        (("xid_critical", "pcie_link"), "unknown", 0.5),
        (("gpu_lost",), "unknown", 0.0),  # it is disabled
    ],
)
def test_health_of_some_checks(checks: tuple[str, ...], state: str, coverage: float) -> None:
    (row,) = health_document(store_of(target("a", tick([gpu(0)]))), Monotonic(NOW), checks)
    assert (row["state"], row["coverage"], row["last_reset"]) == (state, coverage, None)
    assert [problem["id"] for problem in row["problems"]] == ["row_remap_pending"][: state == "warn"]


def test_health_of_some_checks_of_a_gpu_without_fresh_inputs_is_unknown() -> None:
    gone = replace(SICK, state="unknown")
    made = store_of(target("a", tick([gpu(0, result=SETTLED._replace(health=gone))])))
    assert health_document(made, Monotonic(NOW), ("xid_critical",))[0]["state"] == "unknown"
    assert health_document(made, Monotonic(NOW), ("row_remap_pending",))[0]["state"] == "warn"


def test_a_lost_gpu_is_as_old_as_its_last_sample() -> None:
    lost = tick([gpu(0), gpu(1)])
    lost.gpus[1].presence, lost.gpus[1].time = "unlisted", Unix(TIME - 30)
    here, gone = gpus_document(store_of(target("a", lost)), Monotonic(NOW), WALL, "ai")["gpus"]
    assert (here["stale"], gone["stale"]) == (False, True)
    assert gone["age_seconds"] == here["age_seconds"] + 30
    assert gone["time"] == "2025-12-31T23:59:30.100Z"


def test_an_open_class_has_its_candidates() -> None:
    document = gpu_document(find(store_of(target("a", tick([gpu(0, result=OPEN)]))), "0")[0], Monotonic(NOW), "hpc")
    assert document["workload"]["class"] == "unknown"
    assert document["workload"]["candidates"] == ["idle", "mixed_or_moderate"]
    assert document["real_utilization"]["ratio"] is None
    assert document["real_utilization"]["missing_inputs"] == ["sm_active_ratio", "dram_active_ratio"]
    assert document["real_utilization"]["preset"] == "hpc"


@pytest.mark.parametrize("absurd", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_cannot_represent_are_null(absurd: float) -> None:
    made = store_of(target("a", tick([gpu(0, power_watts=absurd, sm_active_ratio=0.5)])))
    document = gpus_document(made, Monotonic(NOW), WALL, "ai")
    json.dumps(document, allow_nan=False)
    assert document["gpus"][0]["metrics"]["power_watts"] is None
    assert document["gpus"][0]["metrics"]["sm_active_ratio"] == 0.5


def test_the_owners_of_a_gpu_are_in_its_document() -> None:
    owners = (pod("ml", "train-0", "main"), Owner("slurm_job", "4711"))
    owned = Gpu(Device(Entity("gpu", "0", "GPU-a")), owners=owners)
    document = gpu_document(find(store_of(target("a", tick([owned]))), "0")[0], Monotonic(NOW), "ai")
    assert document["attribution"].pop("known")
    assert [owner["id"] for owner in document["attribution"].pop("owners")] == ["ml/train-0/main", "4711"]
    assert document["attribution"] == {
        "pods": [{"namespace": "ml", "pod": "train-0", "container": "main", "uid": ""}],
        "slurm_job": "4711",
        "processes": [],
    }
    assert document["node"] == "here"
    assert document["model"] is None


def test_a_stale_gpu_is_listed_as_stale() -> None:
    made = store_of(target("a", tick([gpu(0)])))
    (document,) = gpus_document(made, Monotonic(111.0), WALL, "ai")["gpus"]
    assert (document["stale"], document["age_seconds"]) == (True, 11.0)


def test_a_gpu_of_two_targets_is_listed_once_by_the_fresh_one() -> None:
    made = store_of(
        target("a", tick([gpu(0, power_watts=1.0)]), arrived=100.0),
        target("b", tick([gpu(0, power_watts=2.0)]), arrived=109.0),
    )

    def watts(now: float) -> list[float]:
        return [
            document["metrics"]["power_watts"] for document in gpus_document(made, Monotonic(now), WALL, "ai")["gpus"]
        ]

    assert [watts(now) for now in (109.0, 111.0, 200.0)] == [[1.0], [2.0], [1.0]]


def test_a_source_has_the_error_of_its_kernel_log() -> None:
    first, second = target("a", tick([gpu(0)])), target("b", tick([gpu(1)]))
    first.kernel_log_error, second.kernel_log_error = "", "kern.log: No such file"
    found = sources_of(store_of(first, second), Monotonic(NOW), WALL).model_dump()
    assert [each["kernel_log_error"] for each in found["sources"]] == [None, "kern.log: No such file"]
    assert found["source"]["kernel_log_error"] == "kern.log: No such file"


def test_the_whole_document_with_one_source() -> None:
    made = store_of(target("demo", tick([gpu(0), gpu(1)]), kind="demo"))
    document = gpus_document(made, Monotonic(NOW), WALL, "ai")
    assert document["node"] == "here"
    assert document["time"] == "2026-01-01T00:00:00.350Z"
    assert [each["gpu"] for each in document["gpus"]] == ["0", "1"]
    assert document["source"] == {
        "kind": "demo",
        "target": "demo",
        "up": True,
        "ended": False,
        "error": None,
        "interval_seconds": 1.0,
        "last_sample_time": "2026-01-01T00:00:00.100Z",
        "demo": True,
        "kernel_log_error": None,
    }
    assert document["sources"] == [document["source"]]


def test_several_sources_are_up_only_together() -> None:
    made = store_of(target("a", tick([gpu(0)])), target("b"), target("c"))
    made.targets[1].fail("scrape_failed", "connection refused")
    source = gpus_document(made, Monotonic(NOW), WALL, "ai")["source"]
    assert source["target"] == "3 targets"
    assert source["up"] is False
    assert source["error"] == "2 of 3 sources are down; the first: connection refused"
    assert source["last_sample_time"] == "2026-01-01T00:00:00.100Z"


def both() -> list[Gpu]:
    return [gpu(0), gpu(1), mig(1, 7), mig(1, 8), mig(2, 7)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("0", [("0", "")]),
        ("GPU-node1-0000", [("0", "")]),
        ("1", [("1", "")]),  # the board itself, where the source has it beside its instances
        ("GPU-node1-0001", [("1", "")]),
        ("1:8", [("1", "8")]),
        ("GPU-node1-0001:8", [("1", "8")]),
        ("MIG-1-7", [("1", "7")]),
        ("2", [("2", "7")]),  # known only by its instances
        ("9", []),
        ("", []),
        (":7", []),
        ("0:7", []),
    ],
)
def test_a_gpu_is_found_by_each_of_its_names(wanted: str, found: list[tuple[str, str]]) -> None:
    made = store_of(target("a", tick(both())))
    assert [(m.device.entity.gpu, m.device.entity.mig_id) for m in find(made, wanted)] == found


def test_a_board_that_was_replaced_gives_way_to_the_one_that_is_listed() -> None:
    gone, new = gpu(2), gpu(2)
    gone = gone._replace(device=replace(gone.device, entity=replace(gone.device.entity, uuid="GPU-old")))
    both_boards = tick([gone, new])
    both_boards.gpus[0].presence = "unlisted"
    made = store_of(target("a", both_boards))
    assert [match.device.entity.uuid for match in find(made, "2")] == [new.device.entity.uuid]
    both_boards.gpus[1].presence = "unlisted"
    with pytest.raises(ApiError) as caught:
        find_one(made, "2", None, Monotonic(100.0))
    assert re.search(r"use one of GPU-old \(seen 20.*\), GPU-node1-0002 \(seen 20", caught.value.detail)


def test_the_same_index_on_several_nodes_needs_the_node() -> None:
    made = store_of(target("a", tick([gpu(0, "n1")])), target("b", tick([gpu(0, "n2")])))
    assert [match.node for match in find(made, "0")] == ["n1", "n2"]
    assert [match.node for match in find(made, "0", "n2")] == ["n2"]
    assert find(made, "0", "n3") == []
