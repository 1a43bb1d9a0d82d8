"""GPUs in the words of OpenTelemetry's semantic conventions for hardware."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.model.health import SEVERITY, CheckState, State
from pulsed.model.vocabulary import Reading
from pulsed.present.otlp.hardware_metrics import (
    STATUSES,
    WEAR,
    DeviceCounters,
    attributes_of,
    hardware_points,
    status_of,
)
from tests.present.boards import SETTLED, SICK, gpu, mig, store_of, target, tick

NOW = 100.0


@pytest.mark.parametrize(
    ("state", "check", "status"),
    [
        ("unknown", "", None),
        ("ok", "", "ok"),
        ("info", "", "ok"),
        ("warn", "", "degraded"),
        ("hot", "", "degraded"),
        ("crit", "", "failed"),
        *((state, check, "predicted_failure") for check in WEAR for state in ("info", "warn")),
        ("crit", WEAR[0], "failed"),
    ],
)
def test_health_becomes_a_status(state: State, check: str, status: str | None) -> None:
    checks = (CheckState("pcie_link", state), *((CheckState(check, "info"),) if check else ()))
    assert status_of(replace(SICK, state=state, checks=checks)) == status
    assert set(SEVERITY) == {"unknown", "ok", "info", "warn", "hot", "crit"}


def test_a_missing_reading_has_no_point() -> None:
    def names(**reading: float) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        unknown = SETTLED._replace(health=replace(SICK, state="unknown"))
        store = store_of(target("a", tick([gpu(0, result=unknown)._replace(reading=Reading(**reading))])))
        for _, head, _, value in hardware_points(store, NOW, DeviceCounters()):
            found.setdefault(head.name, []).append(value)
        found.pop("hw.gpu.io")  # counted by pulsed
        return found

    assert names() == {}
    assert names(power_watts=0.0, encoder_utilization_ratio=0.5, ecc_dbe_aggregate_total=2.0) == {
        "hw.power": [0.0],
        "hw.gpu.utilization": [0.5],
        "hw.errors": [2.0],
    }


def test_gpus_of_other_nodes_and_targets() -> None:
    """Each GPU is there once, not of a stale target; an instance has no values of its board."""
    everything = Reading(gpu_utilization_ratio=0.5, power_watts=100.0, temperature_celsius=40.0)
    devices = gpu(0, node="b"), gpu(1, node="a"), mig(1, 7)
    boards = [each._replace(reading=everything) for each in devices]
    store = store_of(target("first", tick(boards)), target("second", tick(boards[:1])))
    points = list(hardware_points(store, NOW, DeviceCounters()))
    assert [node for node, *_ in points] == sorted(node for node, *_ in points)
    assert len({(head, pairs) for _, head, pairs, _ in points}) == len(points)
    instance = [(head.name, dict(pairs)) for _, head, pairs, _ in points if dict(pairs).get("hw.parent")]
    assert [name for name, _ in instance] == ["hw.gpu.utilization"]
    assert (instance[0][1]["hw.id"], instance[0][1]["hw.parent"]) == ("MIG-1-7", "GPU-node1-0001")
    states = [dict(pairs)["hw.state"] for node, head, pairs, _ in points if (node, head.name) == ("b", "hw.status")]
    assert states == [*STATUSES]
    assert list(hardware_points(store, NOW + 60, DeviceCounters())) == []
    assert dict(attributes_of(boards[0].device))["hw.type"] == "gpu"


def errors(counters: DeviceCounters, **reading: float) -> list[float]:
    store = store_of(target("a", tick([gpu(0)._replace(reading=Reading(**reading))])))
    return [value for _, head, _, value in hardware_points(store, NOW, counters) if head.name == "hw.errors"]


def test_a_series_of_errors_has_one_source_and_never_falls() -> None:
    """The volatile counter is blank for a while, and starts again with the driver."""
    counters = DeviceCounters()
    assert errors(counters, ecc_sbe_volatile_total=0.0, ecc_sbe_aggregate_total=3.0) == [0.0]
    assert errors(counters, ecc_sbe_aggregate_total=3.0) == []
    assert errors(counters, ecc_sbe_volatile_total=2.0, ecc_sbe_aggregate_total=5.0) == [2.0]
    assert errors(counters, ecc_sbe_volatile_total=0.0, ecc_sbe_aggregate_total=5.0) == [2.0]
    assert errors(counters, ecc_sbe_volatile_total=1.0, ecc_sbe_aggregate_total=6.0) == [3.0]


def test_a_gpu_without_volatile_counters_has_those_of_its_life() -> None:
    counters = DeviceCounters()
    assert errors(counters, ecc_sbe_aggregate_total=3.0) == [3.0]
    assert errors(counters, ecc_sbe_volatile_total=0.0, ecc_sbe_aggregate_total=4.0) == [4.0]


def test_counters_of_gpus_that_are_gone_are_forgotten() -> None:
    counters = DeviceCounters()
    for number in range(500):
        store = store_of(target("a", tick([gpu(number)._replace(reading=Reading(energy_joules_total=5.0))])))
        assert [value for *_, head, _, value in hardware_points(store, NOW, counters) if head.name == "hw.energy"]
    assert len(counters) < 100
