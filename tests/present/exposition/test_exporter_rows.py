from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pulsed.model.clocks import Monotonic
from pulsed.model.raw_tick import RawTick, RawValue
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import Tick
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.passthrough import XID, exporter_layout
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.translate.fields import BY_SHORT
from pulsed.translate.translator import Translator
from tests.present.boards import store_of, target
from tests.present.dmon import capture, computed
from tests.present.exposition.pages import NOW, count_of_dcgm, families_of, page_of, republished
from tests.support.dmon_writer import ERAS, Value
from tests.support.samples import SAMPLES, needs_samples
from tests.translate.build import dmon_ticks, page_tick, tick

IDENTITY = (1, 50, 54, 57)
MEASURED = (1001, 1004, 1009, 155, 156, 150, 100, 203, 230, 252, 449, 393)
NAMES = [
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
]
"""What an exporter calls them."""

A: tuple[Value, ...] = (0.5, 0.25, 4791810, 301.5, 15152422938, 61, 1755, 91, 0, 40960, 12, 0)
B: tuple[Value, ...] = (0.125, 0.0, 0, 71.25, 2147483632, 33, 345, 0, 79, 4, 0, 2)
MODEL = "NVIDIA H100 80GB HBM3"
UUIDS = ("GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000")
BUSES = ("00000000:1B:00.0", "00000000:43:00.0")


def identity(number: int) -> tuple[str, ...]:
    return ("580.105.08", MODEL, UUIDS[number], BUSES[number])


def samples(made: TargetStore) -> dict[str, float]:
    """Republished samples by series."""
    lines = [line.rpartition(" ") for line in republished(made) if not line.startswith("#")]
    assert len(lines) == len({series for series, _, _ in lines})
    return {series: float(value) for series, _, value in lines}


def last(raws: Sequence[RawTick], node: str = "here") -> Tick:
    return list(computed(raws, node))[-1]


def dmon_board(*raws: RawTick) -> TargetStore:
    return store_of(target("dmon", last(raws), kind="replay"))


@pytest.fixture
def two_gpus() -> TargetStore:
    rows = [("GPU 0", A), ("GPU 1", B)]
    named = [(entity, (*identity(number), *values)) for number, (entity, values) in enumerate(rows)]
    return dmon_board(*capture((*IDENTITY, *MEASURED), named))


def test_a_capture_of_two_gpus_comes_out_as_an_exporter_would_serve_it(two_gpus: TargetStore) -> None:
    zero, one = (
        f'DCGM_FI_DRIVER_VERSION="580.105.08",Hostname="here",UUID="{uuid}",device="nvidia{gpu}",gpu="{gpu}",'
        f'modelName="{MODEL}",pci_bus_id="{bus}"'
        for gpu, (uuid, bus) in enumerate(zip(UUIDS, BUSES, strict=True))
    )
    families = [
        (
            "Share of time with any part of the graphics or compute engine busy",
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "0.5", "0.125"),
        ),
        (
            "Share of cycles with a tensor pipe busy",
            ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "0.25", "0.0"),
        ),
        (
            "Rate of data sent over PCIe, headers included, in B/s",
            ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "4791810.0", "0.0"),
        ),
        ("Board power, averaged by the driver, in W", ("DCGM_FI_DEV_POWER_USAGE", "gauge", "301.5", "71.25")),
        (
            "Energy used since driver load, in mJ",
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "15152422938.0"),  # GPU 1's is a blank of DCGM's
        ),
        ("Temperature of the die, in °C", ("DCGM_FI_DEV_GPU_TEMP", "gauge", "61.0", "33.0")),
        ("SM clock, in MHz", ("DCGM_FI_DEV_SM_CLOCK", "gauge", "1755.0", "345.0")),
        (
            "Share of time in which at least one kernel ran, however small (what nvidia-smi calls GPU utilization), "
            "in %",
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", "91.0", "0.0"),
        ),
        (
            "Code of the last XID error since the source started; 0 without one",
            ("DCGM_FI_DEV_XID_ERRORS", "gauge", "0.0", "79.0"),
        ),
        ("Device memory in use, in MiB", ("DCGM_FI_DEV_FB_USED", "gauge", "40960.0", "4.0")),
        (
            "Rate of data over all NVLinks, both directions together, in MB/s",
            ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "gauge", "12.0", "0.0"),
        ),
        (
            "Memory rows replaced after uncorrectable errors",
            ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "0.0", "2.0"),
        ),
    ]
    expected = []
    for meaning, (name, type_, *values) in families:
        expected += [f"# HELP {name} {meaning}", f"# TYPE {name} {type_}"]
        for labels, value in zip((zero, one), values, strict=False):
            code = f',err_code="{float(value):.0f}"' if name == XID else ""
            expected.append(f"{name}{{{labels}{code}}} {value}")
    assert republished(two_gpus) == expected


@pytest.mark.parametrize("openmetrics", [False, True])
def test_the_page_is_valid(two_gpus: TargetStore, openmetrics: bool) -> None:
    found = {family.name: family for family in families_of(page_of(two_gpus, openmetrics), openmetrics)}
    found = {name: family for name, family in found.items() if name.startswith("DCGM_")}
    assert sorted(found) == sorted(NAMES)
    assert sum(len(family.samples) for family in found.values()) == 23
    assert found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"].type == ("unknown" if openmetrics else "counter")


def test_dmon_and_the_exporter_give_the_same_series(two_gpus: TargetStore) -> None:
    page = []
    for number, values in enumerate((A, B)):
        labels = (
            f'gpu="{number}",UUID="{UUIDS[number]}",pci_bus_id="{BUSES[number]}",device="nvidia{number}",'
            f'modelName="{MODEL}",Hostname="here",DCGM_FI_DRIVER_VERSION="580.105.08"'
        )
        for name, value in zip(NAMES, values, strict=True):
            code = f',err_code="{value}"' if name == XID else ""
            page.append(f"{name}{{{labels}{code}}} {value}\n")
    from_exporter = samples(store_of(target("exporter", last([page_tick("".join(page))]))))
    assert _by_labels(samples(two_gpus)) == _by_labels(from_exporter)
    assert len(from_exporter) == 23


def _by_labels(found: Mapping[str, float]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = "".join(f"{series} {value!r}\n" for series, value in found.items())
    parsed = [sample for family in parse_text(text) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in parsed}


@pytest.mark.parametrize("era", ERAS)
def test_every_version_of_dmon_is_served_alike(era: str) -> None:
    made = dmon_board(*capture([203, 150], [("GPU 0", [91, 61])], era=era))
    assert samples(made) == {
        'DCGM_FI_DEV_GPU_UTIL{Hostname="here",device="nvidia0",gpu="0"}': 91,
        'DCGM_FI_DEV_GPU_TEMP{Hostname="here",device="nvidia0",gpu="0"}': 61,
    }


def test_types_are_those_of_the_exporters_default_list_but_for_what_goes_down() -> None:
    # etc/default-counters.csv of dcgm-exporter 4.8
    counters = {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    }
    gauges = {
        f"DCGM_FI_{name}"
        for name in (
            *("DEV_SM_CLOCK", "DEV_MEM_CLOCK", "DEV_MEMORY_TEMP", "DEV_GPU_TEMP", "DEV_POWER_USAGE", "DEV_GPU_UTIL"),
            *("DEV_MEM_COPY_UTIL", "DEV_ENC_UTIL", "DEV_DEC_UTIL", "DEV_XID_ERRORS", "DEV_FB_FREE", "DEV_FB_USED"),
            *("DEV_FB_RESERVED", "DEV_VGPU_LICENSE_STATUS", "DEV_ROW_REMAP_FAILURE", "PROF_GR_ENGINE_ACTIVE"),
            *("PROF_PIPE_TENSOR_ACTIVE", "PROF_DRAM_ACTIVE", "PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES"),
            "DEV_NVLINK_BANDWIDTH_TOTAL",
        )
    }
    raw = tick([(short, {"entity": "GPU", "id": "0"}, 1.0) for short in BY_SHORT], "dmon")
    layout = exporter_layout(raw.layout, Translator().translate(raw).devices, "here")
    assert {name for name in counters | gauges if layout.types[name] == "counter"} == counters
    assert set(layout.types) == set(layout.help) == {series.name for series in layout.series}
    assert len(layout.types) == len(BY_SHORT)
    assert all(layout.help.values())
    assert not [text for text in layout.help.values() if text.endswith(("in ratio", "in code", "in count"))]


def test_a_field_is_described_by_what_it_is_and_not_by_what_it_stands_in_for() -> None:
    made = dmon_board(*capture([160], [("GPU 0", [700.0])]))
    assert "# HELP DCGM_FI_DEV_POWER_MGMT_LIMIT Requested power limit, in W" in republished(made)


MIG_FIELDS = (1001, 252, 155, 203)


def test_on_a_split_board_each_value_has_one_series() -> None:
    rows = [
        ("GPU 0", (0.5, 30000, 250.0, None)),
        ("GPU-I 0", (0.75, 10000, 250.0, None)),
        ("GPU-I 1", (0.25, 20000, 251.0, None)),
    ]
    board_labels = 'Hostname="here",device="nvidia0",gpu="0"'
    instances = [f'GPU_I_ID="{number}",{board_labels}' for number in (0, 1)]
    assert samples(dmon_board(*capture(MIG_FIELDS, rows))) == {
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{instances[0]}}}": 0.75,
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{instances[1]}}}": 0.25,
        f"DCGM_FI_DEV_FB_USED{{{instances[0]}}}": 10000,
        f"DCGM_FI_DEV_FB_USED{{{instances[1]}}}": 20000,
        f"DCGM_FI_DEV_POWER_USAGE{{{board_labels}}}": 250.0,
    }


def test_instances_of_boards_unknown_are_not_counted_beside_them() -> None:
    boards = [("GPU 0", (0.5, 30000, 250.0, None)), ("GPU 1", (0.5, 3, 70.0, 5))]
    instances = [("GPU-I 7", (0.75, 10000, 250.0, None)), ("GPU-I 14", (0.25, 20000, 70.0, None))]
    alone = samples(dmon_board(*capture(MIG_FIELDS, boards)))
    assert samples(dmon_board(*capture(MIG_FIELDS, [*boards, *instances]))) == alone
    assert len(alone) == 7
    assert samples(dmon_board(*capture(MIG_FIELDS, instances))) == {
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID="7",Hostname="here"}': 0.75,
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID="14",Hostname="here"}': 0.25,
        'DCGM_FI_DEV_FB_USED{GPU_I_ID="7",Hostname="here"}': 10000,
        'DCGM_FI_DEV_FB_USED{GPU_I_ID="14",Hostname="here"}': 20000,
    }


def test_what_is_no_gpu_is_left_out() -> None:
    rows = [("GPU 0", [0.5, 91]), ("vGPU 3", [0.5, 91]), ("Switch 0", [0.5, 91]), ("CPU 0", [0.5, 91])]
    assert all('gpu="0"' in series for series in samples(dmon_board(*capture([1001, 203], rows))))


@pytest.mark.parametrize("value", [None, "N/A", 2147483632.0, 140737488355329.0, 9223372036854775794.0])
def test_a_missing_value_is_absent_and_its_family_too(value: RawValue) -> None:
    rows = [("GPUTL", value), ("TMPTR", 61.0)]
    made = dmon_board(tick([(short, {"entity": "GPU", "id": "0"}, one) for short, one in rows], "dmon"))
    assert len(samples(made)) == 1
    assert not [line for line in republished(made) if "GPU_UTIL" in line]


def test_columns_that_are_no_quantity_are_left_out() -> None:
    made = dmon_board(*capture([1, 53, 1404, 203], [("GPU 0", ["580.105.08", "1320", 1, 91])]))
    assert [series.split("{")[0] for series in samples(made)] == ["DCGM_FI_DEV_GPU_UTIL"]


def test_a_live_stream_says_more_of_a_row_than_a_capture() -> None:
    labels = {"entity": "GPU", "id": "3", "uuid": UUIDS[0], "model": MODEL, "pci_bus_id": BUSES[0]}
    raw = tick([("GPUTL", labels, 91.0), ("TMPTR", labels, 61.0)], "dmon")
    found = samples(dmon_board(raw))
    assert sorted(found.values()) == [61.0, 91.0]
    assert all('device="nvidia3",gpu="3"' in series for series in found)


def test_rows_of_devices_that_the_tick_does_not_have_are_left_out() -> None:
    (raw,) = capture([203], [("GPU 0", [91]), ("GPU 1", [5])])
    devices = Translator("n").translate(raw).devices
    layout = exporter_layout(raw.layout, devices[1:], "here")
    assert [series.name for series in layout.series] == ["", "DCGM_FI_DEV_GPU_UTIL"]
    assert layout.series[1].labels == (("gpu", "1"), ("device", "nvidia1"), ("Hostname", "n"))


def test_the_first_of_several_targets_has_a_gpu() -> None:
    first = last(capture([203, 230], [("GPU 0", [91, 0])]))
    second = last(capture([230, 203], [("GPU 0", [79, 5]), ("GPU 1", [13, 7])]))
    elsewhere = last(capture([203], [("GPU 0", [17])]), "there")
    made = store_of(*(target(name, one) for name, one in zip("abc", (first, second, elsewhere), strict=True)))
    zero, one = ('Hostname="here",device="nvidia0",gpu="0"', 'Hostname="here",device="nvidia1",gpu="1"')
    assert samples(made) == {
        f"DCGM_FI_DEV_GPU_UTIL{{{zero}}}": 91,
        f"DCGM_FI_DEV_GPU_UTIL{{{one}}}": 7,
        'DCGM_FI_DEV_GPU_UTIL{Hostname="there",device="nvidia0",gpu="0"}': 17,
        f'DCGM_FI_DEV_XID_ERRORS{{{zero},err_code="0"}}': 0,
        f'DCGM_FI_DEV_XID_ERRORS{{{one},err_code="13"}}': 13,
    }
    headers = Counter(line for line in republished(made) if line.startswith("#"))
    assert len(headers) == 4
    assert set(headers.values()) == {1}


def test_dmon_beside_an_exporter() -> None:
    exporter = last(
        [page_tick(f'# HELP {NAMES[7]} theirs\n# TYPE {NAMES[7]} gauge\n{NAMES[7]}{{gpu="0",Hostname="there"}} 5\n')]
    )
    made = store_of(target("exporter", exporter), target("dmon", last(capture([203], [("GPU 0", [91])]))))
    assert republished(made) == [
        f"# HELP {NAMES[7]} theirs",
        f"# TYPE {NAMES[7]} gauge",
        f'{NAMES[7]}{{Hostname="there",gpu="0"}} 5.0',
        f'{NAMES[7]}{{Hostname="here",device="nvidia0",gpu="0"}} 91.0',
    ]


def test_series_come_and_go_with_their_rows_and_with_what_is_known() -> None:
    ticks = computed(
        capture(
            [1, 203, 230],
            [("GPU 0", [None, 1, 0]), ("GPU 1", [None, 2, None])],
            [("GPU 0", ["580.1", 3, 79])],
            [("GPU 0", [None, None, 79]), ("GPU 1", ["580.1", 5, None])],
        )
    )
    made = store_of(target("dmon"))
    pages = Pages(made, Telemetry(made), PageSettings(passthrough=True))
    util = 'DCGM_FI_DEV_GPU_UTIL{%sHostname="here",device="nvidia%d",gpu="%d"} %s'
    xid = 'DCGM_FI_DEV_XID_ERRORS{%sHostname="here",device="nvidia0",gpu="0",err_code="%d"} %s'
    driver = 'DCGM_FI_DRIVER_VERSION="580.1",'
    expected = [
        [util % ("", 0, 0, "1.0"), util % ("", 1, 1, "2.0"), xid % ("", 0, "0.0")],
        [util % (driver, 0, 0, "3.0"), xid % (driver, 79, "79.0")],
        [util % (driver, 1, 1, "5.0"), xid % (driver, 79, "79.0")],
    ]
    for each, lines in zip(ticks, expected, strict=True):
        made.targets[0].accept(each, Monotonic(NOW))
        page = pages.page(Monotonic(NOW), openmetrics=False, gzip=False).decode()
        assert sorted(line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_")) == lines
    assert "DCGM_" not in pages.page(Monotonic(NOW + 60), openmetrics=False, gzip=False).decode()


def test_without_the_setting_nothing_is_republished(two_gpus: TargetStore) -> None:
    assert "DCGM_" not in page_of(two_gpus, passthrough=False)


@needs_samples
@pytest.mark.parametrize("openmetrics", [False, True])
def test_real_captures_make_valid_pages(openmetrics: bool) -> None:
    files = sorted((SAMPLES / "dmon").glob("*.txt"))
    assert files
    made = store_of()
    for file in files:
        if raws := dmon_ticks(file.read_text()):
            made.targets.append(target(file.name, last(raws, file.name)))
    assert count_of_dcgm(families_of(page_of(made, openmetrics), openmetrics)) > 50
