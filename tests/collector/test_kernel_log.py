"""Messages of the kernel log and an exporter's page, through the whole pipeline."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.derive import ComputeSettings
from pulsed.compute.health.model import Health
from pulsed.config.gpu_selection import EVERYTHING
from tests.translate.build import page_tick

LABELS = 'gpu="{0}",UUID="GPU-{0}",pci_bus_id="00000000:{0}B:00.0",modelName="NVIDIA H100 80GB HBM3"'
FIELDS = {"DCGM_FI_DEV_GPU_TEMP": 50, "DCGM_FI_DEV_POWER_USAGE": 100.5, "DCGM_FI_DEV_GPU_UTIL": 10}


class Node:
    """Two GPUs, a page a second, and a kernel log in a file."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "kmsg"
        self.log.touch()
        self.pipeline = Pipeline(ComputeSettings(), "n", kernel_log=str(self.log))
        self.seconds = itertools.count(1_000_000)

    def log_xid(self, code: int, gpu: int = 1, at: float = 0.0) -> None:
        """Log an XID, at a time after the first page."""
        with self.log.open("a") as file:
            stamp = int((1_000_000 + at) * 1e6)
            file.write(f"__REALTIME_TIMESTAMP={stamp}\nMESSAGE=NVRM: Xid (PCI:0000:{gpu}b:00): {code}, pid=7, x\n\n")

    def page(self, gauge: int | None = None, gpus: tuple[int, ...] = (1, 2)) -> list[Health]:
        rows = [f"{name}{{{LABELS.format(gpu)}}} {value}" for gpu in gpus for name, value in FIELDS.items()]
        if gauge is not None:
            rows += [f"DCGM_FI_DEV_XID_ERRORS{{{LABELS.format(gpus[0])}}} {gauge}"]
        now = float(next(self.seconds))
        raw = replace(page_tick("\n".join(rows) + "\n"), time=now, clock=now)
        return [result.health for result in self.pipeline.process(raw).results]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def events(health: Health, code: int) -> int:
    return dict(health.xid_events).get(code, 0)


def test_an_xid_belongs_to_the_gpu_with_its_address(node: Node) -> None:
    assert node.page()[0].check("xid_critical").state == "ok"  # the log is an input: no gauge is needed
    node.log_xid(79, at=1)
    first, second = node.page()
    assert (first.check("xid_critical").state, events(first, 79)) == ("crit", 1)
    assert (second.check("xid_critical").state, events(second, 79)) == ("ok", 0)


def test_the_gauge_and_the_log_report_one_event(node: Node) -> None:
    node.page(gauge=0)
    node.log_xid(48, at=1)
    node.page(gauge=0)
    assert events(node.page(gauge=48)[0], 48) == 1
    node.page(gauge=48)
    node.log_xid(43, at=5)
    assert events(node.page(gauge=43)[0], 43) == 1


def test_the_gauge_may_come_first(node: Node) -> None:
    node.page(gauge=0)
    assert events(node.page(gauge=48)[0], 48) == 1
    node.log_xid(48, at=1)
    assert events(node.page(gauge=48)[0], 48) == 1


def test_repeated_codes_are_counted_which_a_gauge_cannot_show(node: Node) -> None:
    node.page(gauge=0)
    for second in range(1, 6):
        node.log_xid(31, at=second)
        health = node.page(gauge=31)[0]
    assert events(health, 31) == 5


def test_the_log_dates_a_code_from_before_the_start(node: Node) -> None:
    node.log_xid(79, at=-60)
    health = node.page(gauge=79)[0]
    check = health.check("xid_critical")
    assert check.state == "crit"  # of unknown age it would be a warning
    assert dict(check.evidence)["time_known"] == 1.0
    assert events(health, 79) == 0  # it is not an event of this run


def test_a_message_from_before_the_start_alone_raises_nothing(node: Node) -> None:
    """The GPU may have been reset since."""
    node.log_xid(79, at=-60)
    for _ in range(3):
        health = node.page(gauge=0)[0]
    assert health.check("xid_critical").state == "ok"


def test_a_lost_gpu_keeps_its_xid(node: Node) -> None:
    node.page()
    node.log_xid(79, gpu=2, at=1)
    for _ in range(70):
        healths = node.page(gpus=(1,))
    assert len(healths) == 2
    assert (healths[1].check("gpu_lost").state, events(healths[1], 79)) == ("crit", 1)


def test_messages_of_a_tick_that_is_not_evaluated_wait_for_the_next(node: Node) -> None:
    node.page()
    node.log_xid(79, at=1)
    node.seconds = itertools.count(1_000_000)  # the same time again: a repeated tick
    assert events(node.page()[0], 79) == 0
    assert events(node.page()[0], 79) == 1


def test_a_log_that_cannot_be_read_is_no_input(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.pipeline.reconfigure(ComputeSettings(), EVERYTHING, str(tmp_path / "none"))
    assert node.page()[0].check("xid_critical").state == "unknown"
    assert node.pipeline.kernel_log_error is not None
    assert "none: No such file" in node.pipeline.kernel_log_error
    node.pipeline.reconfigure(ComputeSettings(), EVERYTHING, "")
    assert node.pipeline.kernel_log_error is None


def test_errors_of_nvswitches_are_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.page()
    with node.log.open("a") as file:
        text = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
        file.write(f"__REALTIME_TIMESTAMP=1000001000000\nMESSAGE={text}\n\n")
    node.page()
    (record,) = [record for record in caplog.records if record.message == "NVSwitch error"]
    assert (record.levelname, record.__dict__["sxid"]) == ("ERROR", 20034)
