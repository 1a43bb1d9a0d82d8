"""The GPUs that somebody asked for."""

from __future__ import annotations

import json

import pytest

from pulsed.collector.collector import DeviceFilter
from pulsed.collector.this_host import selection_of
from pulsed.config.configuration import load
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.gpu_selection import EVERYTHING, parse
from pulsed.model.raw_tick import Layout, RawTick
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING
from tests.support.daemon import pulsed
from tests.support.ticks import anomalies_of, readings_of, tick_of

DEVICES = (
    Device(Entity("gpu", "0", "GPU-aa")),
    Device(Entity("gpu", "1", "GPU-bb")),
    Device(Entity("mig", "1", "GPU-bb", "7"), mig_uuid="MIG-77"),
    Device(Entity("gpu", "2", "GPU-cc")),
)


def tick() -> Tick:
    readings = tuple(NOTHING._replace(power_watts=float(number)) for number in range(4))
    return tick_of(
        RawTick("t", Unix(0.0), Monotonic(0.0), 1.0, Layout("exporter", ()), ()),
        DEVICES,
        readings,
        anomalies={1: ("one",), 3: ("three",)},
    )


@pytest.mark.parametrize(
    ("text", "kept", "anomalies"),
    [
        ("all", [0, 1, 2, 3], {1: ("one",), 3: ("three",)}),
        ("1", [1, 2], {0: ("one",)}),
        ("0,2", [0, 3], {1: ("three",)}),
        ("GPU-c", [3], {0: ("three",)}),
        ("MIG-77", [2], {}),
        ("1:7", [2], {}),
        ("none", [], {}),
    ],
)
def test_only_what_is_meant_is_left(text: str, kept: list[int], anomalies: dict[int, tuple[str, ...]]) -> None:
    chosen = DeviceFilter(parse(text))
    first, second = tick(), tick()
    chosen.apply(first)
    chosen.apply(second)
    assert first.devices == tuple(DEVICES[number] for number in kept)
    assert [reading.power_watts for reading in readings_of(first)] == kept
    assert anomalies_of(first) == anomalies
    assert first.devices == second.devices


def test_a_job_sees_its_own_gpus_unless_somebody_says_otherwise() -> None:
    job = {"CUDA_VISIBLE_DEVICES": "GPU-bb"}
    ours, explicit, remote, exporter = (
        load(None, [f"{key}={json.dumps(value)}" for key, value in given.items()], {})
        for given in (
            {"source.kind": "dcgmi"},
            {"source.kind": "dcgmi", "gpus": "all"},
            {"source.kind": "dcgmi", "source.dcgmi.host": "gpu1"},
            {"source.kind": "exporter"},
        )
    )
    assert selection_of(ours, job).uuids == {"gpu-bb"}
    assert selection_of(ours, {}) == EVERYTHING
    assert selection_of(explicit, job).everything
    assert selection_of(remote, job) == EVERYTHING
    assert selection_of(exporter, job) == EVERYTHING


@pytest.mark.slow
def test_the_flags() -> None:
    some = pulsed("snapshot", "--source", "demo", "--gpus", "2-3", "--format", "json")
    assert [gpu["gpu"] for gpu in json.loads(some.stdout)["gpus"]] == ["2", "3"]
    everything = pulsed("snapshot", "--source", "demo", "--show-all", "--format", "json", CUDA_VISIBLE_DEVICES="0")
    assert len(json.loads(everything.stdout)["gpus"]) == 8
    wrong = pulsed("snapshot", "--source", "demo", "--gpus", "first")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--gpus: gpus: 'first' names no GPUs" in wrong.stderr
