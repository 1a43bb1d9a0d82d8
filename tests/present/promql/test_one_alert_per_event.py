"""What an on-call engineer is sent for each event of a node with 8 GPUs: one alert, or few.

An exporter's page and a kernel log go through all layers; the pages of the daemon are promtool's series, and a real
Alertmanager with the shipped configuration inhibits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pulsed.collector.collector import Pipeline, PipelineSettings
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.settings import ComputeSettings
from pulsed.errors import SourceError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.owners.accounting import OwnerAccounting
from pulsed.present.exposition.owner_families import OwnerFamilies
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.promql.rule_set import RuleSelection, document, groups
from pulsed.present.promql.rule_types import Alert
from pulsed.reader.exposition.parser import PageParser
from tests.present.promql.promtool import fired, selector
from tests.support.alertmanager import alertmanager
from tests.support.waiting import until
from tests.system.end_to_end.series import rows
from tools.generate_docs import ROOT

START = 1767225600.0
INTERVAL = 15.0
GPUS = 8
RULES = document(ComputeSettings(), RuleSelection("alerting"))
ALERTS = [
    rule.name
    for group in groups(ComputeSettings(), RuleSelection("alerting"))
    for rule in group.rules
    if isinstance(rule, Alert)
]

WORKING: Mapping[str, float] = {
    "DEV_GPU_TEMP": 55, "DEV_GPU_MAX_OP_TEMP": 87, "DEV_SLOWDOWN_TEMP": 90, "DEV_XID_ERRORS": 0, "DEV_GPU_UTIL": 98,
    "DEV_ROW_REMAP_FAILURE": 0, "DEV_ROW_REMAP_PENDING": 0, "DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
    "DEV_ECC_DBE_VOL_TOTAL": 0, "DEV_CLOCKS_EVENT_REASONS": 0, "DEV_FABRIC_MANAGER_STATUS": 3,
    "DEV_GET_GPU_RECOVERY_ACTION": 0, "DEV_FB_USED": 60_000, "DEV_FB_FREE": 20_000,
    "PROF_GR_ENGINE_ACTIVE": 0.97, "PROF_SM_ACTIVE": 0.9, "PROF_PIPE_TENSOR_ACTIVE": 0.5, "PROF_DRAM_ACTIVE": 0.4,
}  # fmt: skip
"""Of a GPU that works and is healthy, without `DCGM_FI_`."""

IDLE: Mapping[str, float] = {
    **{name: 0 for name in WORKING if name.startswith("PROF_")}, "DEV_GPU_UTIL": 0, "DEV_FB_USED": 500,
}  # fmt: skip


@dataclass
class Node:
    """A daemon on a node with an exporter and a kernel log; only time, pages and messages go in."""

    folder: Path
    pods: dict[int, str] = field(default_factory=dict)
    is_up: bool = True
    is_exporter_up: bool = True
    is_config_in_force: bool = True
    gpus: dict[int, Mapping[str, float]] = field(default_factory=lambda: dict.fromkeys(range(GPUS), WORKING))
    minute: int = 0
    now: float = 0.0
    series: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, str]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def __post_init__(self) -> None:
        self.log = self.folder / "kmsg"
        self.log.touch()
        self.parser, self.pipeline = (
            PageParser(),
            Pipeline(GpuTable(), "n", settings=PipelineSettings(kernel_log=str(self.log))),
        )
        self.target = Target("exporter", "http://n:9400/metrics", INTERVAL, 3 * INTERVAL)
        store, self.accounting = TargetStore("n", [self.target]), OwnerAccounting()
        owners = OwnerFamilies(store, self.accounting)
        telemetry = Telemetry(store, owners.collect, lambda: self.is_config_in_force)
        self.pages = Pages(store, telemetry)

    def set(self, values: Mapping[str, float], gpus: Iterable[int] = range(GPUS)) -> None:
        """Change values of GPUs."""
        for gpu in gpus:
            self.gpus[gpu] = {**self.gpus[gpu], **values}

    def log_xid(self, code: int, gpu: int) -> None:
        """Log an XID now."""
        with self.log.open("a") as file:
            message = f"NVRM: Xid (PCI:0000:{gpu}b:00): {code}, pid=7, x"
            stamp = int((START + self.now) * 1e6)
            file.write(f"__REALTIME_TIMESTAMP={stamp}\n_TRANSPORT=kernel\nMESSAGE={message}\n\n")

    def run(self, minutes: int) -> None:
        """Let minutes pass; the page is scraped at the end of each."""
        for _ in range(minutes):
            for _ in range(round(60 / INTERVAL)):
                self.now += INTERVAL
                self._poll()
            self.minute += 1
            self._scrape()

    def _poll(self) -> None:
        if not self.is_exporter_up:
            self.target.fail("scrape_failed", "cannot connect: connection refused")
            return
        noise = self.now % 7
        lines = []
        for gpu, values in self.gpus.items():
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:{gpu}B:00.0",modelName="NVIDIA H100 80GB HBM3"'
            if pod := self.pods.get(gpu):
                labels += f',namespace="ml",pod="{pod}",container="main"'
            power = {"DEV_POWER_USAGE": 300 + noise, "DEV_TOTAL_ENERGY_CONSUMPTION": self.now * 3e5}
            for name, value in {**values, **power}.items():
                lines.append((name, f"DCGM_FI_{name}{{{labels}}} {value}\n"))
        read = self.parser.parse("".join(line for _, line in sorted(lines, key=lambda line: line[0])).encode())
        raw = RawTick(
            "n", Unix(START + self.now), Monotonic(self.now), INTERVAL, read.layout, read.values, read.rejected
        )
        try:
            tick = self.pipeline.process(raw)
        except SourceError as error:
            self.target.fail(error.reason, str(error))
            return
        self.accounting.add(tick)
        self.target.accept(tick, Monotonic(self.now))

    def _scrape(self) -> None:
        self.series["up", ()][self.minute] = str(int(self.is_up))
        if not self.is_up:
            return
        for row in rows(self.pages.page(Monotonic(self.now), openmetrics=False, gzip=False).decode()):
            value = float(row.value) - (START if row.name.endswith("_timestamp_seconds") else 0)
            self.series[row.name, tuple(row.labels)][self.minute] = f"{value:.9g}"

    def world(self) -> list[tuple[str, str]]:
        """Return the series that rules use, in promtool's notation."""
        found = []
        for (name, labels), values in self.series.items():
            if name in RULES or name == "up":
                own = {"job": "pulsed", "instance": "n:9401", "cluster": "c", **dict(labels)}
                texts = [
                    values.get(minute, "_" if minute - 1 not in values else "stale")
                    for minute in range(self.minute + 1)
                ]
                found.append((selector(name, own), " ".join(texts)))
        return found


def down(node: Node) -> None:
    node.is_up = False


def exporter_down(node: Node) -> None:
    node.is_exporter_up = False


def bad_configuration(node: Node) -> None:
    node.is_config_in_force = False


def lost(node: Node) -> None:
    """The exporter no longer lists it."""
    node.gpus.pop(3)
    node.log_xid(79, 3)


def xid_79(node: Node) -> None:
    node.log_xid(79, 3)


def ecc_with_48(node: Node) -> None:
    node.log_xid(48, 3)
    values = {
        "DEV_XID_ERRORS": 48,
        "DEV_ECC_DBE_VOL_TOTAL": 2,
        "DEV_ROW_REMAP_PENDING": 1,
        "DEV_GET_GPU_RECOVERY_ACTION": 1,
    }
    node.set({**values, "DEV_UNCORRECTABLE_REMAPPED_ROWS": 1}, [3])


def fabric_manager_failed(node: Node) -> None:
    node.set({"DEV_FABRIC_MANAGER_STATUS": 4})


def hot(node: Node) -> None:
    """Clocks are cut, the dies are beyond their limits, on some GPUs more than on others."""
    node.set({"DEV_GPU_TEMP": 89, "DEV_CLOCKS_EVENT_REASONS": 0x68})
    node.set({"DEV_GPU_TEMP": 92}, [1, 2, 5])


def xid_31(node: Node) -> None:
    for gpu in range(GPUS):
        node.log_xid(31, gpu)


def idle(node: Node) -> None:
    node.pods[0] = "notebook-0"
    node.set(IDLE, [0])


EVENTS: dict[str, tuple[Callable[[Node], None], int, set[tuple[str, str]]]] = {
    "exporter down": (exporter_down, 50, {("PulsedSourceDown", "")}),
    "daemon down": (down, 50, {("PulsedDaemonDown", "")}),
    "bad configuration": (bad_configuration, 10, {("PulsedConfigReloadFailed", "")}),
    "lost GPU": (lost, 15, {("PulsedGpuHealthCritical", "gpu_lost")}),
    "XID 79 in the log": (xid_79, 15, {("PulsedGpuHealthCritical", "xid_critical")}),
    "ECC with XID 48": (ecc_with_48, 15, {("PulsedGpuHealthCritical", "xid_critical")}),
    "fabric manager failed": (fabric_manager_failed, 15, {("PulsedNodeHealthCritical", "fabric")}),
    "hot node": (hot, 15, {("PulsedNodeHealthCritical", "cooling")}),
    "XID 31 on all GPUs": (xid_31, 8, {("PulsedNodeHealthWarning", "xid_warning")}),
    "idle notebook": (idle, 85, {("PulsedPodIdle", "")}),
}
"""What happens, minutes until the alerts are counted, and those that are sent."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_one_alert(tmp_path: Path, name: str) -> None:
    happen, minutes, expected = EVENTS[name]
    node = Node(tmp_path)
    node.run(30)
    happen(node)
    node.run(minutes)
    found = fired(tmp_path, RULES, node.world(), dict.fromkeys(ALERTS, node.minute))
    labels = [alert["labels"] for alerts in found.values() for alert in alerts]
    with alertmanager(tmp_path, ROOT / "deploy/prometheus/alertmanager.yaml") as server:
        server.send(labels)
        until(lambda: len(server.alerts()) == len(labels))

        def sent() -> list[tuple[str, str]]:
            alerts = [alert["labels"] for alert in server.alerts() if not alert["status"]["inhibitedBy"]]
            return sorted((alert["alertname"], alert.get("check", "")) for alert in alerts)

        until(lambda: len(sent()) <= len(expected))
        assert sent() == sorted(expected)
