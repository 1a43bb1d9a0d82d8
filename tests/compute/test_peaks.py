from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.peaks import (
    LINKS,
    PRACTICAL_PEAKS,
    RESOURCES,
    Peaks,
    peaks_by_architecture,
    problems_of,
)
from pulsed.compute.products import (
    ARCHITECTURE_NAMES,
    ARCHITECTURES,
    C2C_LINKS,
    DEFAULT,
    NVLINKS,
    TENSOR_PEAKS,
    architecture_of,
    c2c_of,
    nvlink_of,
)
from pulsed.compute.saturation import PCIE_LANE_BYTES_PER_SECOND, pcie_peak
from pulsed.config.configuration import load
from pulsed.errors import ConfigError
from tests.compute.readings import many

PRODUCTS = {
    "volta": (
        *("Tesla V100-SXM2-16GB", "Tesla V100-PCIE-32GB", "Tesla V100S-PCIE-32GB", "Quadro GV100"),
        "NVIDIA TITAN V",
    ),
    "turing": (
        *("Tesla T4", "NVIDIA T4G", "Quadro RTX 4000", "Quadro RTX 6000", "NVIDIA GeForce RTX 2080 Ti"),
        *("NVIDIA GeForce GTX 1660", "GRID RTX6000-8Q", "NVIDIA TITAN RTX"),
    ),
    "ampere": (
        *("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A800-SXM4-80GB", "NVIDIA A30"),
        *("NVIDIA A10", "NVIDIA A10G", "NVIDIA A40", "NVIDIA A2", "NVIDIA GeForce RTX 3090"),
        *("NVIDIA RTX A6000", "GRID A100-8C", "GRID A100DX-40C"),
    ),
    "ada": (
        *("NVIDIA L4", "NVIDIA L40", "NVIDIA L40S", "NVIDIA L20", "NVIDIA GeForce RTX 4090"),
        *("NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA RTX 6000 Ada Generation"),
        *("NVIDIA RTX 4000 SFF Ada Generation", "NVIDIA RTX 2000 Ada Generation"),
    ),
    "hopper": (
        *("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H100-20C"),
        *("NVIDIA H100XM-80C", "NVIDIA H200", "NVIDIA H800", "NVIDIA H20", "NVIDIA GH200 480GB"),
    ),
    "blackwell": (
        *("NVIDIA B100", "NVIDIA B200", "NVIDIA B300 SXM6 AC", "NVIDIA GB200", "NVIDIA GB300"),
        *("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 4000 Blackwell"),
        "NVIDIA GeForce RTX 5090",
    ),
    DEFAULT: ("", "Tesla P100-SXM2-16GB", "Tesla K80", "NVIDIA Something New", "AMD Instinct MI300X"),
}


@pytest.mark.parametrize(
    ("model", "architecture"), [(model, name) for name, models in PRODUCTS.items() for model in models]
)
def test_a_product_name_tells_the_architecture(model: str, architecture: str) -> None:
    assert architecture_of(model) == architecture


def test_patterns_are_plain_enough_for_re2() -> None:
    tables = (ARCHITECTURES, NVLINKS, C2C_LINKS, TENSOR_PEAKS)
    for pattern in [row.pattern for table in tables for row in table]:
        re.compile(pattern)
        assert not re.search(r"\(\?|\\[1-9]|[*+?]\+|\\[AZ]", pattern), "no lookaround, backreference, possessive or \\A"


def test_every_architecture_has_a_row_and_every_number_a_source() -> None:
    assert tuple(peaks_by_architecture()) == ARCHITECTURE_NAMES
    assert {row.architecture for row in PRACTICAL_PEAKS} <= set(ARCHITECTURE_NAMES)
    assert {row.resource for row in PRACTICAL_PEAKS if row.architecture == DEFAULT} == set(RESOURCES) - set(LINKS)
    assert len({row[:2] for row in PRACTICAL_PEAKS}) == len(PRACTICAL_PEAKS), "no number twice"
    assert all(row.source for row in (*PRACTICAL_PEAKS, *NVLINKS, *C2C_LINKS, *TENSOR_PEAKS))
    assert all(0 < row.efficiency <= 1 for row in NVLINKS)


def test_practical_peaks_are_those_of_the_table() -> None:
    of_dcgm, of_gpm = Peaks(0.93, 1.0, 1.0, 1.0, 1.0, 0.8), Peaks(0.93, 1.0, 1.0, 1.0, 1.0, 0.87)
    assert peaks_by_architecture() == {
        **dict.fromkeys(("volta", "turing", "ampere", "ada", DEFAULT), of_dcgm),
        **dict.fromkeys(("hopper", "blackwell"), of_gpm),
    }


def test_overrides_of_default_replace_every_row_and_those_of_an_architecture_go_before_them() -> None:
    table = peaks_by_architecture({"default": {"dram": 0.9, "pcie": 25e9}, "hopper": {"dram": 0.95, "nvlink": 4e11}})
    assert (table["volta"].dram, table["volta"].pcie, table["volta"].nvlink) == (0.9, 25e9, None)
    assert (table["hopper"].dram, table["hopper"].pcie, table["hopper"].nvlink) == (0.95, 25e9, 4e11)
    assert table["hopper"].tensor == 0.93


@pytest.mark.parametrize(
    ("overrides", "place", "words"),
    [
        ({"hoper": {}}, "hoper", "is not an architecture; did you mean hopper?"),
        ({"mi300": {}}, "mi300", "is not an architecture; use "),
        ({"hopper": {"vram": 0.5}}, "hopper.vram", "is not a resource; did you mean dram?"),
        ({"hopper": {"dram": 0.0}}, "hopper.dram", "is 0; give a ratio"),
        ({"hopper": {"tensor": 93.0}}, "hopper.tensor", "is 93; give a ratio"),
        ({"default": {"fp64": -0.1}}, "default.fp64", "is -0.1; give a ratio"),
        ({"default": {"integer": math.nan}}, "default.integer", "is nan; give a ratio"),
        ({"default": {"integer": 1.01}}, "default.integer", "is 1.01; give a ratio"),
        ({"default": {"pcie": 0.0}}, "default.pcie", "is 0; give bytes per second"),
        ({"default": {"pcie": -1.0}}, "default.pcie", "is -1; give bytes per second"),
        ({"default": {"nvlink": math.inf}}, "default.nvlink", "is inf; give bytes per second"),
        ({"default": {"nvlink": math.nan}}, "default.nvlink", "is nan; give bytes per second"),
    ],
)
def test_a_wrong_override_is_refused_by_name(overrides: dict[str, dict[str, float]], place: str, words: str) -> None:
    ((found, message),) = problems_of(overrides)
    assert found == place
    assert message.startswith(words)


@pytest.mark.parametrize(
    ("generation", "lane"),  # of PCI-SIG's rate in GT/s, what the line code leaves
    [(1, 0.25e9), (2, 0.5e9), (3, 8e9 / 8.125), (4, 16e9 / 8.125), (5, 32e9 / 8.125), (6, 7.5625e9)],
)
def test_a_lane_carries_what_the_specification_says_less_the_protocol(generation: int, lane: float) -> None:
    assert PCIE_LANE_BYTES_PER_SECOND[generation] == pytest.approx(lane, rel=1e-12)
    for width in (1, 16, 32):
        assert pcie_peak(generation, width) == pytest.approx(lane * width * 0.935, rel=1e-12)


@pytest.mark.parametrize(
    ("generation", "width"),
    [(None, 16.0), (5.0, None), (0.0, 16.0), (5.0, 0.0), (7.0, 16.0), (3.5, 16.0), (5.0, -8.0), (5.0, 33.0)],
)
def test_an_unknown_link_has_no_peak(generation: float | None, width: float | None) -> None:
    assert pcie_peak(generation, width) is None


@many
@given(st.none() | st.floats(), st.none() | st.floats())
def test_no_link_has_a_peak_that_cannot_be_divided_by(generation: float | None, width: float | None) -> None:
    peak = pcie_peak(generation, width)
    assert peak is None or 0 < peak < math.inf


@pytest.mark.parametrize(
    ("model", "links", "gigabytes"),
    [
        ("Tesla V100-SXM2-32GB", 6, 150 * 0.96),
        ("NVIDIA A100-SXM4-80GB", 12, 300 * 0.92),
        ("NVIDIA A800-SXM4-80GB", 8, 200 * 0.92),
        ("NVIDIA H100 80GB HBM3", 18, 450 * 0.92),
        ("NVIDIA H200", 18, 450 * 0.92),
        ("NVIDIA H20", 18, 450 * 0.92),
        ("NVIDIA H800", 8, 200 * 0.92),
        ("NVIDIA B200", 18, 900 * 0.92),
        ("NVIDIA GB300", 18, 900 * 0.92),
        ("Tesla T4", 0, 0),
        ("NVIDIA L40S", 0, 0),
        ("NVIDIA A10G", 0, 0),
        ("NVIDIA RTX 6000 Ada Generation", 0, 0),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 0, 0),
        ("Tesla V100-PCIE-16GB", 0, 0),
    ],
)
def test_a_product_has_so_many_nvlinks(model: str, links: int, gigabytes: float) -> None:
    nvlinks = nvlink_of(model)
    assert nvlinks is not None
    assert nvlinks.links == links
    assert nvlinks.peak == pytest.approx(gigabytes * 1e9, rel=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        "",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A30",
        "NVIDIA A40",
        "NVIDIA RTX A6000",
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA H800 PCIe",
        "NVIDIA GH200 480GB",
    ],
)
def test_a_board_whose_bridges_the_name_does_not_tell_is_unknown(model: str) -> None:
    assert nvlink_of(model) is None


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [("NVIDIA GH200 480GB", 450 * 0.83), ("NVIDIA GH200 144G HBM3e", 450 * 0.83), ("GH200", 450 * 0.83)],
)
def test_the_peak_of_the_link_between_chips_is_measured(model: str, gigabytes: float) -> None:
    link = c2c_of(model)
    assert link is not None
    assert link.peak == pytest.approx(gigabytes * 1e9)


@pytest.mark.parametrize("model", ["NVIDIA GB200", "NVIDIA GB300"])
def test_the_share_of_one_of_two_gpus_of_a_processor_is_unknown(model: str) -> None:
    link = c2c_of(model)
    assert link is not None
    assert link.peak is None


@pytest.mark.parametrize("model", ["", "NVIDIA H200", "NVIDIA B200", "NVIDIA B300 SXM6 AC", "NVIDIA GB10", "Tesla T4"])
def test_only_superchips_have_a_link_between_chips(model: str) -> None:
    assert c2c_of(model) is None


def test_all_mistakes_of_the_configuration_are_reported_with_their_place() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, ["compute.saturation.peaks={hoper: {dram: 0.9}, ada: {pcie: 0}}"], {})
    assert "compute.saturation.peaks.hoper: is not an architecture" in str(caught.value)
    assert "compute.saturation.peaks.ada.pcie: is 0" in str(caught.value)
