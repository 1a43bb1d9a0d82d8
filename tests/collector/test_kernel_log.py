"""Messages of the kernel log and an exporter's page, through the whole pipeline."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pulsed.collector.collector import Collector, Pipeline, PipelineSettings
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import ScrapeFailed
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import Health
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target
from pulsed.model.tick import Tick
from pulsed.reader.demo.source import DemoSource
from pulsed.reader.source import Source
from tests.support.ticks import missing_in, results_of
from tests.translate.build import page_tick

LABELS = 'gpu="{0}",UUID="GPU-{0}",pci_bus_id="00000000:{0}B:00.0",modelName="NVIDIA H100 80GB HBM3"'
FIELDS = {"DCGM_FI_DEV_GPU_TEMP": 50, "DCGM_FI_DEV_POWER_USAGE": 100.5, "DCGM_FI_DEV_GPU_UTIL": 10}


class Node:
    """Two GPUs, a page a second, and a kernel log in a file."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "kmsg"
        self.log.touch()
        self.pipeline = Pipeline(GpuTable(), "n", settings=PipelineSettings(kernel_log=str(self.log)))
        self.seconds = itertools.count(1_000_000)

    def log_xid(self, code: int, gpu: int = 1, at: float = 0.0, text: str = "pid=7, x") -> None:
        """Log an XID, at a time after the first page."""
        self.log_message(f"NVRM: Xid (PCI:0000:{gpu}b:00): {code}, {text}", at)

    def log_message(self, message: str, at: float) -> None:
        with self.log.open("a") as file:
            stamp = int((1_000_000 + at) * 1e6)
            file.write(f"__REALTIME_TIMESTAMP={stamp}\n_TRANSPORT=kernel\nMESSAGE={message}\n\n")

    def restart(self, at: float) -> None:
        """Start the pipeline again, at a time after the first page, with what was saved."""
        saved = self.pipeline.health_evaluator.dump()
        self.pipeline.close()
        self.pipeline = Pipeline(GpuTable(), "n", settings=PipelineSettings(kernel_log=str(self.log)))
        self.pipeline.health_evaluator.restore(json.loads(json.dumps(saved)), Unix(1_000_000.0 + at))

    def page(self, gauge: int | None = None, gpus: tuple[int, ...] = (1, 2)) -> list[Health]:
        rows = [f"{name}{{{LABELS.format(gpu)}}} {value}" for gpu in gpus for name, value in FIELDS.items()]
        if gauge is not None:
            rows += [f"DCGM_FI_DEV_XID_ERRORS{{{LABELS.format(gpus[0])}}} {gauge}"]
        now = float(next(self.seconds))
        raw = replace(page_tick("\n".join(rows) + "\n"), time=Unix(now), clock=Monotonic(now))
        return [result.health for result in results_of(self.pipeline.process(raw))]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def events(health: Health, code: int | str) -> int:
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


def test_an_xid_and_the_plain_message_about_a_lost_gpu_are_one_event(node: Node) -> None:
    node.page()
    node.log_xid(79, at=1)
    node.log_message("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", at=1)
    assert events(node.page()[0], 79) == 1
    node.log_message("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", at=2)
    node.log_xid(79, at=2)
    assert events(node.page()[0], 79) == 2


NO_ACTION, RESET, REBOOT = "0x0 (None)", "0x1 (GPU Reset Required)", "0x2 (Node Reboot Required)"


def action(before: str, after: str) -> str:
    return f"GPU recovery action changed from {before} to {after}"


@pytest.mark.parametrize(
    ("name", "state", "remedy"),
    [
        (RESET, "crit", "The driver requests recovery action 1: stop the jobs on this GPU and reset it."),
        ("0x1 (PF FLR)", "crit", "The driver requests recovery action 1: stop the jobs on this GPU and reset it."),
        (REBOOT, "crit", "The driver requests recovery action 2: drain the node and restart it."),
        ("0x2 (OS Reboot)", "crit", "The driver requests recovery action 2: drain the node and restart it."),
        (
            "0x3 (Drain P2P)",
            "warn",
            "The driver requests recovery action 3: stop peer-to-peer traffic, then look again.",
        ),
        ("0x4 (Drain and Reset)", "crit", "The driver requests recovery action 4: drain the GPU and reset it."),
        (NO_ACTION, "ok", ""),
    ],
)
def test_xid_154_names_the_recovery_action(node: Node, name: str, state: str, remedy: str) -> None:
    assert node.page()[0].check("recovery_action").state == "unknown"
    node.log_xid(154, at=1, text=action(NO_ACTION, name))
    for _ in range(3):
        first, second = node.page()
    check = first.check("recovery_action")
    assert (check.state, check.remedy, events(first, 154)) == (state, remedy, 1)
    assert first.check("xid_warning").state == "ok"
    assert first.state == state
    assert second.check("recovery_action").state == "unknown"


def test_a_recovery_action_lasts_until_the_driver_withdraws_it(node: Node) -> None:
    node.page()
    node.log_xid(154, at=1, text=action(NO_ACTION, RESET))
    assert node.page()[0].check("recovery_action").state == "crit"
    node.log_xid(154, at=2, text=action(RESET, REBOOT))
    check = node.page()[0].check("recovery_action")
    assert (check.state, check.evidence) == ("crit", (("recovery_action", 2.0),))
    for _ in range(30):
        node.page()
    node.restart(40)
    node.seconds = itertools.count(1_000_040)
    assert node.page()[0].check("recovery_action").state == "crit"
    node.log_xid(154, at=41, text=action(REBOOT, NO_ACTION))
    health = node.page()[0]
    assert (health.check("recovery_action").state, health.check("xid_warning").state, health.state) == ("ok",) * 3


def test_the_recovery_action_of_a_lost_gpu(node: Node) -> None:
    node.page()
    node.log_xid(154, gpu=2, at=1, text=action(NO_ACTION, REBOOT))
    for _ in range(5):
        healths = node.page(gpus=(1,))
    assert healths[1].check("recovery_action").state == "crit"


def test_an_xid_154_without_an_action_is_a_warning(node: Node) -> None:
    node.page()
    node.log_xid(154, at=1)
    health = node.page()[0]
    assert (health.check("xid_warning").state, health.check("recovery_action").state) == ("warn", "unknown")


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
    node.pipeline.configure(PipelineSettings(kernel_log=str(tmp_path / "none")))
    assert node.page()[0].check("xid_critical").state == "unknown"
    assert node.pipeline.kernel_log_error is not None
    assert "none: No such file" in node.pipeline.kernel_log_error
    node.pipeline.configure(PipelineSettings())
    assert node.pipeline.kernel_log_error is None


def test_errors_of_nvswitches_are_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.page()
    with node.log.open("a") as file:
        text = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
        file.write(f"__REALTIME_TIMESTAMP=1000001000000\n_TRANSPORT=kernel\nMESSAGE={text}\n\n")
    node.page()
    (record,) = [record for record in caplog.records if record.message == "NVSwitch error"]
    assert (record.levelname, record.__dict__["sxid"]) == ("ERROR", 20034)


FAULT = "NVRM: Xid (PCI:0000:1b:00): 64, pid=7, x"


@pytest.mark.parametrize(
    "line",
    [
        f"[ 1000001.0] oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/{FAULT},task=python,pid=7,uid=1000",
        f"3,1,1000001000000,-;Memory cgroup stats for /{FAULT}",
        f"11,1,1000001000000,-;{FAULT}",
        f"<11>1 1970-01-12T13:46:41Z gpu7 kernel - - - {FAULT}",
        f"__REALTIME_TIMESTAMP=1000001000000\n_TRANSPORT=syslog\nMESSAGE={FAULT}\n",
        f"__REALTIME_TIMESTAMP=1000001000000\nMESSAGE={FAULT}\n",
        f"[{'9' * 400}.0] {FAULT}",
        f"3,1,{'9' * 400},-;{FAULT}",
        f"__REALTIME_TIMESTAMP={'9' * 400}\n_TRANSPORT=kernel\nMESSAGE={FAULT}\n",
        f"[ 1000001.0] {FAULT.replace('64', '9' * 400)}",
    ],
)
def test_forged_messages(node: Node, line: str) -> None:
    node.page()
    node.log.write_text(f"[ 1.0] usb\n{line}\n")
    for _ in range(3):
        health = node.page()[0]
    assert health.check("xid_critical").state == "ok"
    assert dict(health.xid_events)[64] == 0
    json.dumps(node.pipeline.health_evaluator.dump(), allow_nan=False)


@pytest.mark.parametrize("tag", ["ann: kernel", "kernel"])
def test_a_tag_in_a_file_that_programs_log_to_is_no_proof(node: Node, tag: str) -> None:
    """`logger -t kernel` of any user, in a file such as /var/log/messages."""
    node.page()
    lines = ("gpu7 sshd[7]: Accepted publickey for ann", f"gpu7 {tag}: {FAULT.replace('64', '79')}")
    node.log.write_text("".join(f"1970-01-12T13:46:41Z {line}\n" for line in lines))
    health = node.page()[0]
    assert health.state != "crit"
    assert sum(dict(health.xid_events).values()) == 0
    assert "programs also log to it" in (node.pipeline.kernel_log_error or "")


def test_codes_have_a_bounded_number_of_series(node: Node) -> None:
    node.page()
    for code in range(1000, 4000):
        node.log_xid(code, at=1)
    health = node.page()[0]
    codes = dict(health.xid_events)
    assert len(codes) == 65
    assert sum(codes.values()) == 3000
    assert codes["other"] == 2960
    node.log_xid(79, at=2)
    health = node.page()[0]
    assert health.check("xid_critical").state == "crit"
    assert dict(health.xid_events) == codes | {79: 1}
    node.restart(4)
    assert dict(node.page()[0].xid_events) == codes | {79: 1}


def test_a_restart_counts_no_message_again_and_raises_none_again(node: Node) -> None:
    node.page()
    node.log_xid(79, at=1)
    assert events(node.page()[0], 79) == 1
    node.restart(2)
    node.log_xid(48, at=2)  # while it did not run
    health = node.page()[0]
    assert (events(health, 79), events(health, 48)) == (1, 1)


async def test_a_log_that_cannot_be_used_is_logged_and_published_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kern.log"
    path.write_text("23/Nov/2026 hello\n")
    caplog.set_level(logging.INFO)
    pipeline = Pipeline(GpuTable(), "n", settings=PipelineSettings(kernel_log=str(path)))
    target = Target("demo", "demo", 1.0, 5.0)

    def until(target: Target) -> bool:
        if target.samples == 2:
            assert (target.kernel_log_error or "").startswith(f"{path}: the format of its lines is not known")
            path.write_text("23/Nov/2026 hello\n[ 1.0] usb\n")
        return target.samples == 4

    await Collector(DemoSource(pace=False), pipeline, target, until=until).run()
    assert target.kernel_log_error == ""
    found = [record for record in caplog.records if "kernel log" in record.message]
    assert [(record.levelname, record.message) for record in found] == [
        ("WARNING", "XIDs are not read from the kernel log"),
        ("INFO", "XIDs are read from the kernel log again"),
    ]
    assert found[0].__dict__["error"].startswith(f"{path}: the format of its lines is not known")


class DownSource(Source):
    """A source that has delivered one page, and does not answer since."""

    kind, target, interval = "exporter", "http://gone", 0.05

    def __init__(self, page: RawTick) -> None:
        self._pages = [page]

    async def read(self) -> RawTick:
        if self._pages:
            return self._pages.pop()
        raise ScrapeFailed("http://gone: connection refused", "Start it")


async def test_the_log_is_read_while_the_source_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pulsed.collector.collector.MIN_LOG_SECONDS", 0.05)
    kernel_log, ticks = tmp_path / "kmsg", list[Tick]()
    kernel_log.touch()
    rows = [f"{name}{{{LABELS.format(gpu)}}} {value}" for gpu in (1, 2) for name, value in FIELDS.items()]
    raw = replace(
        page_tick("\n".join(rows) + "\n"), time=Unix(time.time()), clock=Monotonic(time.monotonic()), interval=0.05
    )
    target = Target("exporter", "http://gone", 0.05, stale_after=1.0)
    pipeline = Pipeline(GpuTable(), "n", settings=PipelineSettings(kernel_log=str(kernel_log)))
    collecting = asyncio.create_task(Collector(DownSource(raw), pipeline, target, ticks.append).run())
    await asyncio.sleep(1.5)
    assert len(ticks) == 1  # the log has nothing: the GPUs are stale
    assert not target.fresh(Monotonic(time.monotonic()))
    stamp = int(time.time() * 1e6)
    with kernel_log.open("a") as file:
        file.write(f"__REALTIME_TIMESTAMP={stamp}\n_TRANSPORT=kernel\nMESSAGE=NVRM: Xid (PCI:0000:1b:00): 48, x\n\n")
    await asyncio.sleep(1.5)  # more than the last tick stays fresh
    collecting.cancel()
    assert (target.up, target.fresh(Monotonic(time.monotonic())), target.delivers(Monotonic(time.monotonic()))) == (
        False,
        True,
        False,
    )
    assert [(xid.code, xid.device.entity.uuid) for tick in ticks for xid in tick.xids] == [(48, "GPU-1")]
    (result,) = results_of(ticks[-1])
    assert events(result.health, 48) == 1
    assert result.health.check("xid_critical").state == "crit"
    assert list(missing_in(ticks[-1])) == [0]
    assert any(change.check == "xid_critical" for tick in ticks for change in tick.health_changes)


def test_messages_about_a_gpu_that_is_not_known_yet_wait_for_it(node: Node) -> None:
    """The daemon starts while its source is down."""
    node.log_xid(94, at=0)
    assert node.pipeline.process_kernel_log("page", 1.0, is_shown=False) is None
    node.page()
    assert events(node.page()[0], 94) == 1
