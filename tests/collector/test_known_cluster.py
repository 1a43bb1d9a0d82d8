"""What is known of the cluster, as JSON of the state file."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from pulsed.collector import exporter_discovery
from pulsed.collector.exporter_discovery import KnownCluster, dump_cluster, load_cluster
from pulsed.collector.pool import CollectorPool
from pulsed.config.configuration import load
from pulsed.kubernetes.exporter_pods import ExporterEndpoint
from pulsed.kubernetes.objects import Controller, ObjectKind, PodMetadata
from pulsed.kubernetes.workload_resolver import KnownController
from pulsed.model.clocks import Unix
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution.pod_workloads import KnownPods
from tests.support.tampering import tampered

SET = Controller(ObjectKind("apps", "ReplicaSet"), "v1", "web-7d4", "uid-1")
PODS = [PodMetadata("ml", "web-0", "uid-2", {"team": "vision"}, SET), PodMetadata("ml", "alone", "uid-3", {}, None)]
ABOVE = Controller(ObjectKind("apps", "Deployment"), "v1", "web", "uid-4")
KNOWN = KnownCluster(
    "node-a",
    (ExporterEndpoint("gpu-operator/exporter", "http://10.0.0.1:9400/metrics", "gpu-operator", "exporter-x"),),
    KnownPods(Unix(1.5e9), PODS, [KnownController("ml", SET, ABOVE), KnownController("ml", ABOVE, None)]),
)


def test_what_is_saved_is_loaded() -> None:
    assert load_cluster(json.loads(json.dumps(dump_cluster(KNOWN)))) == KNOWN
    assert load_cluster(dump_cluster(KnownCluster())).pods.time is None


@pytest.mark.parametrize("time", [-1.0, 1e18, "soon"])
def test_a_wrong_time_is_refused(time: object) -> None:
    document = json.loads(json.dumps(dump_cluster(KNOWN)))
    document["pods"][0] = time
    with pytest.raises(ValueError, match=r"time|number"):
        load_cluster(document)


async def test_a_damaged_section_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever value was changed: the pods and exporters in it are used, or it is refused."""
    monkeypatch.setattr(exporter_discovery, "found_by", lambda config: KNOWN.found_by)
    overrides = (
        "node=node-a",
        "source.kind=exporter",
        "source.exporter.discovery=kubernetes",
        "attribution.workloads.enabled=true",
        "kubernetes.server=https://127.0.0.1:9",
    )
    config = load(None, list(overrides), {})
    for text, change in tampered(json.loads(json.dumps(dump_cluster(KNOWN))), 100, seed=1):
        try:
            pool = CollectorPool(TargetStore("node-a"), lambda *_: None, lambda _: None)
            with contextlib.suppress(ValueError):
                pool.restore_cluster(load_cluster(json.loads(text)))
            pool.apply(config)
            await asyncio.sleep(0)
            dump_cluster(pool.known_cluster())
            await pool.stop()
        except Exception as error:
            raise AssertionError(change) from error
