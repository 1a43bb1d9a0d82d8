"""Sequences of an exporter that is down: in every output its GPUs are unknown, and the source is what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health.settings import DEFAULT_HEALTH
from pulsed.daemon.changes import log_health_change
from pulsed.errors import SourceError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.api.documents import gpus_document, health_document, sources_of
from pulsed.present.api.gpu_columns import summary_document
from pulsed.present.api.gpu_matches import matches
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.health_report import exit_code_of, health_line, health_table
from pulsed.reader.exposition.parser import PageParser

START = 1767225600.0
INTERVAL = 15.0
REFUSED = "cannot connect to http://n:9400/metrics: connection refused"

HEALTHY = {"DCGM_FI_DEV_GPU_TEMP": 45.0, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0, "DCGM_FI_DEV_XID_ERRORS": 0.0}
FALLEN = HEALTHY | {"DCGM_FI_DEV_XID_ERRORS": 48.0}
OFF_BUS = HEALTHY | {"DCGM_FI_DEV_XID_ERRORS": 79.0}
BROKEN = HEALTHY | {"DCGM_FI_DEV_ROW_REMAP_FAILURE": 1.0}


class Daemon:
    """A daemon that reads one exporter; only time and pages go in."""

    def __init__(self) -> None:
        self.parser, self.pipeline = PageParser(), Pipeline(GpuTable(), "n")
        self.target = Target("exporter", "http://n:9400/metrics", INTERVAL, 3 * INTERVAL)
        self.store = TargetStore("n", [self.target])
        self.now = 100.0
        self.pages = Pages(self.store, Telemetry(self.store))

    def poll(self, *gpus: Mapping[str, float]) -> None:
        """Read a page of these GPUs."""
        self.now += INTERVAL
        watts = {
            "DCGM_FI_DEV_POWER_USAGE": 300.0 + self.now % 7,
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": self.now * 3e5,
        }
        page = "".join(
            f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3"}} {value}\n'
            for name in (*HEALTHY, *watts)
            for gpu, values in enumerate(gpus)
            for value in [{**values, **watts}[name]]
        )
        read = self.parser.parse(page.encode())
        raw = RawTick(
            "n", Unix(START + self.now), Monotonic(self.now), INTERVAL, read.layout, read.values, read.rejected
        )
        try:
            tick = self.pipeline.process(raw)
        except SourceError as error:
            self.target.fail(error.reason, str(error))
            return
        for change in tick.health_changes:
            log_health_change(change, "n")
        self.target.accept(tick, Monotonic(self.now))

    def fail(self, seconds: float) -> None:
        """Find the exporter down for so long."""
        for _ in range(round(seconds / INTERVAL)):
            self.now += INTERVAL
            self.target.fail("scrape_failed", REFUSED)

    def rows(self, checks: Sequence[str] = ()) -> list[dict[str, Any]]:
        return health_document(self.store, Monotonic(self.now), checks)

    @property
    def states(self) -> tuple[str, ...]:
        """The state of each GPU, which has to be the same in all documents."""
        health = [row["state"] for row in self.rows() if row["gpu"] is not None]
        gpus = gpus_document(self.store, Monotonic(self.now), START + self.now, "default")["gpus"]
        sources, shown = (
            sources_of(self.store, Monotonic(self.now), START),
            list(matches(self.store, Monotonic(self.now))),
        )
        columns = summary_document(sources, shown, ["health_state"], Monotonic(self.now))["fields"]["health_state"]
        assert health == [each["health"]["state"] for each in gpus] == columns
        return tuple(health)

    @property
    def page(self) -> str:
        return self.pages.page(Monotonic(self.now), openmetrics=False, gzip=False).decode()


class Case(NamedTuple):
    """GPUs before, the states and the exit code while the exporter is down, and after it."""

    gpus: tuple[Mapping[str, float], ...]
    down: tuple[str, ...]
    code: int
    after: tuple[str, ...]


CASES = {
    "healthy": Case((HEALTHY, HEALTHY), ("unknown", "unknown"), 3, ("ok", "ok")),
    "an event before": Case((HEALTHY, FALLEN), ("unknown", "crit"), 2, ("ok", "crit")),
    "a defect before": Case((HEALTHY, BROKEN), ("unknown", "crit"), 2, ("ok", "crit")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@pytest.mark.parametrize("seconds", [60.0, 300.0, 3600.0])
def test_an_exporter_that_is_down(case: Case, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon()
    for _ in range(3):
        daemon.poll(*[HEALTHY] * len(case.gpus))
    for _ in range(3):
        daemon.poll(*case.gpus)
    assert daemon.states == case.after
    caplog.clear()
    daemon.fail(seconds)
    assert daemon.states == case.down
    rows = daemon.rows()
    assert exit_code_of(rows) == case.code
    source = f"{daemon.target.name} unknown: telemetry"
    assert health_line(rows).startswith(f"PULSED {('', '', 'CRITICAL', 'UNKNOWN')[case.code]} - ")
    assert source in health_line(rows)
    assert f"No data from {daemon.target.name}: {REFUSED}" in health_table(rows)
    assert {problem["id"] for row in rows if row["state"] == "unknown" for problem in row["problems"]} == {"telemetry"}
    assert [row["gpu"] for row in rows if row["problems"] and row["state"] == "unknown"] == [None]
    drained = exit_code_of(daemon.rows(["row_remap_failed"]))
    assert drained == (2 if BROKEN in case.gpus else 3), "nothing drains a node for its source"
    assert "pulsed_gpu_" not in daemon.page
    assert f'pulsed_source_up{{source="{daemon.target.name}"}} 0' in daemon.page
    for _ in range(3):
        daemon.poll(*case.gpus)
        assert daemon.states == case.after
    assert exit_code_of(daemon.rows()) == (2 if "crit" in case.after else 0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_exporter_that_starts_again_has_no_gpu_yet() -> None:
    daemon = Daemon()
    for _ in range(3):
        daemon.poll(HEALTHY, HEALTHY)
    daemon.fail(300.0)
    for _ in range(4):
        daemon.poll()
        assert exit_code_of(daemon.rows()) == 3
    daemon.poll(HEALTHY, HEALTHY)
    assert daemon.states == ("ok", "ok")


def test_a_gpu_that_was_lost_stays_lost_while_its_source_is_down() -> None:
    daemon = Daemon()
    for _ in range(3):
        daemon.poll(HEALTHY, HEALTHY)
    daemon.poll(HEALTHY, OFF_BUS)
    for _ in range(3):
        daemon.poll(HEALTHY)
    assert daemon.states == ("ok", "crit")
    daemon.fail(300.0)
    assert daemon.states == ("unknown", "crit")


def test_of_two_exporters_of_a_gpu_one_may_be_down() -> None:
    daemon, other = Daemon(), Daemon()
    store = TargetStore("n", [daemon.target, other.target])
    daemon.poll(HEALTHY)
    daemon.fail(300.0)
    other.now = daemon.now
    other.poll(HEALTHY)
    assert [row["state"] for row in health_document(store, Monotonic(other.now))] == ["ok"]


def test_no_critical_alert_is_about_the_source() -> None:
    (check,) = [check for check in DEFAULT_HEALTH.checks() if check.id == "telemetry"]
    assert "crit" not in check.states
