"""The epoch of an exporter, from its pages."""

from __future__ import annotations

import pytest

from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch
from pulsed.reader.exporter.source import page_epoch
from pulsed.reader.exposition.parser import PageParser

GPU = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 40\n'
START = "process_start_time_seconds 1.767e+09\n"


@pytest.mark.parametrize(
    ("page", "epoch"),
    [
        (GPU, UNKNOWN_EPOCH),
        (GPU + START, Epoch(exporter="1767000000.0")),
        (GPU + "process_start_time_seconds NaN\n", UNKNOWN_EPOCH),
        (GPU + 'process_start_time_seconds{job="other"} 1\n', UNKNOWN_EPOCH),
        (GPU + START + 'pulsed_build_info{version="1"} 1\n', UNKNOWN_EPOCH),
    ],
    ids=["none", "known", "not a number", "of another process", "of another pulsed"],
)
def test_the_start_of_the_process_is_the_epoch(page: str, epoch: Epoch) -> None:
    read = PageParser().parse(page.encode())
    assert page_epoch(read.layout, read.values, UNKNOWN_EPOCH) == epoch


def test_the_epoch_stays_until_it_changes() -> None:
    parser, found = PageParser(), [UNKNOWN_EPOCH]
    for start in (START, START, "", START, "process_start_time_seconds 1.8e+09\n"):
        read = parser.parse((GPU + start).encode())
        found.append(page_epoch(read.layout, read.values, found[-1]))
    assert all(each == found[1] for each in found[1:5])
    assert found[5] == Epoch(exporter="1800000000.0")
