"""What each pod uses of a shared GPU, by the rows of dcgm-exporter from 4.8.2 on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.model.owner import OwnerUse
from pulsed.model.raw_tick import RawValue
from pulsed.translate.translator import Translator
from tests.support.ticks import readings_of, uses_of
from tests.translate.build import Row, tick

GPU = {"gpu": "0", "UUID": "GPU-a", "modelName": "NVIDIA L4", "hostname": "n1"}
MEMORY, ACTIVITY = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"
MIB = 2.0**20
Keys = Mapping[tuple[str, str], OwnerUse]


def of_pod(name: str, container: str = "main", replica: str = "0", **labels: str) -> dict[str, str]:
    return {**GPU, "container": container, "namespace": "ml", "pod": name, "vgpu": replica, **labels}


def uses(*rows: Row) -> Keys:
    """What the owners of the only GPU use; empty if it is not known."""
    return uses_of(Translator().translate(tick(rows))).get(0, {})  # type: ignore[return-value]


def family(name: str, whole: RawValue, **pods: RawValue) -> list[Row]:
    rows: list[Row] = [(name, of_pod(each), value) for each, value in pods.items()]
    return rows if whole is None else [(name, GPU, whole), *rows]


def test_memory_and_activity_of_each_pod_are_its_own() -> None:
    found = uses(*family(MEMORY, 9000, a=6000, b=2500), *family(ACTIVITY, 50, a=25, b=25))
    assert found == {
        ("pod", "ml/a/main"): OwnerUse(6000 * MIB, 0.5),
        ("pod", "ml/b/main"): OwnerUse(2500 * MIB, 0.5),
    }


@pytest.mark.parametrize(
    ("memory", "activity"),
    [
        (family(MEMORY, None, a=6000, b=2500), []),
        (family(MEMORY, 9000, a=6000, b=3091), []),
        ([(MEMORY, GPU, 9000), (MEMORY, of_pod("a"), 6000), ("DCGM_FI_DEV_GPU_TEMP", of_pod("b"), 50)], []),
        ([*family(MEMORY, 9000, a=6000, b=None), ("DCGM_FI_DEV_GPU_TEMP", of_pod("b"), 50)], []),
        ([], family(ACTIVITY, 40, a=40, b=11)),
        ([], family(ACTIVITY, 3, a=0, b=0)),
    ],
    ids=["no row of the GPU", "more memory", "a pod without a row", "a row without a value", "more activity", "idle"],
)
def test_rows_that_are_not_those_of_the_owners_are_ignored(memory: list[Row], activity: list[Row]) -> None:
    assert uses(*memory, *activity) == {}


def test_rows_may_add_up_to_little_more_than_the_gpu_has() -> None:
    found = uses(*family(MEMORY, 9000, a=6000, b=3090), *family(ACTIVITY, 40, a=40, b=10))
    assert found == {
        ("pod", "ml/a/main"): OwnerUse(6000 * MIB, 0.8),
        ("pod", "ml/b/main"): OwnerUse(3090 * MIB, 0.2),
    }


def test_containers_and_replicas_of_a_pod_are_counted_once() -> None:
    found = uses(
        (MEMORY, GPU, 9000),
        (MEMORY, of_pod("a", "one", "0"), 4000),
        (MEMORY, of_pod("a", "one", "1"), 4000),
        (MEMORY, of_pod("a", "two", "2"), 4000),
        (MEMORY, of_pod("b", "main", "3"), 5000),
        *family(ACTIVITY, 100),
        *[(ACTIVITY, of_pod("a", container), 75) for container in ("one", "two")],
        (ACTIVITY, of_pod("b"), 25),
    )
    assert found == {
        ("pod", "ml/a/one"): OwnerUse(2000 * MIB, 0.375),
        ("pod", "ml/a/two"): OwnerUse(2000 * MIB, 0.375),
        ("pod", "ml/b/main"): OwnerUse(5000 * MIB, 0.25),
    }


def test_each_gpu_has_its_own_owners() -> None:
    other = {**GPU, "gpu": "1", "UUID": "GPU-b"}
    rows = [*family(MEMORY, 9000, a=6000, b=2500), (MEMORY, other, 100)]
    translated = Translator().translate(tick(rows))
    assert list(uses_of(translated)) == [0]
    assert [reading.memory_used_bytes for reading in readings_of(translated)] == [9000 * MIB, 100 * MIB]
