from __future__ import annotations

import csv as reader
import io
from collections.abc import Iterable
from dataclasses import replace

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.settings import ComputeSettings, RealUtilizationSettings, WorkloadSettings
from pulsed.errors import UsageError
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.vocabulary import CLASSES
from pulsed.present.csv import kempnerpulse, pulsed_csv
from tests.present.dmon import Rows, capture

DOCUMENTED = (
    "timestamp gpu_id model real_util_pct status health sm_active_pct tensor_active_pct dram_active_pct"
    " gr_engine_active_pct gpu_util_pct mem_used_mib mem_total_mib mem_used_pct power_w gpu_temp_c mem_temp_c"
    " sm_occupancy_pct fp16_pipe_pct fp32_pipe_pct fp64_pipe_pct memcpy_util_pct pcie_rx_bytes_s pcie_tx_bytes_s"
    " nvlink_gbps sm_clock_mhz mem_clock_mhz pcie_replay_rate_s energy_j tc_hmma_pct tc_imma_pct tc_dfma_pct"
    " tc_dmma_pct tc_qmma_pct"
)
"""All columns of KempnerPulse 0.5."""

NAMES = DOCUMENTED.split()

FIELDS = (
    *(50, 100, 101, 140, 150, 155, 156, 202, 203, 204, 251, 252, 253, 449),
    *range(1001, 1011),
    *(1014, 1013, 1015),
)
"""Those of KempnerPulse in its order, the name before them, tensor kinds behind."""

ACTIVE = [0.359, 0.298, 0.194, 0.272, 0.157, 0.158, 0.25, 0.231, 2_000_000_000, 100_000_000]
KINDS = [0.2, 0.05, 0.02]


def full(replays: int) -> list[float | str | None]:
    memory: list[float | str | None] = [32251, 48731, 576]
    head: list[float | str | None] = ["NVIDIA H100 80GB HBM3", 1980, 2619, 51, 68, 380.633, 1_000_000_644, replays]
    return [*head, 31, 12, *memory, 113628, *ACTIVE, *KINDS]


def blank(**known: float) -> list[float | str | None]:
    """Nothing but these, by field id."""
    return [known.get(f"f{field}") for field in FIELDS]


def written(
    raws: Iterable[RawTick], columns: str = "all", settings: ComputeSettings | None = None
) -> list[dict[str, str]]:
    settings = settings or ComputeSettings()
    settings = replace(settings, workload=replace(settings.workload, profile="kempnerpulse"))
    out = io.StringIO(newline="")
    names = kempnerpulse.columns(columns)
    pulsed_csv.write_header(out, names)
    pipeline, writer = (
        Pipeline(GpuTable(settings), "here"),
        kempnerpulse.Writer(out, names, settings.real_utilization.chosen_weights()),
    )
    for raw in raws:
        writer.write(pipeline.process(raw))
    out.seek(0)
    return list(reader.DictReader(out))


def of_one_gpu(*ticks: list[float | str | None], settings: ComputeSettings | None = None) -> list[dict[str, str]]:
    rows: list[Rows] = [[("GPU 0", tick)] for tick in ticks]
    return written(capture(FIELDS, *rows, era="C2"), settings=settings)


def test_all_columns_and_the_default_ones() -> None:
    assert kempnerpulse.columns("all") == tuple(NAMES)
    default = "timestamp gpu_id model gpu_util_pct mem_used_mib real_util_pct sm_active_pct tensor_active_pct"
    assert kempnerpulse.columns("default") == (*default.split(), "dram_active_pct")
    assert kempnerpulse.columns("power_w, gpu_id") == ("power_w", "gpu_id")


@pytest.mark.parametrize(("text", "near"), [("powr_w", "power_w"), ("sm_active_ratio", "sm_active_pct")])
def test_an_unknown_column_is_refused_with_the_nearest(text: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"Did you mean {near}"):
        kempnerpulse.columns(text)


def test_a_row_with_everything() -> None:
    """Every cell by hand: 0.35 * 29.8 + 0.35 * 27.2 + 0.2 * 15.7 + 0.1 * 35.9 = 26.68."""
    raws = capture(FIELDS, [("GPU 0", full(10))], era="C2")
    out = io.StringIO(newline="")
    writer = kempnerpulse.Writer(out, NAMES, RealUtilizationSettings().chosen_weights())
    writer.write(
        Pipeline(GpuTable(ComputeSettings(workload=WorkloadSettings("kempnerpulse"))), "here").process(
            replace(raws[0], time=Unix(1767225600.126))
        )
    )
    assert out.getvalue() == (
        "1767225600.13,0,H100,26.68,I/O or data-loading,OK,29.80,27.20,15.70,35.90,31.00,48731.0000,81558.0,59.75,"
        "380.6330,68.0000,51.0000,19.40,23.10,25.00,15.80,12.00,100000000.0000,2000000000.0000,113.6280,1980.0000,"
        "2619.0000,,1000000.6,20.00,5.00,2.00,,\n"
    )


def test_the_replay_rate_is_that_between_two_ticks() -> None:
    rows = of_one_gpu(*map(full, (10, 13, 2, 2)))
    assert [row["pcie_replay_rate_s"] for row in rows] == ["", "3.00", "", "0.00"]
    rows = of_one_gpu(full(10), blank(), full(12), full(13))
    assert [row["pcie_replay_rate_s"] for row in rows] == ["", "", "", "1.00"]


def test_the_replay_rate_is_per_second_of_each_gpu() -> None:
    ticks = capture((202,), *([("GPU 0", [count]), ("GPU 1", [7 * count])] for count in (0, 6)))
    ticks[1] = replace(ticks[1], clock=Monotonic(ticks[0].clock + 4.0))
    rows = written(ticks, "gpu_id,pcie_replay_rate_s")
    assert [tuple(row.values()) for row in rows] == [("0", ""), ("1", ""), ("0", "1.50"), ("1", "10.50")]


def test_missing_inputs_leave_the_results_empty() -> None:
    (row,) = of_one_gpu(blank(f203=55, f1002=0.4, f1005=0.3))
    assert {name: cell for name, cell in row.items() if cell} == {
        "timestamp": row["timestamp"],
        "gpu_id": "0",
        "model": "GPU",
        "health": "OK",
        "sm_active_pct": "40.00",
        "dram_active_pct": "30.00",
        "gpu_util_pct": "55.00",
    }


def test_missing_inputs_count_as_0_where_that_is_asked_for() -> None:
    (row,) = of_one_gpu(blank(f203=55, f1002=0.4, f1005=0.3), settings=ComputeSettings(missing="zero"))
    assert (row["real_util_pct"], row["status"]) == ("25.50", "mixed / moderate")  # 0.35 * 40 + 0.2 * 30 + 0.1 * 55


def test_the_busy_time_stands_in_for_the_graphics_engine() -> None:
    (row,) = of_one_gpu(blank(f203=55, f1002=0.4, f1004=0.1, f1005=0.3))
    assert (row["real_util_pct"], row["gr_engine_active_pct"]) == ("29.00", "")


def test_what_the_inputs_settle_is_no_estimate() -> None:
    """A GPU that was not busy for a moment did no work on any pipe."""
    (row,) = of_one_gpu(blank(f203=0, f204=0, f1009=0, f1010=0))
    assert (row["real_util_pct"], row["status"], row["tensor_active_pct"]) == ("0.00", "idle", "")


def test_sums_round_as_sums_of_percentages() -> None:
    """0.35 * 29.8 + 0.35 * 27.3 + 0.2 * 15.7 + 0.1 * 35.9 = 26.715, which is 26.71 in KempnerPulse's floats."""
    (row,) = of_one_gpu(blank(f1001=0.359, f1002=0.298, f1004=0.273, f1005=0.157))
    assert row["real_util_pct"] == "26.71"


def test_a_busy_copy_engine_is_io() -> None:
    values = full(0)
    values[9], values[-5], values[-4] = 40, 0, 0
    assert values[FIELDS.index(204)] == 40
    assert (FIELDS[-5], FIELDS[-4]) == (1009, 1010)
    assert of_one_gpu(values)[0]["status"] == "I/O or data-loading"
    values[9] = 39
    assert of_one_gpu(values)[0]["status"] == "mixed / moderate"


def test_the_size_of_the_memory_needs_all_its_parts() -> None:
    (row,) = of_one_gpu(blank(f251=100, f252=50))
    assert (row["mem_used_mib"], row["mem_total_mib"], row["mem_used_pct"]) == ("50.0000", "", "")
    (row,) = of_one_gpu(blank(f251=0, f252=0, f253=0))
    assert (row["mem_used_mib"], row["mem_total_mib"], row["mem_used_pct"]) == ("0.0000", "0.0", "")


def test_a_mig_instance_is_named_behind_its_board() -> None:
    raws = capture((1001,), [("GPU 0", [0.5]), ("GPU-I 7", [0.25])])
    rows = written(raws, "gpu_id,gr_engine_active_pct")
    assert [tuple(row.values()) for row in rows] == [("0", "50.00"), ("0:7", "25.00")]


def test_every_class_has_a_label() -> None:
    assert tuple(kempnerpulse.STATUS) == CLASSES


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("A100-SXM4-40GB", "A100"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000"),
        ("NVIDIA RTX A6000", "RTX"),
        ("NVIDIA GeForce RTX 4090", "GeForce"),
        ("Tesla T4", "Tesla"),
        ("NVIDIA ", "GPU"),
        ("NVIDIA H100 80GB HBM3 (demo)", "H100 (demo)"),
        ("", "GPU"),
    ],
)
def test_a_model_is_shortened(name: str, short: str) -> None:
    assert kempnerpulse.model(name) == short


@pytest.mark.parametrize(("model", "cell"), [("=cmd|x", "'=cmd|x"), ("@a", "'@a"), ("\x1b[2Jx", "?[2Jx")])
def test_names_are_no_formulas_and_no_control_sequences(model: str, cell: str) -> None:
    (row,) = of_one_gpu([model, *full(1)[1:]])
    assert row["model"] == cell
