"""GPUs in the words of OpenTelemetry's semantic conventions for hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import SEVERITY, CheckState, State
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target
from pulsed.model.vocabulary import Reading
from pulsed.present.otlp.hardware_metrics import (
    STATUSES,
    WEAR,
    attributes_of,
    hardware_points,
    status_of,
)
from pulsed.reader.exposition.parser import PageParser
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
        for _, head, _, value in hardware_points(store, Monotonic(NOW)):
            found.setdefault(head.name, []).append(value)
        del found["hw.gpu.io"], found["hw.energy"]  # counted by pulsed
        return found

    assert names() == {}
    assert names(power_watts=0.0, encoder_utilization_ratio=0.5) == {"hw.power": [0.0], "hw.gpu.utilization": [0.5]}


def test_gpus_of_other_nodes_and_targets() -> None:
    """Each GPU is there once, not of a stale target; an instance has no values of its board."""
    everything = Reading(gpu_utilization_ratio=0.5, power_watts=100.0, temperature_celsius=40.0)
    devices = gpu(0, node="b"), gpu(1, node="a"), mig(1, 7)
    boards = [each._replace(reading=everything) for each in devices]
    store = store_of(target("first", tick(boards)), target("second", tick(boards[:1])))
    points = list(hardware_points(store, Monotonic(NOW)))
    assert [node for node, *_ in points] == sorted(node for node, *_ in points)
    assert len({(head, pairs) for _, head, pairs, _ in points}) == len(points)
    instance = [(head.name, dict(pairs)) for _, head, pairs, _ in points if dict(pairs).get("hw.parent")]
    assert [name for name, _ in instance] == ["hw.gpu.utilization"]
    assert (instance[0][1]["hw.id"], instance[0][1]["hw.parent"]) == ("MIG-1-7", "GPU-node1-0001")
    states = [dict(pairs)["hw.state"] for node, head, pairs, _ in points if (node, head.name) == ("b", "hw.status")]
    assert states == [*STATUSES]
    assert list(hardware_points(store, Monotonic(NOW + 60))) == []
    assert dict(attributes_of(boards[0].device))["hw.type"] == "gpu"


def values_of(metric: str, pages: Iterable[str]) -> list[dict[str, float]]:
    """Return the values of a metric by its last attribute, after each page of an exporter."""
    pipeline, values = Pipeline(GpuTable(), "n"), []
    for number, page in enumerate(pages):
        parsed = PageParser().parse(page.encode())
        clock = 15.0 * number
        raw = RawTick("a", Unix(1.8e9 + clock), Monotonic(clock), 15.0, parsed.layout, parsed.values)
        shown = Target("exporter", "a", 15.0, 45.0)
        shown.accept(pipeline.process(raw), Monotonic(NOW))
        points = hardware_points(store_of(shown), Monotonic(NOW))
        values.append({pairs[-1][1]: value for _, head, pairs, value in points if head.name == metric})
    return values


def test_energy_is_counted_by_pulsed() -> None:
    """One misread value of the board's counter is no energy, and no reset."""
    joules = [4.2e9 + 9300.0 * number if number != 20 else 0.0 for number in range(40)]
    pages = [f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="0",UUID="GPU-0"}} {each * 1000.0}\n' for each in joules]
    energy = [value for values in values_of("hw.energy", pages) for value in values.values()]
    assert energy == sorted(energy)
    assert energy[-1] == pytest.approx(39 * 9300.0, rel=0.1)


def error_pages(**counters: Sequence[int | None]) -> list[str]:
    """Pages of an exporter with an energy counter that grows, and error counters, None for blank."""
    samples = zip(*counters.values(), strict=True)
    return [
        f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="0",UUID="GPU-0"}} {1e6 * number}\n'
        + "".join(
            f'DCGM_FI_DEV_ECC_{name}{{gpu="0",UUID="GPU-0"}} {value}\n'
            for name, value in zip(counters, values, strict=True)
            if value is not None
        )
        for number, values in enumerate(samples)
    ]


def test_errors_fall_only_with_a_second_sample() -> None:
    """One misread 0 is no reset, after which a receiver would count all errors again."""
    misread = values_of("hw.errors", error_pages(SBE_AGG_TOTAL=[5, 5, 0, 6], DBE_VOL_TOTAL=[2, 2, 2, 0]))
    assert misread == [{"corrected": count, "uncorrected": 2.0} for count in (5.0, 5.0, 5.0, 6.0)]
    reset = values_of("hw.errors", error_pages(DBE_VOL_TOTAL=[2, 2, 0, 0, 1]))
    assert reset == [{"uncorrected": count} for count in (2.0, 2.0, 2.0, 0.0, 1.0)]


def test_errors_since_the_driver_was_loaded_do_not_stand_in_for_those_of_the_board() -> None:
    pages = error_pages(DBE_AGG_TOTAL=[9, None, None, 9], DBE_VOL_TOTAL=[1, 1, 1, 1])
    assert values_of("hw.errors", pages) == [{"uncorrected": 9.0}, {}, {}, {"uncorrected": 9.0}]
