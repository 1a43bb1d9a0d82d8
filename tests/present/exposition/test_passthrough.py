from __future__ import annotations

import pytest

from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import Layout, RawValue, Series
from pulsed.model.target_store import Target
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exposition.parser import PageParser
from tests.present.boards import gpu, store_of, target, tick
from tests.present.exposition.pages import NOW, count_of_dcgm, families_of, page_of, republished
from tests.support.samples import SAMPLES, needs_samples

UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def row(name: str, value: RawValue, **labels: str) -> tuple[Series, RawValue]:
    return (Series(name, tuple(labels.items())), value)


def reading(*rows: tuple[Series, RawValue], name: str = "a", **declared: dict[str, str]) -> Target:
    return target(name, tick([gpu(0)], series=rows, help=declared.get("help"), types=declared.get("types")))


def test_the_sources_series_come_out_as_they_came() -> None:
    made = reading(
        row(UTIL, 55.0, gpu="0", Hostname='a "b" \\ \n'),
        row(UTIL, 7.5, gpu="1"),
        help={UTIL: "in %\nor so"},
        types={UTIL: "gauge"},
    )
    assert republished(store_of(made)) == [
        rf"# HELP {UTIL} in %\nor so",
        f"# TYPE {UTIL} gauge",
        rf'{UTIL}{{Hostname="a \"b\" \\ \n",gpu="0"}} 55.0',
        f'{UTIL}{{gpu="1"}} 7.5',
    ]


def test_without_the_setting_nothing_is_republished() -> None:
    made = store_of(reading(row(UTIL, 55.0)))
    assert UTIL not in page_of(made, passthrough=False)


@pytest.mark.parametrize(
    "value",
    [None, "N/A", float("nan"), float("inf"), 2147483632.0, 140737488355329.0, float(9223372036854775794)],
)
def test_a_missing_value_is_absent_and_its_family_too(value: RawValue) -> None:
    assert republished(store_of(reading(row(UTIL, value), types={UTIL: "gauge"}))) == []


def test_large_counters_are_values() -> None:
    assert republished(store_of(reading(row(ENERGY, 5e14)))) == [
        f"# TYPE {ENERGY} untyped",
        f"{ENERGY} 500000000000000.0",
    ]


def test_only_dcgms_series_are_republished() -> None:
    rows = [row(name, 1.0) for name in ("process_cpu_seconds_total", "pulsed_gpu_info", "DCGM-X", "up")]
    assert republished(store_of(reading(*rows, row("dcgm_gpu_utilization", 1.0)))) == []
    assert (
        "dcgm_gpu_utilization 1.0" in page_of(store_of(reading(*rows, row("dcgm_gpu_utilization", 1.0)))).splitlines()
    )
    assert "DCGM-X" not in page_of(store_of(reading(*rows)))


def test_what_would_break_the_page_stays_out() -> None:
    twice = (Series(UTIL, (("gpu", "0"), ("gpu", "1"))), 1.0)
    assert republished(store_of(reading(twice, row(UTIL, 2.0, **{"a-b": "c"})))) == []


def test_a_counter_without_total_is_unknown_to_openmetrics() -> None:
    made = store_of(reading(row(ENERGY, 5.0, gpu="0"), help={ENERGY: 'a "b"'}, types={ENERGY: "counter"}))
    assert f"# TYPE {ENERGY} counter" in republished(made)
    assert republished(made, openmetrics=True) == [
        rf"# HELP {ENERGY} a \"b\"",
        f"# TYPE {ENERGY} unknown",
        f'{ENERGY}{{gpu="0"}} 5.0',
    ]


def test_the_first_of_several_targets_has_a_series_whatever_the_order_of_its_labels() -> None:
    made = store_of(
        reading(row(UTIL, 1.0, gpu="0", Hostname="n"), name="a", help={UTIL: "first"}, types={UTIL: "gauge"}),
        reading(row(UTIL, 2.0, Hostname="n", gpu="0"), row(UTIL, 3.0, gpu="1"), name="b", help={UTIL: "second"}),
    )
    assert republished(made) == [
        f"# HELP {UTIL} first",
        f"# TYPE {UTIL} gauge",
        f'{UTIL}{{Hostname="n",gpu="0"}} 1.0',
        f'{UTIL}{{gpu="1"}} 3.0',
    ]


def test_a_new_tick_of_the_same_layout_shows_new_values() -> None:
    layout = Layout("exporter", (Series(UTIL),))
    made = store_of(target("a", tick([gpu(0)], series=[(layout.series[0], 1.0)], layout=layout)))
    pages = Pages(made, Telemetry(made), PageSettings(passthrough=True))
    assert f"{UTIL} 1.0" in pages.page(Monotonic(NOW), openmetrics=False, gzip=False).decode()
    made.targets[0].accept(tick([gpu(0)], series=[(layout.series[0], 2.0)], layout=layout), Monotonic(NOW))
    assert f"{UTIL} 2.0" in pages.page(Monotonic(NOW), openmetrics=False, gzip=False).decode()


@needs_samples
@pytest.mark.parametrize("openmetrics", [False, True])
def test_real_pages_come_through_as_valid_pages(openmetrics: bool) -> None:
    files = sorted((SAMPLES / "exporter").glob("*.prom"))
    assert files
    made = store_of()
    for file in files:
        page = PageParser().parse(file.read_bytes())
        computed = tick([], layout=page.layout, series=[(Series(""), value) for value in page.values])
        made.targets.append(target(file.name, computed))
    assert count_of_dcgm(families_of(page_of(made, openmetrics), openmetrics)) > 100
