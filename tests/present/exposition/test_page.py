from __future__ import annotations

import asyncio
import gzip
import math
import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device, Entity
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import LARGE_GPUS, Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from tests.present.boards import (
    FLICKER,
    OPEN,
    TIME,
    Gpu,
    busy_gpus,
    gpu,
    mig,
    next_tick,
    store_of,
    target,
    tick,
)
from tests.present.reference import ReferenceCollector
from tests.present.strategies import NOW, boards
from tests.support.examples import examples
from tests.support.waiting import eventually

Families = dict[str, tuple[str, str, dict[tuple[str, frozenset[tuple[str, str]]], float]]]


def text_of(made: TargetStore, now: float = NOW, openmetrics: bool = False) -> str:
    return Pages(made, Telemetry(made)).page(Monotonic(now), openmetrics=openmetrics, gzip=False).decode()


def lines_of(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def written_out(text: str) -> str:
    """Return a label as a page has it: control characters are written out."""
    return re.sub("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def samples_of(family: Metric) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    samples = {
        (sample.name, frozenset((name, written_out(text)) for name, text in sample.labels.items())): sample.value
        for sample in family.samples
    }
    assert len(samples) == len(family.samples), f"{family.name} has a series twice"
    return samples


def parsed(page: str, openmetrics: bool) -> dict[str, Metric]:
    families = list((parse_openmetrics if openmetrics else parse_text)(page))
    by_name = {family.name: family for family in families if family.name.startswith("pulsed_gpu")}
    assert len(by_name) == len([family for family in families if family.name.startswith("pulsed_gpu")])
    return by_name


@examples(80)
@given(boards(), st.booleans())
def test_the_page_says_what_a_plain_collector_says(made: TargetStore, openmetrics: bool) -> None:
    page = parsed(text_of(made, openmetrics=openmetrics), openmetrics)
    reference = {family.name: family for family in ReferenceCollector(made, NOW).collect()}
    if not openmetrics:
        reference = {f"{name}_info" if each.type == "info" else name: each for name, each in reference.items()}
    assert page.keys() == reference.keys()
    for name, family in reference.items():
        assert samples_of(page[name]) == samples_of(family)
        expected = "gauge" if family.type == "info" and not openmetrics else family.type
        assert page[name].type == expected
        assert page[name].documentation.startswith(family.documentation)


def test_a_gpu_has_its_series() -> None:
    text = text_of(store_of(target("a", tick([gpu(0, sm_active_ratio=0.41, energy_joules_total=12.5)]))))
    labels = 'node="node1",gpu="0",uuid="GPU-node1-0000"'
    assert f"pulsed_gpu_sm_active_ratio{{{labels}}} 0.41" in text.splitlines()
    assert f"pulsed_gpu_energy_joules_total{{{labels}}} 12.5" in text.splitlines()
    assert "# TYPE pulsed_gpu_energy_joules_total counter" in text.splitlines()
    assert f"pulsed_gpu_real_utilization_ratio{{{labels}}} 0.62" in text.splitlines()
    assert f"pulsed_gpu_last_sample_timestamp_seconds{{{labels}}} {TIME!r}" in text.splitlines()
    assert lines_of(text, "pulsed_gpu_info") == [
        'pulsed_gpu_info{model="NVIDIA H100 80GB HBM3",pci_bus_id="00000000:00:00.0",driver_version="580.105.08",'
        f'device="nvidia0",{labels}}} 1'
    ]


def test_a_missing_reading_has_no_series() -> None:
    text = text_of(store_of(target("a", tick([gpu(0, sm_active_ratio=None, power_watts=0.0)]))))
    assert "pulsed_gpu_sm_active_ratio" not in text
    assert lines_of(text, "pulsed_gpu_power_watts{") == [
        'pulsed_gpu_power_watts{node="node1",gpu="0",uuid="GPU-node1-0000"} 0.0'
    ]


def test_a_reading_that_one_gpu_lacks_is_missing_for_it_alone() -> None:
    text = text_of(store_of(target("a", tick([gpu(0), gpu(1, power_watts=70.5), gpu(2, power_watts=math.nan)]))))
    assert lines_of(text, "pulsed_gpu_power_watts{") == [
        'pulsed_gpu_power_watts{node="node1",gpu="1",uuid="GPU-node1-0001"} 70.5'
    ]


def test_an_unsettled_class_is_unknown_and_has_no_point_value() -> None:
    text = text_of(store_of(target("a", tick([gpu(0, result=OPEN)]))))
    classes = lines_of(text, "pulsed_gpu_workload_class{")
    assert len(classes) == 13
    assert [line for line in classes if line.endswith(" 1")] == [
        'pulsed_gpu_workload_class{class="unknown",node="node1",gpu="0",uuid="GPU-node1-0000"} 1'
    ]
    assert "pulsed_gpu_real_utilization_ratio" not in text
    assert len(lines_of(text, "pulsed_gpu_real_utilization_bound_ratio{")) == 2


def test_the_class_on_the_page_is_the_held_one() -> None:
    text = text_of(store_of(target("a", tick([gpu(0, result=FLICKER)]))))
    ones = [line for line in lines_of(text, "pulsed_gpu_workload_class{") if line.endswith(" 1")]
    assert [line.partition(",")[0] for line in ones] == ['pulsed_gpu_workload_class{class="idle"']
    (bottleneck,) = (line for line in lines_of(text, "pulsed_gpu_bottleneck{") if line.endswith(" 1"))
    assert bottleneck.startswith('pulsed_gpu_bottleneck{bottleneck="idle",')


def test_a_counter_per_state_is_one_family() -> None:
    lines = text_of(store_of(target("a", tick([gpu(0), gpu(1)])))).splitlines()
    name = "pulsed_gpu_workload_class_seconds_total"
    first = lines.index(f"# TYPE {name} counter") + 1
    assert {line.partition("{")[0] for line in lines[first : first + 26]} == {name}
    assert lines[first] == f'{name}{{class="idle",node="node1",gpu="0",uuid="GPU-node1-0000"}} 1.0'
    assert len([line for line in lines if name in line]) == 28


def test_the_distribution_is_a_classic_histogram() -> None:
    text = text_of(store_of(target("a", tick([gpu(0)]))))
    name, labels = "pulsed_gpu_real_utilization_distribution_ratio", 'node="node1",gpu="0",uuid="GPU-node1-0000"'
    assert f"# TYPE {name} histogram" in text.splitlines()
    assert lines_of(text, name) == [
        f'{name}_bucket{{le="0.25",{labels}}} 3',
        f'{name}_bucket{{le="0.5",{labels}}} 3',
        f'{name}_bucket{{le="+Inf",{labels}}} 10',
        f"{name}_count{{{labels}}} 10",
        f"{name}_sum{{{labels}}} 5.5",
    ]


def test_what_was_never_known_is_not_counted() -> None:
    text = text_of(store_of(target("a", tick([gpu(0, result=OPEN)]))))
    assert "pulsed_gpu_class_energy_joules" not in text
    assert "pulsed_gpu_real_utilization_distribution" not in text
    assert len(lines_of(text, "pulsed_gpu_workload_class_changes_total{")) == 1


def test_a_mig_instance_says_which_it_is() -> None:
    text = text_of(store_of(target("a", tick([mig(0, 7, sm_active_ratio=0.5)]))))
    assert lines_of(text, "pulsed_gpu_sm_active_ratio{") == [
        'pulsed_gpu_sm_active_ratio{node="node1",gpu="0",uuid="GPU-node1-0000",mig_id="7",mig_profile="1g.10gb"} 0.5'
    ]


def test_every_gpu_series_names_its_node() -> None:
    made = store_of(target("a", tick([gpu(0, "n1"), gpu(0, "n2"), mig(0, 7)])), target("b", tick([gpu(0, "n3")])))
    series = lines_of(text_of(made), "pulsed_gpu_")
    assert all(re.search(r'[{,]node="n(ode)?[123]",gpu="0"', line) for line in series)
    samples = [line for line in series if line.startswith("pulsed_gpu_last_sample_timestamp_seconds{")]
    assert [re.findall('node="(.+?)"', line) for line in samples] == [["n1"], ["n2"], ["node1"], ["n3"]]


def test_a_stale_target_leaves_the_page_and_comes_back() -> None:
    first = tick([gpu(0, "n1", power_watts=1.0)])
    made = store_of(target("a", first), target("b", tick([gpu(0, "n2", power_watts=2.0)]), arrived=105.0))
    pages = Pages(made, Telemetry(made))

    def watts(now: float) -> int:
        return pages.page(Monotonic(now), openmetrics=False, gzip=False).count(b"pulsed_gpu_power_watts{")

    assert [watts(105.0), watts(110.0), watts(110.1), watts(115.1)] == [2, 2, 1, 0]
    made.targets[0].accept(next_tick(first, 1), Monotonic(116.0))
    assert watts(116.0) == 1


@pytest.mark.parametrize("openmetrics", [False, True])
def test_without_gpus_the_page_is_about_pulsed_itself(openmetrics: bool) -> None:
    text = text_of(store_of(target("a")), openmetrics=openmetrics)
    assert "pulsed_gpu" not in text
    assert 'pulsed_source_up{source="a"} 0' in text.splitlines()
    assert text.endswith("# EOF\n") is openmetrics
    assert text.count("# EOF") == openmetrics


def test_a_gpu_that_two_targets_report_is_shown_once_and_counted() -> None:
    second = tick([gpu(0, power_watts=2.0), gpu(1, power_watts=3.0)])
    second.duplicates = {"a": 1}
    both = store_of(target("a", tick([gpu(0, power_watts=1.0)])), target("b", second))
    text = text_of(both)
    assert [line[-3:] for line in lines_of(text, "pulsed_gpu_power_watts{")] == ["1.0", "3.0"]
    assert 'pulsed_source_duplicate_gpus{source="a"} 0' in text.splitlines()
    assert 'pulsed_source_duplicate_gpus{source="b"} 1' in text.splitlines()


def test_when_the_first_of_two_targets_is_stale_the_second_shows_the_gpu() -> None:
    both = store_of(
        target("a", tick([gpu(0, power_watts=1.0)])), target("b", tick([gpu(0, power_watts=2.0)]), arrived=109.0)
    )
    pages = Pages(both, Telemetry(both))
    for now, expected in ((109.0, b"} 1.0\n"), (111.0, b"} 2.0\n")):
        page = pages.page(Monotonic(now), openmetrics=False, gzip=False)
        assert page.count(b"pulsed_gpu_power_watts{") == 1
        assert expected in page


def test_a_page_is_made_once_and_again_after_a_tick_or_a_second() -> None:
    first = tick(busy_gpus(2, 1))
    made = store_of(target("a", first))
    pages = Pages(made, Telemetry(made))
    page = pages.page(Monotonic(NOW), openmetrics=True, gzip=True)
    assert pages.page(Monotonic(NOW + 0.9), openmetrics=True, gzip=True) is page
    assert pages.page(Monotonic(NOW + 1.0), openmetrics=True, gzip=True) is not page
    page = pages.page(Monotonic(NOW + 1.1), openmetrics=True, gzip=True)
    made.targets[0].accept(next_tick(first, 2), Monotonic(NOW + 1.2))
    assert pages.page(Monotonic(NOW + 1.2), openmetrics=True, gzip=True) != page
    page = pages.page(Monotonic(NOW + 1.3), openmetrics=True, gzip=True)
    made.targets[0].fail("bad_page", "no")
    assert pages.page(Monotonic(NOW + 1.3), openmetrics=True, gzip=True) != page


@pytest.mark.parametrize("openmetrics", [False, True])
def test_gzip_holds_the_same_page(openmetrics: bool) -> None:
    made = store_of(target("a", tick(busy_gpus(2, 1))))
    pages = Pages(made, Telemetry(made))
    packed = pages.page(Monotonic(NOW), openmetrics=openmetrics, gzip=True)
    assert gzip.decompress(packed) == pages.page(Monotonic(NOW), openmetrics=openmetrics, gzip=False)
    assert packed[4:8] == b"\0\0\0\0", "a time in the header would make equal pages differ"


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("gpus", [2, LARGE_GPUS + 2])
async def test_a_served_page_is_the_same_page(gpus: int, openmetrics: bool, gzipped: bool) -> None:
    first = tick(busy_gpus(gpus, 1))
    made = store_of(target("a", first), target("b", first))
    served, pages = Pages(made, Telemetry(made)), Pages(made, Telemetry(made))
    for now in (NOW, NOW + 0.5):
        answers = [served.serve(Monotonic(now), openmetrics=openmetrics, gzip=gzipped) for _ in range(3)]
        one, two, three = await asyncio.gather(*answers)
        assert one is two is three
        text = (gzip.decompress(one) if gzipped else one).decode()
        expected = pages.page(Monotonic(now), openmetrics=openmetrics, gzip=False).decode()
        assert lines_of(text, "pulsed_gpu") == lines_of(expected, "pulsed_gpu")
        assert text.endswith("# EOF\n") is openmetrics
        assert 'pulsed_source_duplicate_gpus{source="b"}' in text
        made.targets[0].accept(next_tick(first, 2), Monotonic(now))


class SlowTelemetry(Telemetry):
    """Takes long to note a rendering; `most` is how many of them it noted at once, `threads` has theirs."""

    def __init__(self, store: TargetStore) -> None:
        super().__init__(store)
        self.running = self.most = 0
        self.threads: set[int] = set()

    def observe(self, layer: str, seconds: float) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.threads.add(threading.get_ident())
        time.sleep(0.05)
        self.running -= 1


async def test_large_pages_are_rendered_one_at_a_time_in_threads_also_when_a_request_is_cancelled() -> None:
    made = store_of(target("a", tick(busy_gpus(LARGE_GPUS + 2, 1))))
    telemetry = SlowTelemetry(made)
    pages = Pages(made, telemetry)
    first = asyncio.create_task(pages.serve(Monotonic(NOW), openmetrics=False, gzip=False))
    await eventually(lambda: telemetry.running == 1)
    first.cancel()
    pages.configure(PageSettings(catalog("lean")))
    text, _ = await asyncio.gather(
        *(pages.serve(Monotonic(NOW + 0.1), openmetrics=openmetrics, gzip=True) for openmetrics in (False, True))
    )
    assert first.cancelled()
    assert telemetry.most == 1
    assert threading.get_ident() not in telemetry.threads
    assert b"pulsed_gpu_health_state" not in gzip.decompress(text), "the new settings"


def test_half_a_surrogate_in_a_label_does_not_cost_the_page() -> None:
    device = Device(Entity("gpu", "0", "GPU-\ud800"))
    assert 'uuid="GPU-?"' in text_of(store_of(target("a", tick([Gpu(device)]))))


def test_targets_may_come_and_go() -> None:
    made = store_of(target("a", tick([gpu(0, power_watts=1.0)])))
    pages = Pages(made, Telemetry(made))
    pages.page(Monotonic(NOW), openmetrics=False, gzip=False)
    made.targets[:] = [target("b", tick([gpu(1, power_watts=2.0)])), target("c", tick([gpu(2, power_watts=3.0)]))]
    page = pages.page(Monotonic(NOW), openmetrics=False, gzip=False).decode()
    assert [line[-3:] for line in lines_of(page, "pulsed_gpu_power_watts{")] == ["2.0", "3.0"]
