"""GPUs that are absent on purpose: pages of a dcgm-exporter through the whole pipeline, also over restarts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from pulsed.collector.absent_gpus import AbsentGpu, choose_absent
from pulsed.collector.collector import Pipeline, PipelineSettings
from pulsed.collector.this_host import HostEpoch
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.settings import ComputeSettings
from pulsed.errors import GpuNotForgettable, GpuNotFound
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu_selection import EVERYTHING, GpuSelection, parse
from pulsed.model.health import SEVERITY
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.reader.exposition.parser import PageParser
from tests.support.ticks import missing_in, readings_of, results_of

START = 1767225600.0
HOUR = 3600.0
DAY = 24 * HOUR
FORGETFUL = ComputeSettings(health=HealthSettings(forget_after=DAY))


class Board(NamedTuple):
    gpu: int
    uuid: str
    bus: str
    mig: int | None = None

    def labels(self, host: str) -> str:
        mig = "" if self.mig is None else f',GPU_I_ID="{self.mig}",GPU_I_PROFILE="3g.40gb"'
        return (
            f'gpu="{self.gpu}",UUID="{self.uuid}",pci_bus_id="00000000:{self.bus}:00.0",'
            f'modelName="NVIDIA H100 80GB HBM3",Hostname="{host}"{mig}'
        )


A, B, C = (Board(number, f"GPU-{number}", bus) for number, bus in enumerate(("1B", "3B", "5E")))


class Node:
    """A node whose exporter lists some boards; time passes with every poll."""

    def __init__(self, *boards: Board, boot_id: str = "", settings: ComputeSettings | None = None) -> None:
        self.boards = boards
        self.settings, self.selection = settings or ComputeSettings(), EVERYTHING
        self.boot_id, self.host, self.time, self.interval = boot_id, "node", START, 15.0
        self.seen: list[Tick] = []
        self._start()

    def _start(self) -> None:
        self.parser, self.table = PageParser(), GpuTable(self.settings)
        self.pipeline = Pipeline(
            self.table, "node", settings=PipelineSettings(self.selection), host_epoch=HostEpoch(self.boot_id)
        )
        self.other = Pipeline(self.table, "node")

    def poll(self, times: int = 1, *boards: Board, after: float | None = None) -> Tick:
        """Read the page so often, with these boards from now on."""
        self.boards = boards or self.boards
        for _ in range(times):
            self.time += self.interval if after is None else after
            self.seen.append(self.pipeline.process(self._read(self.boards)))
        return self.seen[-1]

    def show_elsewhere(self, *boards: Board) -> None:
        """Read boards through another target, a second after the newest poll."""
        self.time += 1.0
        self.other.process(self._read(boards))

    def _read(self, boards: Sequence[Board]) -> RawTick:
        energy = 1e9 + 200e3 * (self.time - START)
        page = "".join(
            f"DCGM_FI_DEV_{name}{{{board.labels(self.host)}}} {value}\n"
            for name, value in (("GPU_TEMP", 45), ("POWER_USAGE", 200), ("TOTAL_ENERGY_CONSUMPTION", energy))
            for board in boards
        )
        read = self.parser.parse(page.encode())
        return RawTick(
            "test",
            Unix(self.time),
            Monotonic(self.time - START),
            self.interval,
            read.layout,
            read.values,
            read.rejected,
        )

    def restart(self, boot_id: str | None = None, down: float = 60.0) -> None:
        """Restart the daemon, and with another boot id the node."""
        document = json.loads(json.dumps(self.pipeline.health_evaluator.dump()))
        self.boot_id = self.boot_id if boot_id is None else boot_id
        self.time += down
        self._start()
        self.pipeline.health_evaluator.restore(document, Unix(self.time))

    def select(self, selection: GpuSelection) -> None:
        """Reload the configuration with another list of GPUs."""
        self.selection = selection
        self.pipeline.configure(PipelineSettings(selection))

    def forget(self, uuid: str) -> Tick | None:
        (track,) = [track for track in self.pipeline.computer.absent if track.device.entity.uuid == uuid]
        return self.pipeline.computer.forget(track)[1]

    @property
    def missing(self) -> list[str]:
        return missing_of(self.seen[-1])

    @property
    def removed(self) -> list[tuple[str, str]]:
        """All removals so far: UUID and reason."""
        return [(one.device.entity.uuid, one.reason) for tick in self.seen for one in tick.removed]

    @property
    def state(self) -> str:
        """The worst of all boards; `unlisted` for ok if the exporter no longer lists one, and nothing else is known."""
        worst = max([result.health.state for result in results_of(self.seen[-1])], key=SEVERITY.__getitem__)
        unlisted = [self.seen[-1].gpus[position].result.health for position in missing_in(self.seen[-1])]
        for health in unlisted:
            telemetry = health.check("telemetry")
            assert (health.state, health.check("gpu_lost").state, telemetry.state) == ("unknown", "unknown", "warn")
            assert "no longer lists this GPU" in telemetry.message
            assert "drain" not in telemetry.remedy
        return "unlisted" if unlisted and worst == "ok" else worst

    @property
    def saved(self) -> set[str]:
        """UUIDs of the GPUs in the state that survives a restart."""
        gpus = json.loads(json.dumps(self.pipeline.health_evaluator.dump()))["gpus"]
        return {gpu["entity"]["uuid"] for gpu in gpus.values()}


def missing_of(tick: Tick | None) -> list[str]:
    assert tick is not None
    return [tick.devices[position].entity.uuid for position in missing_in(tick)]


def test_a_gpu_that_the_configuration_no_longer_lists_is_not_lost() -> None:
    node = Node(A, B, C)
    node.poll(3)
    node.select(parse("0-1"))
    node.poll(5)
    assert (node.missing, node.state, node.removed) == ([], "ok", [])
    node.restart()
    node.poll(5)
    assert (node.missing, node.state) == ([], "ok")
    node.poll(3, A)
    assert (node.missing, node.state) == (["GPU-1"], "unlisted"), "those that are watched can be missing"
    node.select(parse("0"))
    node.poll(1)
    assert (node.missing, node.state) == ([], "ok")


def test_gpus_of_an_exporter_that_names_another_host_than_before_are_not_missing() -> None:
    """Without NODE_NAME, the host name of dcgm-exporter is the id of its container."""
    node = Node(A, B)
    node.poll(3)
    node.host = "3f5c1e9a7b2d"
    node.poll(5)
    assert (node.missing, node.state, len(node.seen[-1].devices)) == ([], "ok", 2)


def test_a_gpu_that_is_watched_again_and_absent_is_missing() -> None:
    node = Node(A, B)
    node.poll(3)
    node.select(parse("GPU-0"))
    node.poll(3, A)
    assert node.missing == []
    node.select(EVERYTHING)
    node.poll(3)
    assert node.missing == ["GPU-1"]


@pytest.mark.parametrize(
    "newcomer",
    [B._replace(uuid="GPU-9"), Board(1, "GPU-9", "5E"), Board(2, "GPU-9", "3B"), Board(1, "GPU-9", "")],
    ids=["the same slot", "another address", "another index", "no address"],
)
def test_a_board_that_was_replaced_stays_missing_until_it_is_forgotten(newcomer: Board) -> None:
    node = Node(A, B)
    node.poll(3)
    node.poll(5, A, newcomer)
    assert (node.missing, node.state, node.removed) == (["GPU-1"], "unlisted", [])
    node.restart()
    node.poll(5)
    assert node.missing == ["GPU-1"]
    node.forget("GPU-1")
    node.poll()
    assert (node.missing, node.state, node.saved) == ([], "ok", {"GPU-0", "GPU-9"})


def test_a_known_board_in_the_slot_of_a_missing_one_replaces_nothing() -> None:
    """After a board has died, the next start of the node may give its number and address to another one."""
    node = Node(A, B, C, boot_id="one")
    node.poll(3)
    node.poll(3, A, C)
    node.restart()
    node.poll(3, A, C._replace(gpu=B.gpu, bus=B.bus))
    assert (node.missing, node.removed) == (["GPU-1"], [])


@pytest.mark.parametrize("polls", [0, 3], ids=["missing at the restart", "missing before"])
def test_a_gpu_that_a_restart_of_the_node_does_not_bring_back_stays_missing(polls: int) -> None:
    node = Node(A, B, boot_id="one")
    node.poll(3)
    if polls:
        node.poll(polls, A)
    for boot_id in ("two", "three"):
        node.restart(boot_id)
        node.poll(3, A)
        assert (node.missing, node.state, node.removed) == (["GPU-1"], "unlisted", [])
    node.settings = FORGETFUL
    node.restart("four", down=23 * HOUR)
    node.poll(3)
    assert node.missing == ["GPU-1"]
    node.restart("five", down=HOUR)
    node.poll(3)
    assert (node.missing, node.state, node.removed) == ([], "ok", [("GPU-1", "expired")])


def test_a_gpu_that_comes_late_after_a_restart_of_the_node_keeps_its_counters() -> None:
    node = Node(A, B, boot_id="one")
    node.poll(3)
    node.restart("two")
    node.poll(1, A)
    node.poll(3, A, B)
    assert (node.missing, node.state, node.removed) == ([], "ok", [])


def test_new_boards_after_a_restart_of_the_node_end_none() -> None:
    node = Node(A, B, boot_id="one")
    node.poll(3)
    node.restart("two")
    node.poll(3, Board(0, "GPU-8", "A1"), Board(1, "GPU-9", ""))
    assert (node.missing, node.removed) == (["GPU-0", "GPU-1"], [])


def test_a_gpu_that_is_absent_is_forgotten_after_the_configured_time() -> None:
    node = Node(A, B, settings=FORGETFUL)
    node.poll(3)
    node.interval = HOUR / 2
    node.poll(48, A)
    assert (node.missing, node.state, node.removed) == (["GPU-1"], "unlisted", [])
    node.poll(2)
    assert (node.missing, node.state, node.removed) == ([], "ok", [("GPU-1", "expired")])
    assert node.saved == {"GPU-0"}
    node.restart()
    node.poll(60)
    assert len(node.removed) == 1


def test_the_age_goes_on_over_restarts() -> None:
    node = Node(A, B, settings=FORGETFUL)
    node.poll(3)
    node.poll(3, A)
    for _ in range(3):
        assert node.missing == ["GPU-1"]
        node.restart(down=8 * HOUR)
        node.poll(3)
    assert (node.missing, node.removed) == ([], [("GPU-1", "expired")])


def test_a_gpu_that_vanished_while_nothing_was_read_is_reported_first() -> None:
    node = Node(A, B)
    node.poll(3)
    node.poll(1, A, after=3 * DAY)
    node.poll(3)
    assert node.missing == ["GPU-1"]


@pytest.mark.parametrize(("seconds", "missing"), [(0.0, ["GPU-1"]), (600.0, [])])
def test_the_age_is_configured(seconds: float, missing: list[str]) -> None:
    node = Node(A, B, settings=ComputeSettings(health=HealthSettings(forget_after=seconds)))
    node.poll(3)
    node.interval = 300.0
    node.poll(400, A)
    assert node.missing == missing
    node.table.configure(ComputeSettings(health=HealthSettings(forget_after=60.0)))
    node.poll(2)
    assert node.missing == []


def test_a_gpu_is_forgotten_by_request() -> None:
    node = Node(A, B, C)
    node.poll(3)
    node.poll(3, A)
    assert node.missing == ["GPU-1", "GPU-2"]
    shown = node.forget("GPU-1")
    assert missing_of(shown) == ["GPU-2"], "at once"
    assert shown is not None
    assert (len(results_of(shown)), len(readings_of(shown))) == (2, 2)
    assert node.saved == {"GPU-0", "GPU-2"}
    node.poll(3)
    assert node.missing == ["GPU-2"]
    node.forget("GPU-2")
    node.restart()
    node.poll(3)
    assert (node.missing, node.state, node.removed) == ([], "ok", [])
    tick = node.poll(1, A, B)
    account = tick.gpus[1].result.counters
    assert account.value("observed_seconds") == 0.0, "one that returns is another one"
    assert tick.gpus[1].result.health.check("gpu_lost").state == "ok"


def test_another_target_that_reports_the_gpu_has_taken_it_over() -> None:
    node = Node(A, B)
    node.poll(3)
    node.show_elsewhere(B)
    node.poll(3, A)
    assert node.missing == ["GPU-1"], "a sample from before proves nothing"
    node.show_elsewhere(B)
    node.poll(1)
    assert (node.missing, node.state, node.removed) == ([], "ok", [("GPU-1", "moved")])


def test_a_divided_board_does_not_age() -> None:
    parts = [B._replace(mig=number) for number in (1, 2)]
    node = Node(A, B, settings=ComputeSettings(health=HealthSettings(forget_after=60.0)))
    node.poll(3)
    node.poll(20, A, *parts)
    assert (node.missing, node.removed) == ([], [])
    assert [device.entity.mig_id for device in node.seen[-1].devices] == ["", "", "1", "2"]
    node.poll(3, A)
    assert node.missing == ["GPU-1", "GPU-1", "GPU-1"], "the board, and its instances for a while"


def known(*nodes: Node) -> tuple[list[AbsentGpu], TargetStore]:
    """What can be forgotten of several targets, after their newest ticks."""
    targets = [
        Target("exporter", f"target {number}", 15.0, 60.0, tick=node.seen[-1]) for number, node in enumerate(nodes)
    ]
    absent = [
        AbsentGpu(target, node.pipeline.computer, track)
        for target, node in zip(targets, nodes, strict=True)
        for track in node.pipeline.computer.absent
    ]
    return absent, TargetStore("node", targets)


def two_nodes() -> tuple[Node, Node]:
    nodes = (Node(A, B), Node(A, B._replace(uuid="GPU-x")))
    for number, node in enumerate(nodes):
        node.host = f"n{number}"
        node.poll(3)
        node.poll(3, A)
    return nodes


def test_a_name_of_several_absent_gpus_needs_the_node() -> None:
    absent, store = known(*two_nodes())
    with pytest.raises(
        GpuNotForgettable,
        match=r"several absent GPUs 1.*GPU-1 \(GPU 1 of n0, .*\), GPU-x \(GPU 1 of n1, ",
    ):
        choose_absent(absent, store, "1", None)
    (found,) = choose_absent(absent, store, "1", "n1")
    assert found.entity.uuid == "GPU-x"
    found.forget()
    assert [target.tick and len(missing_in(target.tick)) for target in store.targets] == [1, 0]
    with pytest.raises(GpuNotFound, match="no absent GPU 'GPU-1'"):
        choose_absent(absent, store, "GPU-1", "n1")


def test_several_targets_that_remember_a_gpu_forget_it_together() -> None:
    nodes = (Node(A, B), Node(B, C))
    for node in nodes:
        node.poll(3)
    nodes[0].poll(3, A)
    nodes[1].poll(3, C)
    absent, store = known(*nodes)
    assert len(choose_absent(absent, store, "GPU-1", None)) == 2


def test_the_index_of_a_present_gpu_names_no_absent_one() -> None:
    node = Node(A, B)
    node.poll(3)
    node.poll(3, A, Board(1, "GPU-9", "5E"))
    with pytest.raises(GpuNotForgettable, match=r"GPU 1 is present.*Can be forgotten: GPU-1 \(GPU 1 of node, last"):
        choose_absent(*known(node), "1", None)
    assert len(choose_absent(*known(node), "GPU-1", None)) == 1


def test_a_divided_board_is_present() -> None:
    node = Node(A, *[B._replace(mig=number) for number in (1, 2)])
    node.poll(3)
    with pytest.raises(
        GpuNotForgettable, match=r"is present; only absent GPUs can be forgotten\. Can be forgotten: none"
    ):
        choose_absent(*known(node), "1", None)
