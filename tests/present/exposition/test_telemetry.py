from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pulsed import __version__
from pulsed.collector.source_factory import open_sources, target_of
from pulsed.config.configuration import load
from pulsed.errors import BadPage, ScrapeFailed
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.telemetry import LAYERS, Telemetry
from pulsed.present.exposition.text_format import END
from tests.present.boards import TIME, gpu, store_of, target, tick

NOW = 100.0

Parse = Callable[[str], Iterable[Metric]]


def busy() -> tuple[TargetStore, Telemetry]:
    made = store_of(
        target('odd "name"\\\n', tick([gpu(0)], rejected={"bad_value": 3})), target("silent", kind="replay")
    )
    made.targets[1].restarts = 1
    made.targets[1].fail(ScrapeFailed.reason, "refused")
    telemetry = Telemetry(made)
    telemetry.observe("compute", 0.0003)
    telemetry.observe("compute", 99.0)
    telemetry.count_request("/gpus/{gpu}", 200)
    return made, telemetry


def values(telemetry: Telemetry, now: float = NOW) -> dict[str, float]:
    page = telemetry.render(Monotonic(now), openmetrics=False).decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in page.splitlines() if line[0] != "#"}


def families(parsed: Iterable[Metric]) -> dict[str, tuple[str, str, list[tuple[str, dict[str, str], float]]]]:
    moving = (
        "process_cpu_seconds",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
    )
    return {
        family.name: (family.type, family.documentation, [(s.name, s.labels, s.value) for s in family.samples])
        for family in parsed
        if family.name not in moving
    }


@pytest.mark.parametrize("openmetrics", [False, True])
def test_the_page_says_what_prometheus_client_would_write(openmetrics: bool) -> None:
    _, telemetry = busy()
    page = telemetry.render(Monotonic(NOW), openmetrics=openmetrics)
    if openmetrics:
        theirs: bytes = generate_openmetrics(telemetry.registry)  # type: ignore[no-untyped-call]
        page += END
    else:
        theirs = generate_latest(telemetry.registry)
    parse: Parse = parse_openmetrics if openmetrics else parse_text
    assert families(parse(page.decode())) == families(parse(theirs.decode()))
    assert b"_created" not in page


def test_it_says_which_pulsed_this_is_and_what_it_reads() -> None:
    found = values(busy()[1])
    (build,) = [name for name in found if name.startswith("pulsed_build_info")]
    assert f'version="{__version__}",revision="unknown"' in build
    assert found['pulsed_source_info{kind="replay",target="silent"}'] == 1


def test_sources_are_told_as_the_board_has_them() -> None:
    odd, silent = r'source="odd \"name\"\\\n"', 'source="silent"'
    found = values(busy()[1])
    assert [found[f"pulsed_source_up{{{each}}}"] for each in (odd, silent)] == [1, 0]
    assert [found[f"pulsed_source_samples_total{{{each}}}"] for each in (odd, silent)] == [1, 0]
    assert found[f'pulsed_source_rejected_rows_total{{{odd},reason="bad_value"}}'] == 3
    assert found[f"pulsed_source_restarts_total{{{silent}}}"] == 1
    assert found[f"pulsed_source_last_sample_timestamp_seconds{{{odd}}}"] == TIME
    assert f"pulsed_source_last_sample_timestamp_seconds{{{silent}}}" not in found


def test_known_reasons_of_errors_stand_at_zero_from_the_start() -> None:
    config = load(None, ["source={kind: exporter, exporter: {targets: http://gpu1:9400/metrics}}"], {})
    (source,) = open_sources(config)
    made = TargetStore("node", [target_of(source, config)])
    made.targets[0].fail(ScrapeFailed.reason, "refused")
    found = values(Telemetry(made))
    for reason in (ScrapeFailed.reason, BadPage.reason):
        name = f'pulsed_source_errors_total{{source="http://gpu1:9400/metrics",reason="{reason}"}}'
        assert found[name] == (reason == ScrapeFailed.reason)


def test_a_reason_that_nobody_foresaw_is_counted_too() -> None:
    made, telemetry = busy()
    made.targets[0].fail("internal", "oh")
    assert any('reason="internal"' in name and value == 1 for name, value in values(telemetry).items())


def test_a_source_that_fell_silent_is_not_up() -> None:
    made, telemetry = busy()
    assert made.targets[0].up
    later = NOW + made.targets[0].stale_after
    up = r'pulsed_source_up{source="odd \"name\"\\\n"}'
    assert [values(telemetry, now)[up] for now in (later, later + 0.1)] == [1, 0]


def test_a_target_that_is_configured_twice_has_no_series_twice() -> None:
    page = Telemetry(store_of(target("a"), target("a"))).render(Monotonic(NOW), openmetrics=False)
    assert page.count(b"pulsed_source_up{") == 1


def test_durations_are_a_histogram_by_layer() -> None:
    found = values(busy()[1])
    name = 'pulsed_tick_duration_seconds_bucket{layer="compute",le="%s"}'
    assert [found[name % bound] for bound in ("0.00025", "0.0005", "1.0", "+Inf")] == [0, 1, 1, 2]
    assert found['pulsed_tick_duration_seconds_count{layer="compute"}'] == 2
    assert found['pulsed_tick_duration_seconds_sum{layer="compute"}'] == 99.0003
    assert all(f'pulsed_tick_duration_seconds_count{{layer="{layer}"}}' in found for layer in LAYERS)


def test_requests_reload_and_process() -> None:
    _, telemetry = busy()
    telemetry.count_request("/gpus/{gpu}", 200)
    assert values(telemetry)['pulsed_http_requests_total{path="/gpus/{gpu}",code="200"}'] == 2
    assert values(telemetry)["pulsed_config_last_reload_successful"] == 1
    refused = Telemetry(store_of(), is_config_in_force=lambda: False)
    assert values(refused)["pulsed_config_last_reload_successful"] == 0
    assert values(telemetry)["process_resident_memory_bytes"] > 0
