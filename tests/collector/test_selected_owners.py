"""Owners of GPUs that the key `gpus` selects: each is billed by the GPU that it has, as without the key."""

from __future__ import annotations

from typing import Any

import pytest

from pulsed.collector.collector import Pipeline, PipelineSettings
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu_selection import parse
from pulsed.model.raw_tick import RawTick
from pulsed.owners.accounting import OwnerAccounting
from pulsed.present.api.account_documents import account_document
from pulsed.reader.exposition.parser import PageParser

PODS = {"0": {"a": (80, 8000), "b": (10, 1000)}, "1": {"a": (10, 1000), "b": (80, 8000)}}
"""By GPU, what each of its two pods uses: percent of the time, and MiB."""


def page(clock: int) -> bytes:
    """Two GPUs that two pods share, as dcgm-exporter 4.8.2 has them."""
    lines = []
    for gpu, pods in PODS.items():
        board = f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n"'
        values = {"POWER_USAGE": 600 + clock % 7, "GPU_TEMP": 50, "GPU_UTIL": 90, "FB_USED": 9000}
        lines += [f"DCGM_FI_DEV_{name}{{{board}}} {value}" for name, value in values.items()]
        for name, (percent, mebibytes) in pods.items():
            owner = f'{board},pod="{name}",namespace="ml",container="c",vgpu="{name}"'
            lines += [f"DCGM_FI_DEV_GPU_UTIL{{{owner}}} {percent}", f"DCGM_FI_DEV_FB_USED{{{owner}}} {mebibytes}"]
        lines.append(f"DCGM_FI_PROF_SM_ACTIVE{{{board}}} 0.9")
    return "".join(f"{line}\n" for line in lines).encode()


def billed(selected: str) -> dict[tuple[str, str], Any]:
    """By pod and GPU, what the pod is billed for a minute, after a second whose values may be of earlier owners."""
    pipeline, accounting, parser = (
        Pipeline(GpuTable(), "n", settings=PipelineSettings(parse(selected))),
        OwnerAccounting(),
        PageParser(),
    )
    for clock in range(62):
        parsed = parser.parse(page(clock))
        accounting.add(
            pipeline.process(
                RawTick("t", Unix(1e9 + clock), Monotonic(float(clock)), 1.0, parsed.layout, parsed.values), ()
            )
        )
    documents = [account_document(account, "n") for account in accounting.running]
    return {(each["owner"]["name"], gpu["gpu"]): gpu for each in documents for gpu in each["gpus"]}


def test_sharers_of_a_selected_gpu_are_billed_as_without_a_selection() -> None:
    everything = billed("all")
    assert set(everything) == {(pod, gpu) for pod in "ab" for gpu in "01"}
    first, second = everything["b", "0"], everything["b", "1"]
    assert [each["counters"]["sm_active_seconds"] for each in (first, second)] == pytest.approx([6.0, 48.0])


@pytest.mark.parametrize("gpu", ["0", "1"])
def test_a_selection_changes_no_bill(gpu: str) -> None:
    everything = billed("all")
    assert billed(gpu) == {key: bill for key, bill in everything.items() if key[1] == gpu}
