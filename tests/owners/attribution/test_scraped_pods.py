"""Pods that Prometheus writes into the rows of GPUs without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pulsed.owners.attribution.scraped_pods import ScrapedPods

OWN = ("kube-system", "gpu-manager-lqx88")
A, B = ("ml", "train-0"), ("ml", "notebook")
Rows = Sequence[Mapping[str, str]]


def row(gpu: int | None, pod: tuple[str, str] | None, instance: str = "10.0.0.7:9400", **labels: str) -> dict[str, str]:
    made = {"instance": instance, "job": "gpu", **labels}
    if gpu is not None:
        made |= {"gpu": str(gpu), "UUID": f"GPU-{instance}-{gpu}"}
    return made | ({"namespace": pod[0], "pod": pod[1]} if pod else {})


@pytest.mark.parametrize(
    ("rows", "scraped"),
    [
        ([row(0, A), row(1, OWN), row(2, OWN), row(3, OWN)], {OWN}),
        ([row(0, OWN), row(1, OWN)], {OWN}),
        ([row(0, OWN)], {OWN}),
        ([row(0, A), row(1, B)], {A, B}),
        ([row(0, A), row(1, A), row(2, None)], set()),
        ([row(0, A), row(1, A), row(2, OWN)], {A, OWN}),
        ([row(0, OWN), row(0, A, GPU_I_ID="1"), row(0, A, GPU_I_ID="2")], {OWN}),
        ([row(0, A), row(1, A), row(2, B), row(None, OWN)], {OWN}),
        ([row(0, A), row(1, A), row(2, OWN), row(None, OWN)], {OWN}),
        ([row(0, A), row(1, A), row(2, ("gpu", "nvidia-dcgm-exporter-x"))], {("gpu", "nvidia-dcgm-exporter-x")}),
        ([row(0, A, "a"), row(1, A, "a"), row(2, None, "a"), row(0, OWN, "b"), row(1, OWN, "b")], {OWN}),
        ([row(0, A), row(0, B), row(1, OWN), row(2, OWN)], {OWN}),
        ([{"gpu": "0", "namespace": "ml", "pod": "a"}, {"gpu": "1", "namespace": "ml", "pod": "a"}], set()),
        ([row(0, A, GPU_I_ID="1"), row(0, OWN, GPU_I_ID="2"), row(0, OWN, GPU_I_ID="3")], {OWN}),
    ],
)
def test_scraped_pods_of_a_page(rows: Rows, scraped: set[tuple[str, str]]) -> None:
    assert ScrapedPods().find(rows) == scraped


def test_a_scraped_pod_stays_one_while_all_other_gpus_are_in_use() -> None:
    pods = ScrapedPods()
    pods.find([row(0, OWN), row(1, OWN)])
    assert pods.find([row(0, A), row(1, OWN)]) == {OWN}
    assert pods.find([row(0, A), row(1, B)]) == {A, B}, "any of them may be it"


def test_patterns_replace_the_guess() -> None:
    rows = [row(0, A), row(1, A), row(2, OWN)]
    assert ScrapedPods(["kube-system/gpu-*"]).find(rows) == {OWN}
    assert ScrapedPods(["gpu-operator/*"]).find(rows) == set()


def test_a_gpu_without_a_pod_shows_for_good_that_prometheus_adds_none() -> None:
    pods = ScrapedPods()
    pods.find([row(0, A), row(1, None)])
    assert pods.find([row(0, A), row(1, A)]) == set()
