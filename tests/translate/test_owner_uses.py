"""What each pod uses of a shared GPU, by the rows of dcgm-exporter from 4.8.2 on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.model.owner import OwnerUse
from pulsed.model.raw_tick import RawValue
from pulsed.translate.translator import Translator
from tests.translate.build import Row, tick

GPU = {"gpu": "0", "UUID": "GPU-a", "modelName": "NVIDIA L4", "hostname": "n1"}
MEMORY, ACTIVITY = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"
MIB = 2.0**20
Keys = Mapping[tuple[str, str], OwnerUse]


def of_pod(name: str, container: str = "main", replica: str = "0", **labels: str) -> dict[str, str]:
    return {**GPU, "container": container, "namespace": "ml", "pod": name, "vgpu": replica, **labels}


def uses(*rows: Row) -> Keys:
    """What the owners of the only GPU use; empty if it is not known."""
    return Translator().translate(tick(rows)).uses.get(0, {})  # type: ignore[return-value]


def family(name: str, whole: RawValue, **pods: RawValue) -> list[Row]:
    rows: list[Row] = [(name, of_pod(each), value) for each, value in pods.items()]
    return rows if whole is None else [(name, GPU, whole), *rows]


def test_memory_and_activity_of_each_pod_are_its_own() -> None:
    found = uses(*family(MEMORY, 9000, a=6000, b=2500), *family(ACTIVITY, 100, a=75, b=25))
    assert found == {
        ("pod", "ml/a/main"): OwnerUse(6000 * MIB, 0.75),
        ("pod", "ml/b/main"): OwnerUse(2500 * MIB, 0.25),
    }


@pytest.mark.parametrize(
    ("memory", "activity"),
    [
        (family(MEMORY, None, a=6000, b=2500), []),
        (family(MEMORY, 9000, a=9000, b=9000), []),
        ([(MEMORY, GPU, 9000), (MEMORY, of_pod("a"), 6000), ("DCGM_FI_DEV_GPU_TEMP", of_pod("b"), 50)], []),
        ([*family(MEMORY, 9000, a=6000, b=None), ("DCGM_FI_DEV_GPU_TEMP", of_pod("b"), 50)], []),
        ([], family(ACTIVITY, 40, a=40, b=40)),
        ([], family(ACTIVITY, 3, a=0, b=0)),
    ],
    ids=["no row of the GPU", "repeated rows", "a pod without a row", "a row without a value", "repeated", "idle"],
)
def test_rows_that_are_not_those_of_the_owners_are_ignored(memory: list[Row], activity: list[Row]) -> None:
    assert uses(*memory, *activity) == {}


def test_containers_and_replicas_of_a_pod_are_counted_once() -> None:
    found = uses(
        (MEMORY, GPU, 9000),
        (MEMORY, of_pod("a", "one", "0"), 4000),
        (MEMORY, of_pod("a", "one", "1"), 4000),
        (MEMORY, of_pod("a", "two", "2"), 4000),
        (MEMORY, of_pod("b", "main", "3"), 5000),
    )
    assert {key: use.memory_bytes for key, use in found.items()} == {
        ("pod", "ml/a/one"): 2000 * MIB,
        ("pod", "ml/a/two"): 2000 * MIB,
        ("pod", "ml/b/main"): 5000 * MIB,
    }


def test_each_gpu_has_its_own_owners() -> None:
    other = {**GPU, "gpu": "1", "UUID": "GPU-b"}
    rows = [*family(MEMORY, 9000, a=6000, b=2500), (MEMORY, other, 100)]
    translated = Translator().translate(tick(rows))
    assert list(translated.uses) == [0]
    assert [reading.memory_used_bytes for reading in translated.readings] == [9000 * MIB, 100 * MIB]
