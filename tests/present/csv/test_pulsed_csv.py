from __future__ import annotations

import csv as reader
import io
import math

import pytest

from pulsed.errors import UsageError
from pulsed.model.gpu import Device, Entity
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.sample_fields import NUMBERS, WORDS
from pulsed.present.csv import pulsed_csv
from tests.present.boards import FLICKER, OPEN, Gpu, gpu, mig, tick


def rows(columns: str, *gpus: Gpu) -> list[dict[str, str]]:
    out = io.StringIO(newline="")
    names = pulsed_csv.columns(columns)
    pulsed_csv.write_header(out, names)
    pulsed_csv.write_tick(out, names, tick(gpus))
    out.seek(0)
    return list(reader.DictReader(out))


def test_all_columns_are_those_of_the_contract() -> None:
    first = (
        "time node gpu uuid mig_id mig_profile model real_utilization_ratio real_utilization_lower_ratio"
        " real_utilization_upper_ratio real_utilization_coverage_ratio workload_class raw_class bottleneck"
        " health_state saturation_ratio limiting_resource"
    )
    columns = pulsed_csv.columns("all")
    contract = first.split()
    assert columns[: len(contract)] == tuple(contract)
    assert columns[-len(QUANTITIES) :] == tuple(QUANTITIES)
    later = columns[len(contract) : -len(QUANTITIES)]
    assert set(later) <= {*NUMBERS, *WORDS}


def test_default_columns_are_columns() -> None:
    assert set(pulsed_csv.columns("default")) <= set(pulsed_csv.columns("all"))


def test_a_row_per_gpu_with_empty_cells_for_what_is_missing() -> None:
    whole, instance = rows("all", gpu(0, power_watts=70.25, pcie_replays_total=0.0), mig(1, 7, sm_active_ratio=0.1))
    assert whole["time"] == "2026-01-01T00:00:00.100Z"
    assert (whole["node"], whole["gpu"], whole["uuid"]) == ("node1", "0", "GPU-node1-0000")
    assert (whole["real_utilization_ratio"], whole["workload_class"]) == ("0.62", "memory_bound")
    assert (whole["power_watts"], whole["pcie_replays_total"], whole["sm_active_ratio"]) == ("70.25", "0.0", "")
    assert (whole["mig_id"], whole["saturation_ratio"], whole["health_state"]) == ("", "0.9", "warn")
    assert (instance["mig_id"], instance["mig_profile"]) == ("7", "1g.10gb")
    assert (instance["real_utilization_ratio"], instance["workload_class"]) == ("", "unknown")
    assert instance["real_utilization_upper_ratio"] == repr(OPEN.real_utilization.ratio.high)


def test_the_class_is_held_and_the_raw_one_beside_it() -> None:
    (row,) = rows("workload_class,raw_class,bottleneck", gpu(0, result=FLICKER))
    assert row == {"workload_class": "idle", "raw_class": "memory_bound", "bottleneck": "idle"}


def test_numbers_read_back_as_the_same_numbers() -> None:
    value = 0.1 + 0.2
    (row,) = rows("power_watts", gpu(0, power_watts=value))
    assert float(row["power_watts"]) == value


@pytest.mark.parametrize("absurd", [math.nan, math.inf])
def test_what_is_no_reading_is_missing(absurd: float) -> None:
    assert rows("gpu,power_watts", gpu(0, power_watts=absurd)) == [{"gpu": "0", "power_watts": ""}]


def test_odd_names_are_quoted() -> None:
    odd = 'a "b", c'
    (row,) = rows("model,gpu", Gpu(Device(Entity("gpu", "0"), odd)))
    assert row == {"model": odd, "gpu": "0"}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("@SUM(1)", "'@SUM(1)"),
        ("+1+cmd", "'+1+cmd"),
        ("-1+cmd", "'-1+cmd"),
        ("＝1", "'＝1"),
        ("-", "'-"),
        ("\t=1", "?=1"),
        ("\r=1", "?=1"),
        ("a\nb", "a?b"),
        ("\x1b[2J\x9b1m\u202eb", "?[2J?1m?b"),
        ("-1", "-1"),
        ("+1.5", "+1.5"),
        ("GPU-1", "GPU-1"),
    ],
)
def test_texts_are_no_formulas_and_no_control_sequences(text: str, cell: str) -> None:
    columns = "node,gpu,uuid,mig_id,mig_profile,model"
    (row,) = rows(columns, Gpu(Device(Entity("mig", text, text, text, text, text), text)))
    assert row == dict.fromkeys(columns.split(","), cell)


def test_negative_numbers_are_numbers() -> None:
    (row,) = rows("temperature_margin_celsius", gpu(0, temperature_margin_celsius=-2.5))
    assert row == {"temperature_margin_celsius": "-2.5"}


def test_chosen_columns_come_in_the_order_given() -> None:
    assert pulsed_csv.columns("gpu, time") == ("gpu", "time")


@pytest.mark.parametrize(
    ("text", "named"),
    [("sm_activ_ratio", "Did you mean sm_active_ratio"), ("gpu,zzzz", "--columns all"), ("", "--columns all")],
)
def test_an_unknown_column_is_refused_with_the_nearest(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        pulsed_csv.columns(text)
