"""Facts that few sources have, as pages of a dcgm-exporter through the whole pipeline: superchips, IMEX, dcgmi diag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import CheckState
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exposition.parser import PageParser
from tests.golden.whole import replayed

START = 1767225600.0
GB200 = "NVIDIA GB200"


class Node:
    """A node whose page is read every 15 seconds."""

    def __init__(self) -> None:
        self.parser, self.pipeline, self.polls = PageParser(), Pipeline(GpuTable(), "node"), 0

    def check(self, id_: str, **values: float) -> CheckState:
        """Read the page once, and return a check of its GPU."""
        clock = 15.0 * self.polls
        self.polls += 1
        rows = {"DEV_GPU_TEMP": 40 + self.polls % 2, **values}
        page = "".join(f'DCGM_FI_{name}{{gpu="0",UUID="GPU-0",modelName="{GB200}"}} {rows[name]}\n' for name in rows)
        read = self.parser.parse(page.encode())
        raw = RawTick("t", Unix(START + clock), Monotonic(clock), 15.0, read.layout, read.values, read.rejected)
        return self.pipeline.process(raw).gpus[0].result.health.check(id_)


def states(node: Node, id_: str, pages: Sequence[Mapping[str, float]]) -> list[str]:
    return [node.check(id_, **page).state for page in pages]


DIAG = {f"DEV_DIAG_{test}_RESULT": 0.0 for test in ("MEMORY", "PCIE", "TARGETED_POWER")}


def test_a_failed_diag_is_a_warning_with_its_time() -> None:
    node = Node()
    assert node.check("dcgm_diag", **DIAG).last_event is None, "a run before pulsed"
    assert node.check("dcgm_diag", **DIAG).state == "ok"
    failed = node.check("dcgm_diag", **DIAG | {"DEV_DIAG_PCIE_RESULT": 3, "DEV_DIAG_MEMORY_RESULT": 2})
    assert (failed.state, failed.message) == ("warn", "A test of dcgmi diag did not pass: pcie")
    assert failed.last_event == START + 30.0
    later = node.check("dcgm_diag", **DIAG | {"DEV_DIAG_PCIE_RESULT": 3})
    assert (later.state, later.last_event) == ("warn", START + 45.0)
    passed = node.check("dcgm_diag", **DIAG)
    assert (passed.state, passed.last_event) == ("ok", START + 60.0)
    assert node.check("dcgm_diag", **DIAG).last_event == START + 60.0


def test_tests_that_were_skipped_or_not_run_are_no_problem() -> None:
    assert Node().check("dcgm_diag", DEV_DIAG_EUD_RESULT=1, DEV_DIAG_NCCL_TESTS_RESULT=4).state == "ok"
    assert Node().check("dcgm_diag", DEV_DIAG_EUD_RESULT=2).state == "info"
    assert Node().check("dcgm_diag").applies is False


def test_a_failed_diag_of_before_has_an_unknown_age() -> None:
    node = Node()
    found = [node.check("dcgm_diag", DEV_DIAG_EUD_RESULT=3) for _ in range(3)][-1]
    assert (found.state, found.last_event) == ("warn", None)


def test_imex_counts_once_it_was_ready() -> None:
    """Its daemon is not ready on idle nodes for days (beyond: 13 days on GB300)."""
    unused = [{"IMEX_DAEMON_STATUS": 7.0}] * 20
    assert set(states(Node(), "imex", unused)) == {"ok"}
    node = Node()
    assert set(states(node, "imex", [{"IMEX_DAEMON_STATUS": 5.0}] * 3)) == {"ok"}
    assert states(node, "imex", [{"IMEX_DAEMON_STATUS": 2.0}] * 6) == ["ok"] * 4 + ["warn"] * 2
    assert states(Node(), "imex", [{}]) == ["unknown"]


@pytest.mark.parametrize("name", ["DEV_C2C_LINK_ERROR_INTR", "DEV_C2C_LINK_ERROR_REPLAY"])
def test_errors_of_the_chip_to_chip_link(name: str) -> None:
    node = Node()
    assert set(states(node, "c2c_errors", [{name: 1000.0}] * 8)) <= {"ok", "unknown"}
    assert states(node, "c2c_errors", [{name: 1000.0 + 10 * number} for number in range(8)])[-1] == "warn"
    assert Node().check("c2c_errors").applies is False


async def test_waits_of_an_nvlink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    name = "DCGM_FI_DEV_NVLINK_PPCNT_IBPC_PORT_XMIT_WAIT"
    (tmp_path / "page.prom").write_text(
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 40\n'
        f'{name}{{gpu="0",gpu_uuid="GPU-0",nvlink="3"}} 12345\n{name}{{gpu="0",gpu_uuid="GPU-0",nvlink="4"}} 0\n',
        encoding="utf-8",
    )
    lines = [
        line
        for line in (await replayed("page.prom", "publish.series=full")).text.splitlines()
        if line.startswith("pulsed_gpu_nvlink")
    ]
    assert lines == ['pulsed_gpu_nvlink_link_transmit_waits_total{link="3",node="here",gpu="0",uuid="GPU-0"} 12345.0']
