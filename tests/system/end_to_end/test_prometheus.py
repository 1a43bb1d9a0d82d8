"""A real Prometheus scrapes a running daemon, and its answers are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.nightly import nightly_after
from tests.support.prometheus import CONFIG, prometheus
from tests.support.square_wave import BUSY, compare
from tests.support.waiting import until
from tools.generate_docs import ROOT

SHIPPED = ROOT / "deploy" / "prometheus" / "prometheus.yaml"

HONOR_LABELS = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: kept, honor_labels: true, static_configs: &targets [{{targets: ["{address}"]}}]}}
  - {{job_name: renamed, honor_labels: false, static_configs: *targets}}
"""


def test_honor_labels_makes_no_difference(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--source", "demo", "--set", "node=gpu-17") as daemon,
        prometheus(tmp_path, HONOR_LABELS.format(address=daemon.address)) as server,
    ):
        server.wait_for("count(pulsed_gpu_observed_seconds_total) == 16")

        def series(job: str) -> set[frozenset[tuple[str, str]]]:
            found = server.ask(f'{{__name__=~"pulsed_gpu_.+", job="{job}"}}')
            return {frozenset((each["metric"] | {"job": ""}).items()) for each in found}

        until(
            lambda: series("kept") == series("renamed")
        )  # a series that begins comes with one scrape before the other
        assert {dict(labels)["node"] for labels in series("kept")} == {"gpu-17"}


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_counters_are_exact_between_two_scrapes(tmp_path: Path) -> None:
    """0.3 s busy, 0.7 s idle, ten samples a second, a scrape every 15 s: the gauge cannot tell, counters can."""
    seen = compare(tmp_path, scrapes=9)
    assert seen.truth == pytest.approx(BUSY, rel=0.05), "the stand-in could not play the wave"
    assert seen.counter == pytest.approx(seen.sampled, rel=0.005)
    assert seen.idle == pytest.approx(1 - seen.sampled, rel=0.005)
    # dmon prints no times: a line that a busy machine delivers late counts for a part of the next one's time.
    assert seen.counter == pytest.approx(seen.truth, rel=0.02)
    assert seen.observed == pytest.approx(1.0, rel=0.01), "some time was not observed"


def exporter_page(xid: int, events: int) -> str:
    labels = 'gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"'
    samples = {"XID_ERRORS": xid, "PCIE_REPLAY_COUNTER": events, "GPU_UTIL": 50}
    return "".join(f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in samples.items())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("series", nightly_after(1, ["lean", "full"]))
def test_the_first_event_of_a_code_is_counted_by_increase(tmp_path: Path, series: str) -> None:
    """Two XIDs, one of a code that no page had before; the first increment is in `increase()` of both families."""
    page = tmp_path / "page.prom"
    page.write_text(exporter_page(0, 0))
    arguments = ("--source", "exporter", "--set", f"source.exporter.targets={page}", "--set", "source.interval=1s")
    with (
        serving(tmp_path, *arguments, "--set", f"publish.series={series}") as daemon,
        prometheus(tmp_path, CONFIG.format(interval="1s", address=daemon.address)) as server,
    ):
        server.wait_for("count_over_time(pulsed_gpu_any_xid_events_total[1m]) > 3")
        page.write_text(exporter_page(31, 0))
        server.wait_for('pulsed_gpu_xid_events_total{xid="31"} == 0')
        assert server.value("increase(pulsed_gpu_any_xid_events_total[2m])") > 0.9
        page.write_text(exporter_page(48, 0))
        server.wait_for('increase(pulsed_gpu_xid_events_total{xid="31"}[2m]) > 0.9')
        server.wait_for('increase(pulsed_gpu_xid_events_total{xid="48"}[2m]) > 0.9')
        server.wait_for("increase(pulsed_gpu_any_xid_events_total[2m]) > 1.8")
