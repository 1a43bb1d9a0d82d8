"""The rows of a cluster, with a fetcher and a clock made by hand: what is old, gone, or has never been read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from pulsed.adapter.cluster_gpus import ClusterGpus, ClusterPod, daemon_page, pod_reader
from pulsed.adapter.documents import scale_metrics
from pulsed.adapter.metrics_api import MetricsApi, RequestFailed
from pulsed.errors import ScrapeFailed
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess
from pulsed.kubernetes.exporter_pods import PageAddress
from pulsed.kubernetes.resource_watch import ResourceWatch
from support.kubernetes.fake_api_server import Pod, pod
from support.kubernetes.gpu_cluster import DAEMON_LABELS

FIELD = "real_utilization_ratio"
SELECTOR = "app.kubernetes.io/name=pulsed"
PAGE = daemon_page("http", "http", "", [FIELD])


def page(node: str, *pods: str, stale: bool = False) -> str:
    """Return the rows of a node."""
    rows = [
        {
            "namespace": "ml", "pod": name, "container": "main", "workload": "infer", "workload_kind": "Deployment",
            "gpu": f"{node}/{name}", "share": 1.0, "time": 5.0, "stale": stale, "values": {FIELD: 0.5},
        }
        for name in pods
    ]  # fmt: skip
    return json.dumps({"node": node, "time": "2026-01-01T00:00:00.000Z", "gpus": rows})


def daemon(node: str, address: str, **more: object) -> Pod:
    """Return the pod of a daemon."""
    return pod(
        f"pulsed-{node}", address, 9401, node=node, namespace="gpu", port_name="http", labels=DAEMON_LABELS, **more
    )


@dataclass
class Cluster:
    """The pods of a cluster, and the pages of its daemons by address; one without a page does not answer."""

    pages: dict[str, str] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)
    now: float = 100.0

    def __post_init__(self) -> None:
        client = ApiClient(ClusterAccess("https://127.0.0.1:1"))
        self._read = pod_reader([SELECTOR], ["gpu"])
        self.watch: ResourceWatch[ClusterPod] = ResourceWatch(client, "/api/v1/pods", {}, self._read)
        self.watch.is_listed = True
        self.gpus = ClusterGpus(self, self.watch, PAGE, 30.0, lambda: self.now)

    async def fetch(self, url: str) -> bytes:
        """Return a page."""
        self.urls.append(url)
        for address, text in self.pages.items():
            if f"//{address}:" in url:
                return text.encode()
        raise ScrapeFailed("no answer", "")

    def put(self, *pods: Pod) -> None:
        """Add pods."""
        for each in pods:
            self.watch.objects[each["metadata"]["namespace"], each["metadata"]["name"]] = self._read(each)

    def delete(self, namespace: str, name: str) -> None:
        """Delete a pod."""
        del self.watch.objects[namespace, name]

    def stale(self) -> Mapping[str, bool]:
        """Return whether the row of each pod is stale."""
        return {row.pod: row.stale for row in self.gpus.rows("ml")}


def cluster_of(**nodes: str) -> Cluster:
    """Return a cluster with a pod on each node, given the nodes' addresses."""
    cluster = Cluster()
    for node, address in nodes.items():
        cluster.put(daemon(node, address), pod(f"pod-{node}", namespace="ml"))
        cluster.pages[address] = page(node, f"pod-{node}")
    return cluster


async def test_rows_become_stale_and_stay_while_a_daemon_does_not_answer() -> None:
    cluster = cluster_of(a="10.0.0.1", b="10.0.0.2")
    before = cluster.gpus.is_ready
    await cluster.gpus.read()
    assert (before, cluster.gpus.is_ready) == (False, True)
    assert cluster.stale() == {"pod-a": False, "pod-b": False}
    del cluster.pages["10.0.0.2"]
    cluster.now += 31.0
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False, "pod-b": True}
    cluster.now += 3600.0
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False, "pod-b": True}, "not known is not gone"
    cluster.pages["10.0.0.2"] = page("b", "pod-b")
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False, "pod-b": False}


async def test_rows_that_a_daemon_calls_stale_are_stale() -> None:
    cluster = cluster_of(a="10.0.0.1")
    cluster.pages["10.0.0.1"] = page("a", "pod-a", stale=True)
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": True}


async def test_rows_end_with_their_pods_and_nodes_with_their_last() -> None:
    cluster = cluster_of(a="10.0.0.1")
    await cluster.gpus.read()
    cluster.delete("ml", "pod-a")
    assert cluster.stale() == {}
    cluster.delete("gpu", "pulsed-a")
    cluster.now += 31.0
    await cluster.gpus.read()
    cluster.put(pod("pod-a", namespace="ml"))
    assert cluster.stale() == {}, "the node's rows are dropped"
    assert cluster.gpus.rows("other") == []


async def test_a_replaced_daemon_reports_the_same_node() -> None:
    cluster = cluster_of(a="10.0.0.1")
    await cluster.gpus.read()
    cluster.delete("gpu", "pulsed-a")
    cluster.now += 31.0
    assert cluster.stale() == {"pod-a": True}
    new = daemon("a", "10.0.0.9")
    new["metadata"]["name"] = "pulsed-a-2"
    cluster.put(new)
    cluster.pages["10.0.0.9"] = page("a", "pod-a")
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False}


async def test_a_daemon_that_claims_the_node_of_another_is_refused() -> None:
    cluster = cluster_of(a="10.0.0.1", b="10.0.0.2")
    cluster.pages["10.0.0.1"] = page("b", "pod-a")
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-b": False}
    (error,) = filter(None, cluster.gpus.daemons.values())
    assert "gives b as its node, but its pod runs on a, and another daemon on b" in error
    assert error == cluster.gpus.missing()


async def test_a_daemon_may_call_its_node_as_no_other_is_called() -> None:
    """Such as one without a node's name in its configuration, or one that reads many nodes."""
    cluster = cluster_of(a="10.0.0.1", b="10.0.0.2")
    for node, address in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
        cluster.pages[address] = page("central", f"pod-{node}")
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False, "pod-b": False}


async def test_gpus_that_two_daemons_have_count_once_as_the_last_one_read_them() -> None:
    """A daemon of another DaemonSet, or a bare one that was replaced and runs elsewhere now."""
    cluster = cluster_of(a="10.0.0.1")
    await cluster.gpus.read()
    del cluster.pages["10.0.0.1"]
    cluster.now += 31.0
    assert cluster.stale() == {"pod-a": True}
    other = daemon("a", "10.0.0.2", owner="central")
    other["metadata"]["name"] = "central"
    cluster.put(other)
    cluster.pages["10.0.0.2"] = page("a", "pod-a", "pod-a")
    await cluster.gpus.read()
    assert [(row.pod, row.stale) for row in cluster.gpus.rows("ml")] == [("pod-a", False)] * 2, "rows of one page stay"
    cluster.pages["10.0.0.1"] = cluster.pages.pop("10.0.0.2")
    cluster.now += 31.0
    await cluster.gpus.read()
    assert [(row.pod, row.stale) for row in cluster.gpus.rows("ml")] == [("pod-a", False)] * 2


@pytest.mark.parametrize(("ready", "known"), [(True, False), (False, True)])
async def test_a_ready_daemon_that_was_never_read_makes_sums_unknown(ready: bool, known: bool) -> None:
    cluster = cluster_of(a="10.0.0.1")
    await cluster.gpus.read()
    cluster.put(daemon("b", "10.0.0.2", ready=ready))
    assert (cluster.gpus.missing() == "") == known, "not tried yet"
    await cluster.gpus.read()
    assert cluster.gpus.is_ready
    assert (cluster.gpus.missing() == "") == known
    cluster.pages["10.0.0.2"] = page("b")
    await cluster.gpus.read()
    assert cluster.gpus.missing() == ""


async def test_pods_that_may_be_unknown_make_sums_and_absence_unknown() -> None:
    """While the watch of the pods fails, rows of new pods are left out."""
    cluster = cluster_of(a="10.0.0.1")
    await cluster.gpus.read()
    api = MetricsApi(cluster.gpus, scale_metrics([FIELD]))
    path = "custom.metrics.k8s.io/v1beta2/namespaces/ml/deployments.apps/infer/gpu_real_utilization"
    cluster.watch.error = "API server X answered 403 Forbidden"
    assert api.get(path.split("/"), {})["items"][0]["value"] == "500m"
    with pytest.raises(
        RequestFailed, match="gpu_real_utilization_sum of Deployment ml/infer is not known: API server X"
    ):
        api.get(f"{path}_sum".split("/"), {})
    absent = path.replace("infer", "other").split("/")
    with pytest.raises(RequestFailed, match="gpu_real_utilization of Deployment ml/other is not known"):
        api.get(absent, {})
    cluster.watch.error = ""
    with pytest.raises(RequestFailed, match="Deployment ml/other has no GPU"):
        api.get(absent, {})
    assert api.get(f"{path}_sum".split("/"), {})["items"][0]["value"] == "500m"


async def test_an_internal_error_ends_no_later_reading(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(a="10.0.0.1")
    cluster.pages["10.0.0.1"] = page("a", "pod-a")
    fetch, failures = cluster.fetch, iter([RuntimeError("bug")])

    async def failing(url: str) -> bytes:
        for error in failures:
            raise error
        return await fetch(url)

    monkeypatch.setattr(cluster, "fetch", failing)
    reading = asyncio.create_task(cluster.gpus.run(0.01))
    for _ in range(3000):
        if cluster.stale():
            break
        await asyncio.sleep(0.01)
    reading.cancel()
    assert cluster.stale() == {"pod-a": False}
    assert [message.message for message in caplog.records if message.exc_info] == [
        "internal error in the reading of daemons; please report it"
    ]


async def test_keys_of_newer_daemons_are_ignored() -> None:
    cluster = cluster_of(a="10.0.0.1")
    document = json.loads(page("a", "pod-a"))
    document["gpus"][0]["new"] = document["new"] = {"a": 1}
    cluster.pages["10.0.0.1"] = json.dumps(document)
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False}


NONE_OF_A_GPU = page("a", "pod-a").replace('"share": 1.0', '"share": 0.0')


@pytest.mark.parametrize(
    "text", ["", "[]", "<html>", '{"node": "a"}', page("a", "pod-a").replace("0.5", "NaN"), NONE_OF_A_GPU]
)
async def test_an_answer_that_is_none_is_an_error(text: str) -> None:
    cluster = cluster_of(a="10.0.0.1")
    cluster.pages["10.0.0.1"] = text
    await cluster.gpus.read()
    assert cluster.stale() == {}
    assert list(cluster.gpus.daemons.values()) == [f"{cluster.urls[0]} is not served by this version of pulsed"]


@pytest.mark.parametrize(
    ("selectors", "namespaces", "is_daemon"),
    [
        ([SELECTOR], None, True),
        (["x", "app.kubernetes.io/name"], ["other", "gpu"], True),
        ([SELECTOR], ["other"], False),
        ([SELECTOR], [], False),
        (["app=other"], None, False),
    ],
)
def test_daemons_are_selected_by_labels_and_namespaces(
    selectors: list[str], namespaces: list[str] | None, is_daemon: bool
) -> None:
    found = pod_reader(selectors, namespaces)(daemon("a", "10.0.0.1"))
    assert found.labels == DAEMON_LABELS
    assert (found.daemon is not None) == is_daemon


def test_the_page_of_daemons() -> None:
    assert daemon_page(80, "https", "/p", ["a", "b"]) == PageAddress(80, "https", "/p/autoscale/v1/gpus?fields=a,b")
