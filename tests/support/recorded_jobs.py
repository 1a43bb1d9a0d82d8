"""Records of jobs on pages of dcgm-exporters, for replays through the whole program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Layout, RawTick, Series
from pulsed.reader.record_lines import RecordWriter, Session
from tests.support.daemon import Daemon
from tests.support.waiting import SECONDS, until

START = 1767225600.0
"""2026-01-01T00:00:00Z."""

INTERVAL = 15.0

Values = Mapping[str, float]
"""Values of a GPU by name of the field, without `DCGM_FI_`; times of energy are joules."""

FIELDS = {
    "gr": "PROF_GR_ENGINE_ACTIVE",
    "sm": "PROF_SM_ACTIVE",
    "tensor": "PROF_PIPE_TENSOR_ACTIVE",
    "dram": "PROF_DRAM_ACTIVE",
    "pcie_tx": "PROF_PCIE_TX_BYTES",
    "pcie_rx": "PROF_PCIE_RX_BYTES",
    "nvlink_tx": "PROF_NVLINK_TX_BYTES",
    "nvlink_rx": "PROF_NVLINK_RX_BYTES",
    "watts": "DEV_POWER_USAGE",
    "clock": "DEV_SM_CLOCK",
    "memory": "DEV_FB_USED",
}


@dataclass
class JobRecord:
    """A record in which each node has a page of its own."""

    nodes: Sequence[str]
    _layouts: dict[tuple[object, ...], Layout] = field(default_factory=dict)
    _lines: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        targets = {self.target(node): INTERVAL for node in self.nodes}
        self._writer = RecordWriter(Session("0", "exporter", "here", "2026-01-01T00:00:00Z", targets))
        self._lines.append(self._writer.start())

    @staticmethod
    def target(node: str) -> str:
        """Return the name of a node's target."""
        return f"http://{node}:9400/metrics"

    def tick(self, node: str, number: int, job: str, gpus: Sequence[Values]) -> None:
        """Add a page, all of whose GPUs a job has; values are by the keys of `FIELDS`."""
        key = (node, job, *map(tuple, gpus))
        if key not in self._layouts:
            labels = [
                (("gpu", str(at)), ("UUID", f"GPU-{node}-{at}"), ("modelName", "NVIDIA H100 80GB HBM3"),
                 ("Hostname", node), ("hpc_job", job))
                for at in range(len(gpus))
            ]  # fmt: skip
            self._layouts[key] = Layout(
                "exporter",
                tuple(
                    Series(f"DCGM_FI_{FIELDS[name]}", each)
                    for each, values in zip(labels, gpus, strict=True)
                    for name in values
                ),
            )
        values = [value for gpu in gpus for value in gpu.values()]
        moment = number * INTERVAL
        tick = RawTick(
            self.target(node),
            Unix(START + moment),
            Monotonic(1000.0 + moment),
            INTERVAL,
            self._layouts[key],
            values=values,
        )
        self._lines.append(self._writer.tick(tick))

    def save(self, path: Path) -> Path:
        """Write it."""
        path.write_bytes(b"".join(self._lines))
        return path


def replay_arguments(path: Path) -> tuple[str, ...]:
    """Return the arguments of a daemon that replays a record at once."""
    return ("--source", "replay", f"--set=source.replay.path={path}", "--set=source.replay.speed=0")


def wait_for_end(daemon: Daemon) -> None:
    """Wait until a replay is over."""
    until(lambda: "is over" in daemon.get("/gpus?view=summary").text, 3 * SECONDS)
    time.sleep(0.1)
