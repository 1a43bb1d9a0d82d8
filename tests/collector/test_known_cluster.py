"""The file of what is known of the cluster: whole or not at all, and never in the way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pulsed.collector import exporter_discovery
from pulsed.collector.known_cluster import KnownCluster, KnownClusterFile
from pulsed.collector.pool import CollectorPool
from pulsed.collector.state_file import StateFile
from pulsed.config.configuration import load
from pulsed.kubernetes.exporter_pods import ExporterEndpoint
from pulsed.kubernetes.objects import Controller, ObjectKind, PodMetadata
from pulsed.kubernetes.workload_resolver import KnownController
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution.pod_workloads import KnownPods
from tests.support.tampering import tampered

SET = Controller(ObjectKind("apps", "ReplicaSet"), "v1", "web-7d4", "uid-1")
PODS = [PodMetadata("ml", "web-0", "uid-2", {"team": "vision"}, SET), PodMetadata("ml", "alone", "uid-3", {}, None)]
ABOVE = Controller(ObjectKind("apps", "Deployment"), "v1", "web", "uid-4")
KNOWN = KnownCluster(
    "node-a",
    (ExporterEndpoint("gpu-operator/exporter", "http://10.0.0.1:9400/metrics", "gpu-operator", "exporter-x"),),
    KnownPods(1.5e9, PODS, [KnownController("ml", SET, ABOVE), KnownController("ml", ABOVE, None)]),
)


def opened(folder: Path) -> KnownClusterFile:
    return KnownClusterFile(StateFile(folder / "cluster.json"))


def test_what_is_written_is_loaded(tmp_path: Path) -> None:
    file = opened(tmp_path)
    assert file.loaded == KnownCluster()
    file.write(file.loaded)
    assert not list(tmp_path.iterdir()), "nothing is known"
    file.write(KNOWN)
    assert opened(tmp_path).loaded == KNOWN


@pytest.mark.parametrize("time", [-1.0, 1e18, "soon"])
def test_a_wrong_time_sets_the_file_aside(tmp_path: Path, time: object) -> None:
    opened(tmp_path).write(KNOWN)
    document = json.loads((tmp_path / "cluster.json").read_text())
    document["pods"][0] = time
    (tmp_path / "cluster.json").write_text(json.dumps(document))
    assert opened(tmp_path).loaded == KnownCluster()
    assert (tmp_path / "cluster.json.broken").exists()


async def test_a_damaged_file_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever value was changed: the pods and exporters in it are used, or the file is set aside."""
    monkeypatch.setattr(exporter_discovery, "found_by", lambda config: KNOWN.found_by)
    file, overrides = (
        tmp_path / "cluster.json",
        (
            "node=node-a",
            "source.kind=exporter",
            "source.exporter.discovery=kubernetes",
            "attribution.workloads.enabled=true",
            "kubernetes.server=https://127.0.0.1:9",
        ),
    )
    opened(tmp_path).write(KNOWN)
    config = load(None, list(overrides), {})
    for text, change in tampered(json.loads(file.read_text()), 100, seed=1):
        file.write_text(text)
        try:
            kept = opened(tmp_path)
            pool = CollectorPool(TargetStore("node-a"), lambda *_: None, lambda _: None, known=kept.loaded)
            pool.apply(config)
            await asyncio.sleep(0)
            kept.write(pool.known_cluster())
            await pool.stop()
            assert not kept.status.is_failing
        except Exception as error:
            raise AssertionError(change) from error
