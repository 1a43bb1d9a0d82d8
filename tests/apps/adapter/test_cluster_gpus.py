"""The rows of a cluster, with a fetcher and a clock made by hand: what is old, gone, or has never been read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pulsed.apps.adapter.cluster_gpus import ClusterGpus, ClusterPod, PodNames, daemon_page, pod_reader
from pulsed.apps.adapter.documents import scale_metrics
from pulsed.apps.adapter.metrics_api import MetricsApi, RequestFailed
from pulsed.errors import ScrapeFailed
from pulsed.kubernetes.api_client import ApiClient, ClusterAccess
from pulsed.kubernetes.exporter_pods import PageAddress
from pulsed.kubernetes.resource_watch import ResourceWatch
from pulsed.kubernetes.workload_resolver import WorkloadResolver
from pulsed.owners.attribution.pod_workloads import PodSettings
from tests.support.kubernetes.fake_api_server import Pod, pod, reference
from tests.support.kubernetes.gpu_cluster import DAEMON_LABELS

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
        client = ApiClient(ClusterAccess("https://127.0.0.1:1"), limits=())
        names = PodNames(WorkloadResolver(client), PodSettings(""))
        self._read = pod_reader([SELECTOR], ["gpu"])
        self.watch: ResourceWatch[ClusterPod] = ResourceWatch(client, "/api/v1/pods", {}, self._read)
        self.watch.is_listed = True
        self.gpus = ClusterGpus(lambda url: self.fetch(url), self.watch, names, PAGE, 30.0, lambda: self.now)

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
        return {row.pod: row.stale for row in self.gpus.in_namespace("ml").rows}

    def answer(self, metric: str, workload: str = "deployments.apps/infer", min_coverage: float = 0.5) -> str:
        """Return a number, with what it leaves out, or why there is none."""
        api = MetricsApi(self.gpus, scale_metrics([FIELD]), min_coverage)
        path = f"custom.metrics.k8s.io/v1beta2/namespaces/ml/{workload}/gpu_real_utilization{metric}"
        warnings: list[str] = []
        try:
            return " ".join([api.get(path.split("/"), {}, warnings.append)["items"][0]["value"], *warnings])
        except RequestFailed as error:
            return f"{error.code} {error}"


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
    assert cluster.gpus.in_namespace("other").rows == []


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
    assert [(row.pod, row.stale) for row in cluster.gpus.in_namespace("ml").rows] == [("pod-a", False)] * 2, (
        "rows of one page stay"
    )
    cluster.pages["10.0.0.1"] = cluster.pages.pop("10.0.0.2")
    cluster.now += 31.0
    await cluster.gpus.read()
    assert [(row.pod, row.stale) for row in cluster.gpus.in_namespace("ml").rows] == [("pod-a", False)] * 2


def infer(name: str, gpus: int = 1, *, ready: bool = True) -> Pod:
    """Return a pod of the workload, whose controller needs no request."""
    return pod(name, namespace="ml", owner=reference("apps/v1", "StatefulSet", "infer"), gpus=gpus, ready=ready)


SET = "statefulsets.apps/infer"


async def test_a_daemon_that_was_never_read_blocks_the_workloads_of_its_pods_only() -> None:
    cluster = cluster_of(a="10.0.0.1")
    cluster.put(daemon("b", "10.0.0.2"), pod("web", namespace="ml"))
    await cluster.gpus.read()
    assert cluster.answer("_sum") == "500m", "no pod of it is on that node"
    assert cluster.answer("_sum", SET) == "404 StatefulSet ml/infer has no GPU"
    cluster.put(infer("infer-0", gpus=2))
    unread = f"{FIELD}: 2 of 2 GPUs are stale, 0 have no value; pods: infer-0"
    for metric in ("", "_sum"):
        expected = f"503 gpu_real_utilization{metric} of StatefulSet ml/infer is not known: {unread}"
        assert cluster.answer(metric, SET) == expected
    assert cluster.answer("_sum") == "500m"
    cluster.pages["10.0.0.2"] = page("b", "infer-0").replace("Deployment", "StatefulSet")
    await cluster.gpus.read()
    assert cluster.answer("_sum", SET) == "500m"


@pytest.mark.parametrize("ended", ["", "deleted", "not ready", "done", "no GPU"])
@pytest.mark.parametrize("read", [True, False])
async def test_the_gpus_of_pods_that_end_are_left_out(ended: str, read: bool) -> None:
    """As those of a dead node, whose daemon was read before or never; until they end, a sum is not known."""
    cluster = cluster_of(a="10.0.0.1")
    cluster.pages["10.0.0.1"] = page("a", "infer-0", "infer-1").replace("Deployment", "StatefulSet")
    lost = infer("infer-2", gpus=int(ended != "no GPU"), ready=ended != "not ready")
    if ended == "deleted":
        lost["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    lost["status"]["phase"] = "Succeeded" if ended == "done" else "Running"
    cluster.put(infer("infer-0"), infer("infer-1"), daemon("b", "10.0.0.2"), lost)
    if read:
        cluster.pages["10.0.0.2"] = page("b", "infer-2").replace("Deployment", "StatefulSet")
        await cluster.gpus.read()
        assert cluster.answer("_sum", SET) == "1500m", "while its values are current, they count"
        del cluster.pages["10.0.0.2"]
        cluster.now += 31.0
    await cluster.gpus.read()
    known = ended not in ("", "no GPU" if read else "")
    without = f"{FIELD}: 1 of 3 GPUs are stale, 0 have no value; pods: infer-2"
    left_out = f" gpu_real_utilization_sum of StatefulSet ml/infer is without these GPUs: {without}" if read else ""
    refused = f"503 gpu_real_utilization_sum of StatefulSet ml/infer is not known: {without}"
    assert cluster.answer("_sum", SET) == (f"1{left_out}" if known else refused)


async def test_a_mean_needs_its_part_of_the_gpus() -> None:
    cluster = cluster_of(a="10.0.0.1")
    cluster.pages["10.0.0.1"] = page("a", "infer-0").replace("Deployment", "StatefulSet")
    cluster.put(infer("infer-0"), infer("infer-1"), infer("infer-2", gpus=2))
    await cluster.gpus.read()
    unknown = f"{FIELD}: 3 of 4 GPUs are stale, 0 have no value; pods: infer-1, infer-2"
    warning = f"gpu_real_utilization of StatefulSet ml/infer is without these GPUs: {unknown}"
    assert cluster.answer("", SET, 0.25) == f"500m {warning}"
    assert cluster.answer("", SET, 0.26) == (
        f"503 gpu_real_utilization of StatefulSet ml/infer is not known: {unknown}; "
        "adapter.min_coverage is 0.26, and this is 0.25"
    )


async def test_a_pod_of_an_unknown_workload_may_be_of_any_until_it_is_resolved() -> None:
    cluster = cluster_of(a="10.0.0.1")
    owner = reference("apps/v1", "ReplicaSet", "infer-7d4")
    cluster.put(pod("infer-7d4-x", namespace="ml", owner=owner, gpus=1), pod("x", namespace="other", gpus=1))
    await cluster.gpus.read()
    await cluster.gpus.name_pods()  # the API server does not answer
    assert "the workload of pod ml/infer-7d4-x is not known" in cluster.answer("_sum")
    assert cluster.answer("") == "500m"
    assert "is not known" in cluster.answer("", "jobs.batch/other"), "its absence is not certain"


async def test_pods_that_may_be_unknown_make_sums_and_absence_unknown() -> None:
    """While the watch of the pods fails, rows of new pods are left out."""
    cluster = cluster_of(a="10.0.0.1")
    await cluster.gpus.read()
    cluster.watch.error = "API server X answered 403 Forbidden"
    assert cluster.answer("") == "500m"
    expected = f"503 gpu_real_utilization_sum of Deployment ml/infer is not known: {cluster.watch.error}"
    assert cluster.answer("_sum") == expected
    absent = "deployments.apps/other"
    assert cluster.answer("", absent).startswith("503 gpu_real_utilization of Deployment ml/other is not known")
    cluster.watch.error = ""
    assert cluster.answer("", absent) == "404 Deployment ml/other has no GPU"
    assert cluster.answer("_sum") == "500m"


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
    assert list(cluster.gpus.daemons.values()) == [
        f"{cluster.urls[0]} is not served by this version of pulsed, or has more than 4096 rows"
    ]


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
    assert found.metadata.labels == DAEMON_LABELS
    assert (found.daemon is not None) == is_daemon


def test_the_page_of_daemons() -> None:
    assert daemon_page(80, "https", "/p", ["a", "b"]) == PageAddress(80, "https", "/p/autoscale/v1/gpus?fields=a,b")


async def test_numbers_outside_of_the_metrics_apis_are_refused_alike() -> None:
    cluster = cluster_of(a="10.0.0.1", b="10.0.0.2")
    api = MetricsApi(cluster.gpus, scale_metrics([FIELD]), 0.5)

    def number(path: str) -> str:
        try:
            document = api.number(path.split("/"))
        except RequestFailed as error:
            return f"{error.code} {error}"
        return " ".join([str(document["value"]), *document["warnings"]])

    assert number("avg/ml/Deployment/infer/real_utilization").startswith("503 the daemons")
    await cluster.gpus.read()
    assert number("sum/ml/Deployment/infer/real_utilization_ratio") == "1.0"
    assert number("avg/ml/Pod/pod-a/real_utilization") == "0.5"
    assert number("avg/ml/Deployment/other/real_utilization") == "404 Deployment ml/other has no GPU"
    assert number("median/ml/Deployment/infer/real_utilization") == "404 'median' is not one of sum, avg, max, min"
    assert "did you mean real_utilization_ratio?" in number("avg/ml/Deployment/infer/real_utilisation_ratio")
    assert number("avg/ml").startswith("404 a number is at")
    cluster.pages.pop("10.0.0.2")
    cluster.now += 31.0
    await cluster.gpus.read()
    assert number("avg/ml/Deployment/infer/real_utilization").startswith("0.5 avg of real_utilization_ratio of")
    assert number("sum/ml/Deployment/infer/real_utilization").startswith("503 sum of real_utilization_ratio of")


async def test_a_pod_with_a_claim_on_a_node_that_is_not_read_is_one_unknown_gpu() -> None:
    cluster = cluster_of(a="10.0.0.1")
    claimed: dict[str, Any] = {
        "owner": reference("apps/v1", "Deployment", "infer"),
        "claims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
    for name, node in (("claims", "b"), ("network", "a")):
        cluster.put(pod(name, node=node, namespace="ml", **claimed))
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False, "claims": True}, "what is on the node of a daemon, it knows"
    assert "503" in cluster.answer("_sum", min_coverage=0.0)
    assert cluster.gpus.counts() == (1, 1)
    cluster.pages["10.0.0.2"] = page("b", "claims")
    cluster.put(daemon("b", "10.0.0.2"))
    await cluster.gpus.read()
    assert cluster.stale() == {"pod-a": False, "claims": False}
