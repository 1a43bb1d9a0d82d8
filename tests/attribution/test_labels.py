from __future__ import annotations

from pulsed.attribution.labels import attribution_of, is_relabelled
from pulsed.attribution.model import NO_USERS, Attribution, Pod


def test_nobody() -> None:
    assert attribution_of([{"gpu": "0"}, {"vgpu": "0"}]) is NO_USERS


def test_pods_are_unique_and_in_order() -> None:
    rows = [
        {"pod": "b", "namespace": "ml", "container": "main"},
        {"pod": "a", "namespace": "ml", "container": "main"},
        {"pod": "b", "namespace": "ml", "container": "main"},
    ]
    assert attribution_of(rows).pods == (Pod("ml", "b", "main"), Pod("ml", "a", "main"))


def test_containers_and_namespaces_make_pods_differ() -> None:
    rows = [
        {"pod": "a", "namespace": "ml", "container": "main"},
        {"pod": "a", "namespace": "ml", "container": "sidecar"},
        {"pod": "a", "namespace": "web", "container": "main"},
    ]
    assert len(attribution_of(rows).pods) == 3


def test_replicas_are_one_pod() -> None:
    pod = {"pod": "a", "namespace": "ml", "container": "main"}
    assert attribution_of([{**pod, "vgpu": "0"}, {**pod, "vgpu": "3"}]).pods == (Pod("ml", "a", "main"),)


def test_an_uid_on_any_row_counts() -> None:
    pod = {"pod": "a", "namespace": "ml"}
    assert attribution_of([pod, {**pod, "pod_uid": "u-1"}]).pods == (Pod("ml", "a", uid="u-1"),)


def test_names_of_the_old_namespace() -> None:
    row = {"pod_name": "a", "pod_namespace": "ml", "container_name": "main"}
    assert attribution_of([row]).pods == (Pod("ml", "a", "main"),)


def test_relabelled_pages_keep_their_own_pods() -> None:
    own = {"pod": "nvidia-dcgm-exporter-x7", "namespace": "gpu-operator", "container": "exporter"}
    used = {**own, "exported_pod": "a", "exported_namespace": "ml", "exported_container": "main", "hpc_job": "7"}
    assert is_relabelled([own, used])
    assert attribution_of([used], relabelled=True) == Attribution((Pod("ml", "a", "main"),), ("7",))
    assert attribution_of([own], relabelled=True) == NO_USERS


def test_the_exporters_own_pod_is_nobody() -> None:
    own = {"pod": "nvidia-dcgm-exporter-x7", "namespace": "gpu-operator", "container": "exporter"}
    assert not is_relabelled([own])
    assert attribution_of([own]) == NO_USERS


def test_jobs_are_unique_and_in_order() -> None:
    assert attribution_of([{"hpc_job": "12"}, {"hpc_job": "11"}, {"hpc_job": "12"}]).slurm_jobs == ("12", "11")
