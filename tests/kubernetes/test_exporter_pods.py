"""Which pods are exporters that can be read, and at which URL."""

from __future__ import annotations

import pytest

from pulsed.kubernetes.exporter_pods import (
    ExporterEndpoint,
    PageAddress,
    PodRequirements,
    endpoints,
    exporter_pod,
)
from pulsed.kubernetes.settings import USUAL_NAMESPACES
from tests.support.kubernetes.fake_api_server import Pod, pod, reference

STOCK = PageAddress()


@pytest.mark.parametrize(
    ("given", "page", "url"),
    [
        (pod("a", "10.0.0.7"), STOCK, "http://10.0.0.7:9400/metrics"),
        (pod("a", "10.0.0.7", 9500), STOCK, "http://10.0.0.7:9500/metrics"),
        (pod("a", "fd00::7"), STOCK, "http://[fd00::7]:9400/metrics"),
        (pod("a", "10.0.0.7"), PageAddress(1234, "https", "/gpu?a=b,c d"), "https://10.0.0.7:1234/gpu?a=b,c%20d"),
    ],
)
def test_the_url_of_a_pod(given: Pod, page: PageAddress, url: str) -> None:
    found, reasons = endpoints([exporter_pod(given)], page)
    assert list(found) == [ExporterEndpoint("gpu-operator/nvidia-dcgm-exporter", url, "gpu-operator", "a", "node-a")]
    assert list(reasons) == []


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (pod("a", ready=False), "pod gpu-operator/a is not Running and Ready"),
        (pod("a", phase="Succeeded"), "pod gpu-operator/a is not Running and Ready"),
        (pod("a", ""), "pod gpu-operator/a has no address"),
        (pod("a", port_name="web"), "pod gpu-operator/a has no port 'metrics'; its named ports: web"),
        ({}, "pod / is not Running and Ready"),
        ({"metadata": [], "spec": 1, "status": {"conditions": {}}}, "pod / is not Running and Ready"),
    ],
)
def test_a_pod_that_cannot_be_read_has_a_reason(given: Pod, reason: str) -> None:
    found, reasons = endpoints([exporter_pod(given)], STOCK)
    assert (list(found), list(reasons)) == ([], [reason])


def test_a_pod_that_is_being_deleted_is_none() -> None:
    ending = pod("a")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert endpoints([exporter_pod(ending)], STOCK)[0] == []


def test_the_newest_pod_of_a_daemon_set_counts_and_each_daemon_set_is_a_target() -> None:
    pods = [
        pod("new", "10.0.0.2", created="2026-01-02T00:00:00Z"),
        pod("old", "10.0.0.1"),
        pod("newest", "10.0.0.3", created="2026-01-03T00:00:00Z", ready=False),
        pod("other", "10.0.0.4", owner="second"),
        pod("bare", "10.0.0.5", owner="", namespace="ml"),
    ]
    found, _ = endpoints(map(exporter_pod, pods), STOCK)
    assert [(each.target, each.pod) for each in found] == [
        ("gpu-operator/nvidia-dcgm-exporter", "new"),
        ("gpu-operator/second", "other"),
        ("ml/bare", "bare"),
    ]


REPLICA_SET = reference("apps/v1", "ReplicaSet", "web-7d4")


@pytest.mark.parametrize(
    ("requirements", "given", "reason"),
    [
        (PodRequirements(), pod("a"), ""),
        (PodRequirements(), pod("a", namespace="default"), "is in another namespace"),
        (PodRequirements(), pod("a", namespace="gpu-operator-2"), "is in another namespace"),
        (PodRequirements(["ml"]), pod("a"), "is in another namespace"),
        (PodRequirements(["ml"]), pod("a", namespace="ml"), ""),
        (PodRequirements(None), pod("a", namespace="default"), ""),
        (PodRequirements([]), pod("a"), "is in another namespace"),
        (PodRequirements(), pod("a", owner=""), "has no controller, not by DaemonSet.apps"),
        (
            PodRequirements(),
            pod("a", owner=REPLICA_SET),
            "is controlled by ReplicaSet.apps web-7d4, not by DaemonSet.apps",
        ),
        (
            PodRequirements(),
            pod("a", owner=reference("evil.io/v1", "DaemonSet", "b")),
            "is controlled by DaemonSet.evil.io b, not by DaemonSet.apps",
        ),
        (PodRequirements(), pod("a", owner=reference("apps/v1", "DaemonSet", "b", controller=False)), "no controller"),
        (PodRequirements(controllers=["StatefulSet.apps", "ReplicaSet.apps"]), pod("a", owner=REPLICA_SET), ""),
        (PodRequirements(controllers=[]), pod("a", owner=""), ""),
        (PodRequirements(), {}, "is in another namespace"),
    ],
)
def test_a_pod_needs_more_than_labels(requirements: PodRequirements, given: Pod, reason: str) -> None:
    found = requirements.reason_against(exporter_pod(given))
    assert reason in found
    assert bool(found) == bool(reason)


@pytest.mark.parametrize("name", ["", "x" * 254, 'a"\n', "a/b"])
def test_a_reference_with_a_name_that_no_object_has_is_none(name: str) -> None:
    found = exporter_pod(pod("a", owner=reference("apps/v1", "DaemonSet", name)))
    assert (found.controller, found.target) == (("", ""), "gpu-operator/a")


def test_default_is_no_usual_namespace() -> None:
    assert "default" not in USUAL_NAMESPACES


def test_another_kind_called_daemon_set_takes_no_target() -> None:
    """Of pods of one target only the newest is read."""
    pods = [pod("a"), pod("b", owner=reference("evil.io/v1", "DaemonSet", "nvidia-dcgm-exporter"))]
    assert [exporter_pod(each).target for each in pods] == ["gpu-operator/nvidia-dcgm-exporter", "gpu-operator/b"]
