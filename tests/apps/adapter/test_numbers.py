"""Numbers to scale on from rows made by hand."""

from __future__ import annotations

import doctest
from typing import get_args

import pytest

from pulsed.apps.adapter import numbers as module
from pulsed.apps.adapter.numbers import How, WorkloadKey, aggregate, is_of, left_out
from pulsed.errors import NumberUnknown
from pulsed.present.autoscale import PodGpu

FIELD = "real_utilization_ratio"


def row(
    value: float | None, gpu: str = "a", pod: str = "p", share: float = 1.0, time: float = 10.0, stale: bool = False
) -> PodGpu:
    return PodGpu("ml", pod, "main", "infer", "Deployment", gpu, share, time, stale, {FIELD: value})


@pytest.mark.parametrize(
    ("rows", "sum_", "avg", "most", "least", "gpus", "pods"),
    [
        ([row(0.0)], 0.0, 0.0, 0.0, 0.0, 1, 1),
        ([row(0.9, "a", "p"), row(0.3, "b", "q")], 1.2, 0.6, 0.9, 0.3, 2, 2),
        ([row(0.9, "a", "p"), row(0.3, "b", "p")], 1.2, 0.6, 0.9, 0.3, 2, 1),
        ([row(0.8, "a", "p", 0.5), row(0.8, "a", "q", 0.5)], 0.8, 0.8, 0.8, 0.8, 1, 2),
        ([row(0.8, "a", "p", 0.25), row(0.2, "b", "q")], 0.4, 0.32, 0.8, 0.2, 2, 2),
    ],
)
def test_numbers(rows: list[PodGpu], sum_: float, avg: float, most: float, least: float, gpus: int, pods: int) -> None:
    found = {how: aggregate(rows, how, FIELD) for how in get_args(How)}
    assert {how: each.value for how, each in found.items()} == pytest.approx(
        {"sum": sum_, "avg": avg, "max": most, "min": least}
    )
    assert {(each.gpus, each.pods, each.stale) for each in found.values()} == {(gpus, pods, False)}
    assert {each.shares for each in found.values()} == {sum(each.share for each in rows)}


@pytest.mark.parametrize("left_out", [row(0.1, "b", "q", stale=True), row(None, "b", "q")])
def test_what_is_not_known_is_left_out_but_not_of_a_sum(left_out: PodGpu) -> None:
    rows = [row(0.7, time=12.0), left_out]
    for how in ("avg", "max", "min"):
        found = aggregate(rows, how, FIELD)
        assert found == (0.7, 1, 1, 1.0, 12.0, True)
    with pytest.raises(NumberUnknown, match="of 2 GPUs are stale"):
        aggregate(rows, "sum", FIELD)


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("rows", [[], [row(None)], [row(0.5, stale=True)]])
def test_without_a_current_value_there_is_no_number(rows: list[PodGpu], how: str) -> None:
    with pytest.raises(NumberUnknown):
        aggregate(rows, how, FIELD)  # type: ignore[arg-type] # parametrized


def test_a_message_names_the_first_pods() -> None:
    rows = [row(None, pod=pod, stale=pod < "c") for pod in "edcba"]
    assert left_out(rows[:3], FIELD) == f"{FIELD}: 0 of 3 GPUs are stale, 3 have no value; pods: c, d, e"
    assert left_out(rows, FIELD) == f"{FIELD}: 2 of 5 GPUs are stale, 3 have no value; pods: a, b, c and 2 more"


def test_the_time_is_that_of_the_oldest_sample() -> None:
    assert aggregate([row(0.1, time=20.0), row(0.1, "b", time=15.0)], "avg", FIELD).time == 15.0


@pytest.mark.parametrize(
    ("kind", "name", "belongs"),
    [("Deployment", "infer", True), ("Pod", "p", True), ("Pod", "infer", False), ("StatefulSet", "infer", False)],
)
def test_a_workload_is_found_by_kind_and_name_and_a_pod_by_its_own(kind: str, name: str, belongs: bool) -> None:
    assert is_of(row(0.5), WorkloadKey("ml", kind, name)) == belongs
    assert not is_of(row(0.5), WorkloadKey("other", kind, name))


def test_the_examples_are_right() -> None:
    assert doctest.testmod(module).failed == 0
