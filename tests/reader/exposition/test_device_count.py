"""The limit of new devices on a page, and the other limits of its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.errors import BadPage, TooManyGpus
from pulsed.reader.exposition.parser import PageParser, device_of
from pulsed.reader.exposition.row import PageLimits, limits_for
from pulsed.translate.translator import Translator
from tests.support.samples import SAMPLES, needs_samples
from tests.translate.build import page_tick
from tools.bench.pages import FIELDS, exporter_page


@needs_samples
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("exporter/*.prom")), ids=lambda path: path.stem)
def test_as_many_as_translate_finds(path: Path) -> None:
    tick = page_tick(path.read_text())
    devices = Translator().translate(tick).devices
    divided = {device.entity.uuid or device.entity.gpu for device in devices if device.entity.kind == "mig"}
    found = {device_of(series.labels) for series in tick.layout.series} - {None}
    # A board that is known from its instances only has no row of its own.
    assert len(devices) - len(divided) <= len(found) <= len(devices)


@pytest.mark.parametrize(
    ("rows", "devices"),
    [
        ('a{gpu="0"} 1\nb{gpu="0"} 1\na{gpu="1"} 1\n', 2),
        ('a{gpu="0",Hostname="n1"} 1\na{gpu="0",Hostname="n2"} 1\n', 2),
        ('a{gpu="0",UUID="GPU-a"} 1\na{gpu="7",UUID="GPU-a",err_code="0"} 1\n', 1),
        ('a{UUID="GPU-a"} 1\na{UUID="GPU-a",GPU_I_ID="1"} 1\na{UUID="GPU-a",GPU_I_ID="2"} 1\n', 3),
        ('a{nvlink="0",gpu="0",gpu_uuid="GPU-a"} 1\nb{cpu="0"} 1\nc{pod="x"} 1\nd 1\n', 0),
        ('a{gpu="0",UUID="GPU-a",cpu="high",nvlink="x"} 1\n', 1),
        ('a{pod="}",gpu="0"} 1\n# HELP a {gpu="1"} 2\n', 1),
    ],
)  # fmt: skip
def test_the_limit_counts_devices(rows: str, devices: int) -> None:
    PageParser(PageLimits(max_gpus=devices)).parse(rows.encode())
    if devices:
        with pytest.raises(TooManyGpus, match=f"more than {devices - 1} GPUs and MIG instances"):
            PageParser(PageLimits(max_gpus=devices - 1)).parse(rows.encode())


def test_a_page_with_more_gpus_than_the_limit_fails_and_is_forgotten() -> None:
    parser = PageParser(limits_for(8))
    before = parser.parse(exporter_page(8, len(FIELDS)))
    with pytest.raises(TooManyGpus) as caught:
        parser.parse(exporter_page(17, len(FIELDS)))
    assert "source.max_gpus" in caught.value.remedy
    assert parser.parse(exporter_page(8, len(FIELDS), 1)).layout is before.layout


def test_gpus_that_were_there_before_do_not_count() -> None:
    parser = PageParser(limits_for(8))
    for first in (0, 8, 16):
        rows = "".join(f'a{{gpu="{gpu}"}} 1\n' for gpu in range(first, first + 8))
        assert parser.parse(rows.encode()).samples == 8


def test_limits_grow_with_the_gpus() -> None:
    assert limits_for(1024) == PageLimits()
    assert limits_for(2).max_series == PageLimits().max_series
    assert limits_for(10_240).max_series == 10 * PageLimits().max_series


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1\n" * 101, "has 101 lines"),
        ("a b\n" * 60, "More than 50 rows"),
        ("".join(f"a{n} 1\n" for n in range(90)), "too_many_series"),
    ],
)  # fmt: skip
def test_a_flood_of_rows_fails_and_is_forgotten(text: str, message: str) -> None:
    parser = PageParser(PageLimits(max_lines=100, max_rejected=50, max_series=20))
    known = parser.parse(b'x{gpu="0"} 1\ny{gpu="0"} 2\n')
    with pytest.raises(BadPage, match=message) as caught:
        parser.parse(text.encode())
    assert "max_gpus" in caught.value.remedy
    after = parser.parse(b'x{gpu="0"} 3\ny{gpu="0"} 4\n')
    assert after.values == [3.0, 4.0]
    assert after.layout.series == known.layout.series


def test_label_sets_are_limited() -> None:
    parser = PageParser(PageLimits(max_label_sets=10))
    for number in range(20):
        page = parser.parse(
            "".join(f'a{{n="{number}-{row}"}} 1\nb{{n="{number}-{row}"}} 1\n' for row in range(15)).encode()
        )
        assert page.samples == 20
        assert page.rejected == {"too_many_series": 10}
        assert len(page.values) <= 100
