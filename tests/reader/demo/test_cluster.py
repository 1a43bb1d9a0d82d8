"""The demo's second scene: eight nodes."""

from __future__ import annotations

import pytest

from pulsed.errors import ScrapeFailed
from pulsed.model.owner import Owners
from pulsed.reader.demo import DemoSettings
from pulsed.reader.demo.cluster import (
    GPUS_PER_NODE,
    HOT_CELSIUS,
    LOST_AT,
    NODES,
    SILENT_AFTER,
    SILENT_NODE,
    cluster_owners,
    scenes_of,
)
from pulsed.reader.demo.simulated_gpu import BLANK, demo_layout, uuid_of
from pulsed.reader.demo.source import DemoSource, Node, open_sources
from pulsed.reader.source import SourceRequest

OWNERS: dict[str, Owners] = dict(cluster_owners())


def rows_of(node: int, t: float) -> list[tuple[dict[str, str], dict[str, float]]]:
    """Return labels and values of each row of a node's page."""
    machine = Node(0, NODES[node], scenes_of(node), GPUS_PER_NODE * node)
    labels, values = machine.labels(t), machine.sample(t)
    names = [series.name.removeprefix("DCGM_FI_") for series in demo_layout(labels).series[:: len(labels)]]
    return [(dict(own), dict(zip(names, values[at :: len(labels)], strict=True))) for at, own in enumerate(labels)]


def gpu_row(node: int, gpu: int, t: float) -> dict[str, float]:
    return next(values for labels, values in rows_of(node, t) if labels["gpu"] == str(gpu))


def test_there_is_a_source_per_node() -> None:
    sources = open_sources(DemoSettings(scene="cluster"), SourceRequest("here", False, []))
    assert [source.target for source in sources] == list(NODES)
    assert [source.target for source in open_sources(DemoSettings(), SourceRequest("here", False, []))] == ["demo"]


def test_every_gpu_has_its_own_uuid() -> None:
    uuids = [labels["UUID"] for node in range(len(NODES)) for labels, _ in rows_of(node, 0.0)]
    assert len(set(uuids)) == len(NODES) * GPUS_PER_NODE
    assert {key.split("/")[0] for key in OWNERS} <= {uuid.lower() for uuid in uuids}


def test_owners_are_pods_of_all_kinds_jobs_on_several_nodes_and_sixteen_processes() -> None:
    every = {owner for owners in OWNERS.values() for owner in owners}
    assert {owner.workload_kind for owner in every if owner.kind == "pod"} == {"Deployment", "StatefulSet", "Job"}
    job = [key for key, owners in OWNERS.items() if owners[0].id == "48213"]
    assert len(job) == 16
    shared = [owners for owners in OWNERS.values() if len(owners) > 1]
    assert [len(owners) for owners in shared] == [16]


def test_a_gpu_falls_off_the_bus_and_has_nothing_but_its_xid() -> None:
    assert gpu_row(2, 5, LOST_AT - 1.0)["DEV_XID_ERRORS"] == 0.0
    lost = gpu_row(2, 5, LOST_AT)
    assert lost.pop("DEV_XID_ERRORS") == 79.0
    assert set(lost.values()) == {BLANK}


def test_one_gpu_is_hot_and_one_rank_is_slow() -> None:
    assert gpu_row(5, 6, 50.0)["DEV_GPU_TEMP"] == HOT_CELSIUS
    slow, peer = gpu_row(1, 3, 50.0), gpu_row(1, 4, 50.0)
    assert slow["PROF_SM_ACTIVE"] < 0.7 * peer["PROF_SM_ACTIVE"]


def test_the_memory_of_mig_instances_is_their_share() -> None:
    rows = [values for labels, values in rows_of(4, 50.0) if labels.get("GPU_I_PROFILE") == "1g.10gb"]
    assert len(rows) == 7
    for values in rows:
        parts = sum(values[f"DEV_FB_{name}"] for name in ("USED", "FREE", "RESERVED"))
        assert parts == values["DEV_FB_TOTAL"] == pytest.approx(81559 / 8, abs=2.0)
        assert values["PROF_PCIE_RX_BYTES"] == BLANK


async def test_a_node_stops_answering() -> None:
    machine = Node(0, SILENT_NODE, scenes_of(7), 56)
    source = DemoSource(machine=machine, silent_after=SILENT_AFTER, pace=False)
    for _ in range(int(SILENT_AFTER)):
        await source.read()
    with pytest.raises(ScrapeFailed, match="no answer"):
        await source.read()


def test_free_gpus_have_no_memory_in_use() -> None:
    assert uuid_of(8 * 6 + 7).lower() not in OWNERS
    assert gpu_row(6, 7, 50.0)["DEV_FB_USED"] == 0.0
