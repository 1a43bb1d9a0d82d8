"""Names of metrics, and quantities."""

from __future__ import annotations

import doctest

import pytest

from pulsed.apps.adapter import documents as module
from pulsed.apps.adapter.documents import quantity, scale_metrics


def test_the_examples_are_right() -> None:
    assert doctest.testmod(module).failed == 0


def test_how_metrics_are_combined() -> None:
    found = scale_metrics(["real_utilization_ratio", "memory_used_bytes"])
    assert {name: (metric.field, metric.how) for name, metric in found.items()} == {
        "gpu_real_utilization": ("real_utilization_ratio", "avg"),
        "gpu_real_utilization_sum": ("real_utilization_ratio", "sum"),
        "gpu_real_utilization_max": ("real_utilization_ratio", "max"),
        "gpu_memory_used_bytes": ("memory_used_bytes", "sum"),
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.6, "600m"), (1.7206, "1721m"), (0.0001, "0"), (85899345920.5, "85899345920500m")],
)
def test_quantities(value: float, text: str) -> None:
    assert quantity(value) == text
