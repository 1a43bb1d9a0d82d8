"""Sums over GPUs in the head: of MIG boards once, and means that their bounds contain."""

from __future__ import annotations

import pytest

from pulsed.present.terminal.frame import mean_utilization, without_parts
from pulsed.present.terminal.model import FleetRow


def row(gpu: str, mig_id: str = "", *, stale: bool = False, **values: float) -> FleetRow:
    return FleetRow(0, "n", gpu, f"GPU-{gpu}", mig_id, "", "", values, stale, 1.0)


def known(gpu: str, ratio: float) -> FleetRow:
    return row(
        gpu, real_utilization_ratio=ratio, real_utilization_lower_ratio=ratio, real_utilization_upper_ratio=ratio
    )


def bounded(gpu: str, lower: float, upper: float) -> FleetRow:
    return row(gpu, real_utilization_lower_ratio=lower, real_utilization_upper_ratio=upper)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([], "--"),
        ([row("0")], "--"),
        ([known("0", 0.9), known("1", 0.1)], "50 %"),
        ([known("0", 0.9), bounded("1", 0.0, 0.1)], "45..50 %, 1/2"),  # not the 90 % of the one that is known
        ([known("0", 0.9), row("1")], "45..95 %, 1/2"),
        ([bounded("0", 0.2, 0.6), bounded("1", 0.0, 0.2)], "10..40 %, 0/2"),
    ],
)
def test_a_mean_is_of_all_gpus_or_has_bounds(gpus: list[FleetRow], expected: str) -> None:
    assert mean_utilization(gpus, len(gpus)) == expected


def test_instances_are_counted_only_without_their_board() -> None:
    board, first, second, alone = row("0"), row("0", "1"), row("0", "2"), row("1", "1")
    assert without_parts([board, first, second, alone]) == [board, alone]
    assert without_parts([first, second]) == [first, second]
