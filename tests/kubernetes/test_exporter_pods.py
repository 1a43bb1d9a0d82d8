"""Which pods are exporters that can be read, and at which URL."""

from __future__ import annotations

import pytest

from pulsed.kubernetes.exporter_pods import ExporterEndpoint, PageAddress, endpoints, exporter_pod
from tests.kubernetes.fake_api_server import Pod, pod

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
    assert list(found) == [ExporterEndpoint("gpu-operator/nvidia-dcgm-exporter", url, "a")]
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
