"""Workloads that the adapter resolves itself, against an API server over real sockets."""

from __future__ import annotations

from pulsed.apps.adapter.cluster_gpus import UNKNOWN, PodNames
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.objects import PodMetadata, pod_metadata
from pulsed.kubernetes.workload_resolver import RENEWAL_SECONDS, WorkloadResolver
from pulsed.owners.attribution.pod_workloads import PodSettings
from tests.support.clocks import ManualClock
from tests.support.kubernetes.exchanges import access_to
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.waiting import SECONDS


def pod_of(pod_name: str, replica_set: str, **labels: str) -> PodMetadata:
    """Return a pod of a ReplicaSet with these labels."""
    owner = reference("apps/v1", "ReplicaSet", replica_set)
    return pod_metadata(pod(pod_name, namespace="ml", owner=owner, labels=labels), lambda _: True)


async def test_a_workload_is_requested_once_and_stays_while_the_api_server_refuses(server: FakeApiServer) -> None:
    server.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "web"))
    clock, client = ManualClock(), ApiClient(access_to(server), timeout=SECONDS)
    names = PodNames(WorkloadResolver(client, (), clock), PodSettings("", ("name",)))
    one, two = pod_of("a", "web-7d4"), pod_of("b", "web-7d4", name="shown")
    assert names.workload(one) == UNKNOWN
    await names.resolve([one, two])
    assert names.workload(one) == ("Deployment", "web")
    assert names.workload(two) == ("Deployment", "shown"), "a label names it, as for the daemons"
    assert len(server.requests) == 1
    clock.now += RENEWAL_SECONDS + 1
    server.denied = True
    await names.resolve([one, two])
    assert names.workload(one) == ("Deployment", "web")
    assert names.workload(two) == ("Deployment", "shown")
    assert len(server.requests) == 2
    await client.close()
