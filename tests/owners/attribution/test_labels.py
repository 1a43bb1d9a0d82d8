from __future__ import annotations

import pytest

from pulsed.model.owner import Owner, Owners, pod
from pulsed.owners.attribution.source import is_relabelled, owners_of


def worker(job: str, pod: str) -> Owner:
    """A job in the container `main` of a pod."""
    return Owner("slurm_job", job, name=pod, namespace="ml", container="main")


MAIN = {"pod": "a", "namespace": "ml", "container": "main"}
EXPORTER = {"pod": "nvidia-dcgm-exporter-x7", "namespace": "gpu-operator", "container": "exporter"}


@pytest.mark.parametrize(
    ("rows", "owners"),
    [
        ([{"gpu": "0"}, {"vgpu": "0"}], None),
        ([{**MAIN, "pod": "b"}, MAIN, {**MAIN, "pod": "b"}], (pod("ml", "b", "main"), pod("ml", "a", "main"))),
        (
            [MAIN, {**MAIN, "container": "sidecar"}, {**MAIN, "namespace": "web"}],
            (pod("ml", "a", "main"), pod("ml", "a", "sidecar"), pod("web", "a", "main")),
        ),
        ([{**MAIN, "vgpu": "0"}, {**MAIN, "vgpu": "3"}], (pod("ml", "a", "main"),)),
        ([MAIN, {**MAIN, "pod_uid": "u-1"}], (pod("ml", "a", "main", "u-1"),)),
        ([{"pod_name": "a", "pod_namespace": "ml", "container_name": "main"}], (pod("ml", "a", "main"),)),
        ([EXPORTER], None),
        (
            [{"hpc_job": "12"}, {"hpc_job": "11"}, {"hpc_job": "12"}],
            (Owner("slurm_job", "12"), Owner("slurm_job", "11")),
        ),
        ([{**MAIN, "hpc_job": "12"}, {**MAIN, "hpc_job": "11"}], (worker("12", "a"), worker("11", "a"))),
        ([{**MAIN, "hpc_job": "12"}, {**MAIN, "pod": "b"}], (worker("12", "a"), pod("ml", "b", "main"))),
        ([{"container": "t1"}, {"container": "t1"}, {"gpu": "0"}], (Owner("container", "t1", container="t1"),)),
        ([{"container": "dcgm-exporter"}], None),
    ],
    ids=[
        *("none is not free", "each once", "containers", "replicas", "uid", "old namespace", "exporter", "jobs"),
        *("jobs of a worker that is a pod", "a worker and a pod", "container of Docker", "exporter in Docker"),
    ],
)
def test_owners_of_the_rows_of_a_device(rows: list[dict[str, str]], owners: Owners | None) -> None:
    assert owners_of(rows) == owners
    assert not is_relabelled(rows)


def test_relabelled_pages_keep_their_own_pods() -> None:
    used = {**EXPORTER, "exported_pod": "a", "exported_namespace": "ml", "exported_container": "main", "hpc_job": "7"}
    assert is_relabelled([EXPORTER, used])
    assert owners_of([used], relabelled=True) == (worker("7", "a"),)
    assert owners_of([EXPORTER], relabelled=True) is None
