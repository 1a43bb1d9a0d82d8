"""The public face, byte for byte: what went in is made here, what came out was looked at and is kept in `expected`.

After a wanted change: `UPDATE_GOLDEN=1 pytest tests/golden`, then read the difference before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.dmon_writer import ERAS, DmonWriter, Value
from tests.golden.whole import Output, replayed

HERE = Path(__file__).parent
PAGES = sorted(path.name for path in (HERE / "pages").iterdir())
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


def write_capture(era: str, split: bool) -> None:
    """What dmon of that era prints of the very same numbers, into the current folder."""
    layout = ERAS[era]
    writer = DmonWriter(layout, SPLIT_FIELDS if split else FIELDS)
    text = writer.header()
    for tick in range(TICKS):
        rows = split_gpu(tick) if split else two_gpus(tick)
        # Era B prints GPUs in descending order while none is split.
        text += writer.tick(rows[::-1] if era == "B" and not split else rows)
    Path(CAPTURE).write_text(text + layout.stopped)


def check(name: str, output: Output, *, update: bool = True) -> None:
    """Compare with what is kept, or keep it where that is asked for."""
    expected = HERE / "expected"
    found = {"metrics.txt": output.text, "openmetrics.txt": output.openmetrics, "gpus.json": output.gpus}
    for suffix, text in found.items():
        path = expected / f"{name}.{suffix}"
        if update and os.environ.get("UPDATE_GOLDEN"):
            expected.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
        assert text == path.read_bytes().decode(), f"{path.name} differs; see the top of this module"


@pytest.mark.parametrize("page", PAGES)
async def test_pages(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "pages")
    check(page.removesuffix(".prom"), await replayed(page))


async def test_passthrough_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "pages")
    check("exporter-2-damaged-passthrough", await replayed("exporter-2-damaged.prom", "publish.passthrough=true"))


@pytest.mark.parametrize("split", [False, True], ids=["two-gpus", "mig"])
async def test_passthrough_of_a_capture(split: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write_capture("C1", split)
    name = "dmon-mig-passthrough" if split else "dmon-two-gpus-passthrough"
    check(name, await replayed(CAPTURE, "publish.passthrough=true"))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("split", [False, True], ids=["two-gpus", "mig"])
async def test_captures_of_every_era(era: str, split: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write_capture(era, split)
    check("dmon-mig" if split else "dmon-two-gpus", await replayed(CAPTURE), update=era == "A")


async def test_old_names_and_new_units_are_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """dcgm-exporter 4.9 renamed fields and counts in base units; the two pages were made of the same numbers."""
    monkeypatch.chdir(HERE / "pages")
    old, new = await replayed("exporter-4.8-two-gpus.prom"), await replayed("exporter-4.9-base-units.prom")
    assert old.document["gpus"] == new.document["gpus"]


async def test_an_xid_on_the_row_of_a_used_instance_reaches_its_board(tmp_path: Path) -> None:
    row = 'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{}"{}}} {}\n'
    page = tmp_path / "page.prom"
    page.write_text(row.format(5, "", 0) + row.format(9, ',namespace="ml",pod="trainer"', 43))
    board, *_ = (await replayed(page)).document["gpus"]
    assert board["mig"] is None
    assert board["metrics"]["xid_last_code"] == 43
