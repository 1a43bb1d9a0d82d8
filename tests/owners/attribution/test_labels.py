from __future__ import annotations

import pytest

from pulsed.model.owner import Owner, Owners, pod
from pulsed.owners.attribution.source import is_relabelled, owners_of

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
    ],
    ids=["none is not free", "each once", "containers", "replicas", "uid", "old namespace", "exporter", "jobs"],
)
def test_owners_of_the_rows_of_a_device(rows: list[dict[str, str]], owners: Owners | None) -> None:
    assert owners_of(rows) == owners
    assert not is_relabelled(rows)


def test_relabelled_pages_keep_their_own_pods() -> None:
    used = {**EXPORTER, "exported_pod": "a", "exported_namespace": "ml", "exported_container": "main", "hpc_job": "7"}
    assert is_relabelled([EXPORTER, used])
    assert owners_of([used], relabelled=True) == (Owner("slurm_job", "7"), pod("ml", "a", "main"))
    assert owners_of([EXPORTER], relabelled=True) is None
