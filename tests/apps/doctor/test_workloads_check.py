"""Doctor names what is missing for the workloads of pods."""

from __future__ import annotations

import pytest

from tests.apps.doctor.setting import configured, report, told
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod


def settings(server: FakeApiServer) -> dict[str, object]:
    return {
        "kubernetes.server": server.url,
        "kubernetes.token_file": str(server.token_file),
        "kubernetes.ca_file": str(server.ca_file),
        "kubernetes.timeout": "2s",
        "node": "node-a",
        "attribution.workloads.enabled": True,
    }


def test_what_is_readable_and_what_is_not(server: FakeApiServer) -> None:
    config = configured(more=settings(server))
    assert "kubernetes: there is no pod on node node-a; see whether that is the node's name in Kubernetes" in told(
        config
    )
    server.put(pod("a"))
    server.put(pod("b", node="node-b"))
    assert "kubernetes: works, pods on node-a: 1\n" in told(config)
    server.denied_paths = ("/jobs/",)
    text = told(config)
    path = "/apis/batch/v1/namespaces/default/jobs/pulsed-doctor"
    assert f'answered 403 Forbidden for {path}: jobs.batch "pulsed-doctor" is forbidden: User "reader" cannot' in text
    assert 'in the namespace "default". Grant its' in text
    server.fault = 500
    _, found = report(config)
    (check,) = [each for each in found["attribution"] if each["source"] == "kubernetes"]
    assert (check["works"], "answered 500" in check["note"]) == (False, True)


def test_outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "kubernetes: this is not a pod of Kubernetes" in told(
        configured(more={"attribution.workloads.enabled": True})
    )
    assert "kubernetes:" not in told(configured())
