from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.owners.accounting.activity import BUCKETS, Timeline
from pulsed.owners.accounting.saved_accounts import dump_account, load_account
from pulsed.present.api.account_documents import account_document
from tests.compute.streams import BUSY, GPU
from tests.owners.accounting.streams import A, B, Node

RATIOS = st.lists(st.none() | st.floats(0.0, 1.0), min_size=1, max_size=30)


@given(RATIOS)
def test_mean_and_spread_are_those_of_the_samples_with_the_quantity(ratios: list[float | None]) -> None:
    node = Node()
    node.sees(((A,), BUSY))
    for ratio in ratios:
        node.sees(((A,), BUSY._replace(sm_occupancy_ratio=ratio)))
    found = account_document(node.running(A), "here")["gpus"][0]["statistics"].get("sm_occupancy_ratio")
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        assert found is None, "never known is not 0"
    else:
        assert found == pytest.approx(
            {"mean": fmean(known), "over_time": pstdev(known), "seconds": float(len(known))}, abs=1e-6
        )


def test_spread_over_gpus_is_beside_that_over_time_and_shared_gpus_count_in_part() -> None:
    node = Node()
    for at in range(9):
        first = BUSY._replace(sm_active_ratio=0.4 if at % 2 else 0.6)
        node.sees(((A,), first), ((A, B), BUSY._replace(sm_active_ratio=0.8)))
    statistics = account_document(node.running(A), "here")["statistics"]
    assert statistics["sm_active_ratio"] == pytest.approx(
        {"mean": 0.6, "over_time": 0.1 * (2 / 3) ** 0.5, "over_gpus": 0.1 * 2**0.5, "seconds": 12.0}
    )
    other = account_document(node.running(B), "here")["statistics"]["sm_active_ratio"]
    assert other == pytest.approx({"mean": 0.8, "over_time": 0.0, "over_gpus": None, "seconds": 4.0}, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "hertz", "mfu", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 1.830e9, 0.5, 494.7),
        ("NVIDIA H200", 1.980e9, 0.541, 535.3),
        ("NVIDIA H100 PCIe", 1.619e9, 0.5, 378.0),
        ("NVIDIA A100-SXM4-80GB", 1.410e9, 0.5, 155.9),
        ("NVIDIA L40S", 2.490e9, 0.5, 181.0),
        ("Tesla T4", 1.590e9, None, None),
        ("NVIDIA B200", 1.785e9, 0.481, 1082.1),
        ("NVIDIA Something New", 1.785e9, None, None),
    ],
)
def test_mfu_is_tensor_activity_at_the_clock_of_the_data_sheet(
    model: str, hertz: float, mfu: float | None, teraflops: float | None
) -> None:
    node = Node()
    for _ in range(3):
        reading = BUSY._replace(tensor_active_ratio=0.5, sm_clock_hertz=hertz)
        node.sees(((A,), reading), devices=[replace(GPU, model=model)])
    found = account_document(node.running(A), "here")["statistics"]
    means = [found[name]["mean"] if name in found else None for name in ("mfu_ratio", "flops_per_second")]
    assert means[0] == pytest.approx(mfu, abs=1e-3)
    assert (means[1] and means[1] / 1e12) == pytest.approx(teraflops, abs=0.1)


@given(st.lists(st.tuples(st.floats(0.1, 1e5), st.none() | st.floats(0.0, 1.0)), min_size=1, max_size=200))
def test_a_timeline_is_bounded_and_keeps_its_sums(samples: list[tuple[float, float | None]]) -> None:
    line, now = Timeline(), 0.0
    for seconds, ratio in samples:
        now += seconds
        if ratio is not None:
            line.add(now, seconds, seconds, ratio)
    known = [(seconds, ratio) for seconds, ratio in samples if ratio is not None]
    assert len(line.buckets) <= BUCKETS
    assert sum(seconds for seconds, _ in line.buckets) == pytest.approx(sum(seconds for seconds, _ in known))
    assert sum(part for _, part in line.buckets) == pytest.approx(sum(seconds * ratio for seconds, ratio in known))
    saved = line.dump()
    assert Timeline.load(**saved).dump() == saved


def test_a_file_of_an_earlier_version_has_neither() -> None:
    """Their covered time begins anew; what the earlier version counted stays."""
    node = Node()
    for _ in range(5):
        node.sees(((A,), BUSY))
    saved = json.loads(json.dumps(dump_account(node.running(A))))
    assert json.loads(json.dumps(dump_account(load_account(saved)))) == saved
    del saved["timeline"], saved["gpus"][0]["moments"]
    document = account_document(load_account(saved), "here")
    assert (document["statistics"], document["timeline"]["gpu_seconds"]) == ({}, [])
    assert document["total"]["counters"]["sm_active_seconds"] > 0.0
