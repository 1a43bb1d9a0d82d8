"""Ticks as CSV in the columns of KempnerPulse 0.5, for programs that read those: `pulsed export --schema kempnerpulse`.

Names, units, digits and order are KempnerPulse's, and so are the numbers while no input is missing. Where an input is
missing, a result is empty, unless the other inputs determine it. KempnerPulse has no MIG instances; here each is a row
with its id behind the board's index: `0:7`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isclose, isfinite
from typing import NamedTuple, TextIO

from pulsed.compute.real_utilization import SETTLED
from pulsed.compute.settings import Weights
from pulsed.model.gpu import DEMO_MARK, Entity
from pulsed.model.result import Result
from pulsed.model.tick import GpuRow, Tick
from pulsed.model.vocabulary import POSITION, Reading
from pulsed.present.csv.pulsed_csv import choose
from pulsed.printable import text_cell

MEBIBYTE = 2.0**20
MEGA = 1e6
GIGA = 1e9

STATUS: Mapping[str, str] = {
    "idle": "idle",
    "tensor_heavy_compute": "tensor-heavy compute",
    "tensor_compute": "tensor compute",
    "fp64_hpc_compute": "FP64 / HPC compute",
    "io_or_data_loading": "I/O or data-loading",
    "memory_bound": "memory-bound",
    "compute_heavy": "compute-heavy",
    "compute_active": "compute-active",
    "memory_active": "memory-active",
    "busy_low_sm_use": "busy, low SM use",
    "low_utilization": "low utilization",
    "mixed_or_moderate": "mixed / moderate",
}
"""KempnerPulse's labels of the classes; `unknown` has none."""


class KempnerPulseRow(NamedTuple):
    """The data of a row: real utilization in percent, None where it would be an estimate; PCIe replays per second since
    the tick before, None at the first one and after a reset.
    """

    sample: GpuRow
    real_utilization: float | None
    replay_rate: float | None


Cell = Callable[[KempnerPulseRow], str]


def health(result: Result) -> str:
    """Return `OK`, `WARN`, `HOT` or `CRIT`; empty if it is unknown."""
    return {"unknown": "", "info": "OK"}.get(result.health.state, result.health.state.upper())


def model(name: str) -> str:
    """Return a short product name: `H100` for `NVIDIA H100 80GB HBM3`; `GPU` if it is unknown. Demo data stay marked.

    >>> model("NVIDIA RTX 6000 Ada Generation")
    'RTX6000'
    """
    name = name.removeprefix("NVIDIA ").strip()
    if name.endswith(DEMO_MARK):
        return f"{model(name.removesuffix(DEMO_MARK))} {DEMO_MARK}"
    if rtx := re.match(r"RTX\s*(\d+)", name):
        return f"RTX{rtx[1]}"
    return re.split(r"[\s-]", name, maxsplit=1)[0] or "GPU"


def real_utilization(sample: GpuRow, weights: Weights) -> float | None:
    """Return the percentage that the present inputs determine, 0..100; None if it would be an estimate."""
    ratio, coverage = sample.result.real_utilization
    settled = ratio.low if ratio.width <= SETTLED else ratio.value if coverage >= 1 else None
    if settled is None:
        return None
    summed = _summed(sample.reading, weights)
    return summed if isclose(summed, settled * 100, abs_tol=1e-9) else settled * 100


def _summed(reading: Reading, weights: Weights) -> float:
    """Return the weighted sum of percentages, as KempnerPulse: a sum of ratios may round to other digits."""
    engine = reading.graphics_engine_active_ratio
    terms = (
        (weights.sm, reading.sm_active_ratio),
        (weights.tensor, reading.tensor_active_ratio),
        (weights.dram, reading.dram_active_ratio),
        (weights.graphics_engine, reading.gpu_utilization_ratio if engine is None else engine),
    )
    return sum([weight * ((ratio or 0.0) * 100) for weight, ratio in terms])


def memory_size(row: KempnerPulseRow) -> float | None:
    """Return used, free and reserved memory together, in bytes; None unless all three are known."""
    reading = row.sample.reading
    used, free, reserved = reading.memory_used_bytes, reading.memory_free_bytes, reading.memory_reserved_bytes
    return None if used is None or free is None or reserved is None else used + free + reserved


def _memory_used_percent(row: KempnerPulseRow) -> float | None:
    size, used = memory_size(row), row.sample.reading.memory_used_bytes
    return used / size * 100 if size and used is not None else None


def _text(value: float | None, digits: int) -> str:
    return "" if value is None or not isfinite(value) else f"{value:.{digits}f}"


def _number(name: str, digits: int = 4, unit: float = 1.0, factor: float = 1.0) -> Cell:
    position = POSITION[name]

    def cell(row: KempnerPulseRow) -> str:
        value = row.sample.reading[position]
        return "" if value is None else _text(value * factor / unit, digits)

    return cell


_percent = partial(_number, digits=2, factor=100.0)


def _nothing(row: KempnerPulseRow) -> str:
    return ""


COLUMNS: Mapping[str, Cell] = {
    "timestamp": lambda row: f"{row.sample.time:.2f}",
    "gpu_id": lambda row: text_cell(row.sample.device.entity.name),
    "model": lambda row: text_cell(model(row.sample.device.model)),
    "real_util_pct": lambda row: _text(row.real_utilization, 2),
    "status": lambda row: STATUS.get(row.sample.result.workload.raw_class, ""),
    "health": lambda row: health(row.sample.result),
    "sm_active_pct": _percent("sm_active_ratio"),
    "tensor_active_pct": _percent("tensor_active_ratio"),
    "dram_active_pct": _percent("dram_active_ratio"),
    "gr_engine_active_pct": _percent("graphics_engine_active_ratio"),
    "gpu_util_pct": _percent("gpu_utilization_ratio"),
    "mem_used_mib": _number("memory_used_bytes", unit=MEBIBYTE),
    "mem_total_mib": lambda row: _text(None if (size := memory_size(row)) is None else size / MEBIBYTE, 1),
    "mem_used_pct": lambda row: _text(_memory_used_percent(row), 2),
    "power_w": _number("power_watts"),
    "gpu_temp_c": _number("temperature_celsius"),
    "mem_temp_c": _number("memory_temperature_celsius"),
    "sm_occupancy_pct": _percent("sm_occupancy_ratio"),
    "fp16_pipe_pct": _percent("fp16_active_ratio"),
    "fp32_pipe_pct": _percent("fp32_active_ratio"),
    "fp64_pipe_pct": _percent("fp64_active_ratio"),
    "memcpy_util_pct": _percent("memory_utilization_ratio"),
    "pcie_rx_bytes_s": _number("pcie_receive_bytes_per_second"),
    "pcie_tx_bytes_s": _number("pcie_transmit_bytes_per_second"),
    "nvlink_gbps": _number("nvlink_bandwidth_bytes_per_second", unit=GIGA),
    "sm_clock_mhz": _number("sm_clock_hertz", unit=MEGA),
    "mem_clock_mhz": _number("memory_clock_hertz", unit=MEGA),
    "pcie_replay_rate_s": lambda row: _text(row.replay_rate, 2),
    "energy_j": _number("energy_joules_total", digits=1),
    "tc_hmma_pct": _percent("tensor_hmma_active_ratio"),
    "tc_imma_pct": _percent("tensor_imma_active_ratio"),
    "tc_dfma_pct": _percent("tensor_dfma_active_ratio"),
    "tc_dmma_pct": _nothing,  # DCGM has no such field as a ratio
    "tc_qmma_pct": _nothing,  # nor this
}
"""All columns in their order."""

DEFAULT = (
    "timestamp",
    "gpu_id",
    "model",
    "gpu_util_pct",
    "mem_used_mib",
    "real_util_pct",
    "sm_active_pct",
    "tensor_active_pct",
    "dram_active_pct",
)
"""The columns of `--columns default`."""


def columns(text: str) -> tuple[str, ...]:
    """Return the columns of the value of `--columns`, as `choose` does."""
    return choose(text, tuple(COLUMNS), DEFAULT)


class Writer:
    """Writer of the ticks of all targets; a file is opened with `newline=""`, weights are for real utilization."""

    def __init__(self, out: TextIO, names: Sequence[str], weights: Weights) -> None:
        self._weights = weights
        self._rows = csv.writer(out, lineterminator="\n")
        self._cells = [COLUMNS[name] for name in names]
        self._replays: dict[Entity, tuple[float, float | None]] = {}

    def write(self, tick: Tick) -> None:
        """Write one row per GPU of the tick."""
        clock = tick.clock
        rows = [
            KempnerPulseRow(sample, real_utilization(sample, self._weights), self._replay_rate(sample, clock))
            for sample in tick.gpus
            if sample.is_listed
        ]
        self._rows.writerows([[cell(row) for cell in self._cells] for row in rows])

    def _replay_rate(self, sample: GpuRow, clock: float) -> float | None:
        entity, count = sample.device.entity, sample.reading.pcie_replays_total
        clock_before, count_before = self._replays.get(entity, (clock, None))
        self._replays[entity] = clock, count
        if count is None or count_before is None or count < count_before or clock <= clock_before:
            return None
        return (count - count_before) / (clock - clock_before)
