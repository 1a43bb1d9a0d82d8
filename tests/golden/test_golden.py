"""The public output, byte for byte: reviewed text pages and documents are kept in `expected`, each sample once.

The OpenMetrics page is derived from the text page; passthrough adds families to the page that is kept without it.
After a wanted change: `UPDATE_GOLDEN=1 pytest tests/golden`, then review the difference before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.golden.openmetrics import openmetrics_of
from tests.golden.whole import Output, replayed
from tests.support.dmon_writer import ERAS, DmonWriter, Value

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
PAGES = sorted(path.name for path in (HERE / "pages").iterdir())
BASE_UNITS = "exporter-4.9-base-units.prom"
CAPTURE = "capture.txt"

FIELDS = [54, 50, 203, 204, 1001, 1002, 1003, 1004, 1005, 1006, 1009, 1010, 155, 156, 150, 140, 100, 250, 252, 240, 230]
"""Texts, percentages, ratios, rates, counters, and codes: every kind of cell."""

SPLIT_FIELDS = [1001, 1002, 1004, 1005, 252, 155]

TICKS = 18
"""Past the first repeated header."""


def two_gpus(tick: int) -> list[tuple[str, Sequence[Value]]]:
    """One that works, and one whose profiling is blank."""
    busy: Sequence[Value] = [
        "GPU-50000000-aaaa-4bbb-8ccc-000000000000", "NVIDIA L40S", 96, 61, 0.958, 0.791, 0.405, 0.018, 0.627, 0.0,
        12_345_678, 2_000_000_123, 301.5 + tick / 8, 9_876_543_210 + 301_500 * tick, 67, 0, 2520, 46068, 40_960,
        5_000_000 * tick, 0,
    ]  # fmt: skip
    blank: Sequence[Value] = [
        "GPU-50000000-aaaa-4bbb-8ccc-000000000001", "NVIDIA L40S", 0, 0, None, None, None, None, None, None,
        None, None, 34.125, 1_234_567, 31, 0, 210, 46068, 0, 0, None,
    ]  # fmt: skip
    return [("GPU 0", busy), ("GPU 1", blank)]


def split_gpu(tick: int) -> list[tuple[str, Sequence[Value]]]:
    """A board and its two MIG instances; power is the board's on every row, as DCGM has it."""
    watts = 281.5 + tick
    return [
        ("GPU 0", [0.704, 0.502, 0.311, 0.425, 30_000, watts]),
        ("GPU-I 0", [0.995, 1.294, 0.612, 0.305, 21_500, watts]),
        ("GPU-I 1", [0.0, 0.0, 0.0, None, 8_500, watts]),
    ]


def write_capture(path: Path, era: str, split: bool) -> None:
    """What dmon of that era prints of the very same numbers."""
    layout = ERAS[era]
    writer = DmonWriter(layout, SPLIT_FIELDS if split else FIELDS)
    text = writer.header()
    for tick in range(TICKS):
        rows = split_gpu(tick) if split else two_gpus(tick)
        # Era B prints GPUs in descending order while none is split.
        text += writer.tick(rows[::-1] if era == "B" and not split else rows)
    path.write_text(text + layout.stopped)


def check(name: str, output: Output, *, update: bool = True) -> None:
    """Compare an output with the kept text page and document, or keep it if UPDATE_GOLDEN is set."""
    for suffix, text in {"metrics.txt": output.text, "gpus.json": output.gpus}.items():
        if update:
            keep(f"{name}.{suffix}", text)
        assert text == kept(f"{name}.{suffix}"), f"{name}.{suffix} differs; see the top of this module"
    assert output.openmetrics == openmetrics_of(output.text)


def check_passthrough(name: str, output: Output) -> None:
    """Compare with the same output without passthrough: the kept families are added before pulsed's own."""
    before, begin, after = kept(f"{name}.metrics.txt").partition("# HELP pulsed_source_info ")
    assert output.text.startswith(before)
    assert output.text.endswith(begin + after)
    rows = output.text.removeprefix(before).removesuffix(begin + after)
    keep(f"{name}-passthrough.metrics.txt", rows)
    assert rows == kept(f"{name}-passthrough.metrics.txt")
    assert output.openmetrics == openmetrics_of(output.text)
    assert output.gpus == kept(f"{name}.gpus.json")


def kept(file: str) -> str:
    return (EXPECTED / file).read_bytes().decode()


def keep(file: str, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        (EXPECTED / file).write_bytes(text.encode())


@pytest.mark.parametrize("page", [page for page in PAGES if page != BASE_UNITS])
async def test_pages(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "pages")
    check(page.removesuffix(".prom"), await replayed(page))


@pytest.mark.parametrize(
    "page", ["exporter-4.8-mig.prom", "exporter-4.8-superchips.prom", "exporter-4.8-two-gpus.prom"]
)
async def test_full_pages(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full page has beside the lean one, and in place of it."""
    monkeypatch.chdir(HERE / "pages")
    name = page.removesuffix(".prom")
    lean, output = kept(f"{name}.metrics.txt").splitlines(), await replayed(page, "publish.series=full")
    added = "".join(line for line in output.text.splitlines(keepends=True) if line.rstrip() not in set(lean))
    keep(f"{name}-full.metrics.txt", added)
    assert added == kept(f"{name}-full.metrics.txt")
    assert output.openmetrics == openmetrics_of(output.text)


async def test_old_names_and_new_units_are_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """dcgm-exporter 4.9 renamed fields and counts in base units; the two pages were made of the same numbers."""
    monkeypatch.chdir(HERE / "pages")
    output = await replayed(BASE_UNITS)
    old_names = "exporter-4.8-two-gpus"
    renamed = Output(*(text.replace(BASE_UNITS, f"{old_names}.prom") for text in output))
    check(old_names, renamed, update=False)


async def test_passthrough_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "pages")
    check_passthrough("exporter-2-damaged", await replayed("exporter-2-damaged.prom", "publish.passthrough=true"))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("split", [False, True], ids=["two-gpus", "mig"])
async def test_captures_of_every_era(era: str, split: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write_capture(tmp_path / CAPTURE, era, split)
    check("dmon-mig" if split else "dmon-two-gpus", await replayed(CAPTURE), update=era == "A")


@pytest.mark.parametrize("split", [False, True], ids=["two-gpus", "mig"])
async def test_passthrough_of_a_capture(split: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write_capture(tmp_path / CAPTURE, "C1", split)
    name = "dmon-mig" if split else "dmon-two-gpus"
    check_passthrough(name, await replayed(CAPTURE, "publish.passthrough=true"))


async def test_an_xid_on_the_row_of_a_used_instance_reaches_its_board(tmp_path: Path) -> None:
    row = 'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{}"{}}} {}\n'
    page = tmp_path / "page.prom"
    page.write_text(row.format(5, "", 0) + row.format(9, ',namespace="ml",pod="trainer"', 43))
    board, *_ = (await replayed(page)).document["gpus"]
    assert board["mig"] is None
    assert board["metrics"]["xid_last_code"] == 43
