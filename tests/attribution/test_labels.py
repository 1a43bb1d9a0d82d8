from __future__ import annotations

from pulsed.attribution.labels import is_relabelled, owners_of
from pulsed.model.owner import Owner, pod


def test_a_page_without_owners_does_not_mean_free() -> None:
    assert owners_of([{"gpu": "0"}, {"vgpu": "0"}]) is None


def test_pods_are_unique_and_in_order() -> None:
    rows = [
        {"pod": "b", "namespace": "ml", "container": "main"},
        {"pod": "a", "namespace": "ml", "container": "main"},
        {"pod": "b", "namespace": "ml", "container": "main"},
    ]
    assert owners_of(rows) == (pod("ml", "b", "main"), pod("ml", "a", "main"))


def test_containers_and_namespaces_make_pods_differ() -> None:
    rows = [
        {"pod": "a", "namespace": "ml", "container": "main"},
        {"pod": "a", "namespace": "ml", "container": "sidecar"},
        {"pod": "a", "namespace": "web", "container": "main"},
    ]
    assert len(owners_of(rows) or ()) == 3


def test_replicas_are_one_pod() -> None:
    row = {"pod": "a", "namespace": "ml", "container": "main"}
    assert owners_of([{**row, "vgpu": "0"}, {**row, "vgpu": "3"}]) == (pod("ml", "a", "main"),)


def test_an_uid_on_any_row_counts() -> None:
    row = {"pod": "a", "namespace": "ml"}
    assert owners_of([row, {**row, "pod_uid": "u-1"}]) == (pod("ml", "a", uid="u-1"),)


def test_names_of_the_old_namespace() -> None:
    row = {"pod_name": "a", "pod_namespace": "ml", "container_name": "main"}
    assert owners_of([row]) == (pod("ml", "a", "main"),)


def test_relabelled_pages_keep_their_own_pods() -> None:
    own = {"pod": "nvidia-dcgm-exporter-x7", "namespace": "gpu-operator", "container": "exporter"}
    used = {**own, "exported_pod": "a", "exported_namespace": "ml", "exported_container": "main", "hpc_job": "7"}
    assert is_relabelled([own, used])
    assert owners_of([used], relabelled=True) == (Owner("slurm_job", "7"), pod("ml", "a", "main"))
    assert owners_of([own], relabelled=True) is None


def test_the_exporters_own_pod_is_nobody() -> None:
    own = {"pod": "nvidia-dcgm-exporter-x7", "namespace": "gpu-operator", "container": "exporter"}
    assert not is_relabelled([own])
    assert owners_of([own]) is None


def test_jobs_are_unique_and_in_order() -> None:
    assert owners_of([{"hpc_job": "12"}, {"hpc_job": "11"}, {"hpc_job": "12"}]) == (
        Owner("slurm_job", "12"),
        Owner("slurm_job", "11"),
    )
