"""Cycle counters of DCGM 4.6 through the whole pipeline: exact whatever scrapes were lost, from pages and from dmon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import WORKLOAD_CLASSES
from pulsed.reader.exposition.parser import PageParser
from tests.golden.whole import replayed
from tests.support.dmon_writer import ERAS, DmonWriter

START = 1767225600.0
INTERVAL = 15.0
CLOCK = 1.83e9
LEVELS = [0.9, 0.1, 0.75, 0.0, 0.3, 0.6, 1.0, 0.45, 0.05, 0.8, 0.2, 0.55]
"""SM activity of each interval; that of the tensor pipes is half of it."""

MISLEADING = {"SM_ACTIVE": 0.99, "PIPE_TENSOR_ACTIVE": 0.01, "DRAM_ACTIVE": 0.2, "GR_ENGINE_ACTIVE": 1.0}
"""What DCGM's gauges sampled."""


NAMES = [
    f"{name}_TOTAL" for name in ("SM_CYCLES_ELAPSED", *(f"{pipe}_CYCLES_ACTIVE" for pipe in ("SM", "MMA", "FP64")))
]


class Exporter:
    """An exporter whose counters follow `LEVELS`."""

    def __init__(self) -> None:
        self.parser, self.pipeline = PageParser(), Pipeline(GpuTable(), "node")
        self.offset = 1e12

    def page(self, interval: int, gauges: dict[str, float], names: Sequence[str]) -> str:
        sm = [0.0, *accumulate(level * INTERVAL * CLOCK for level in LEVELS)][interval]
        counters = {
            "SM_CYCLES_ELAPSED_TOTAL": interval * INTERVAL * CLOCK,
            "SM_CYCLES_ACTIVE_TOTAL": sm,
            "MMA_CYCLES_ACTIVE_TOTAL": sm / 2,
            "FP64_CYCLES_ACTIVE_TOTAL": sm / 4,
        }
        rows = [(f"PROF_{name}", value + self.offset) for name, value in counters.items() if name in names]
        rows += [(f"PROF_{name}", value) for name, value in gauges.items()]
        rows += [("DEV_TOTAL_ENERGY_CONSUMPTION", 1e9 + 300e3 * INTERVAL * interval), ("DEV_GPU_TEMP", 50)]
        labels = '{gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3"}'
        return "".join(f"DCGM_FI_{name}{labels} {value}\n" for name, value in rows)

    def read(
        self,
        intervals: Sequence[int],
        gauges: dict[str, float] | None = None,
        names: Sequence[str] = NAMES,
        clocks: Sequence[int] = (),
    ) -> Iterator[Tick]:
        for interval, at in zip(intervals, clocks or intervals, strict=True):
            read = self.parser.parse(self.page(interval, MISLEADING if gauges is None else gauges, names).encode())
            clock = at * INTERVAL
            raw = RawTick("t", Unix(START + clock), Monotonic(clock), INTERVAL, read.layout, read.values, read.rejected)
            yield self.pipeline.process(raw)


def counted(tick: Tick, name: str) -> float:
    value = tick.gpus[0].result.counters.value(name)
    assert value is not None
    return value


ALL = sum(LEVELS) * INTERVAL


@pytest.mark.parametrize(
    "scrapes",
    [range(13), [0, 1, 3, 4, 6, 7, 9, 12], [0, 1, 12], [0, 12], [0, 5, 6, 11, 12]],
    ids=["all", "some lost", "most lost", "only the ends", "gaps"],
)
def test_integrals_are_exact_however_many_scrapes_were_lost(scrapes: Sequence[int]) -> None:
    first, *others = list(Exporter().read(scrapes))
    last = others[-1]
    for name, share in {"sm_active_seconds": 1.0, "tensor_active_seconds": 0.5}.items():
        assert counted(last, name) - counted(first, name) == pytest.approx(share * ALL, rel=1e-9)
    assert counted(last, "observed_seconds") == 12 * INTERVAL
    assert counted(last, "sm_active_unknown_seconds") == 0.0
    gaps = sum(after - before for before, after in pairwise(scrapes) if after - before > 3)
    assert counted(last, "dram_active_seconds") == pytest.approx(0.2 * INTERVAL * (12 - gaps))
    assert counted(last, "dram_active_unknown_seconds") == INTERVAL * gaps


def test_energy_over_a_gap_is_that_of_the_counter() -> None:
    *_, last = Exporter().read([0, 1, 11, 12])
    counters = last.gpus[0].result.counters
    total = sum(counters.value("class_energy_joules", name) or 0.0 for name in WORKLOAD_CLASSES)
    assert total == pytest.approx(300.0 * 12 * INTERVAL)


def test_real_utilization_and_mfu_come_from_the_counters() -> None:
    for number, tick in enumerate(Exporter().read(range(13), {**MISLEADING, "SM_ACTIVE": 0.0})):
        level = LEVELS[number - 1]
        reading, result = tick.gpus[0].reading, tick.gpus[0].result
        if number:
            assert reading.sm_active_ratio == pytest.approx(level)
            assert (reading.tensor_active_ratio, reading.fp64_active_ratio) == pytest.approx((level / 2, level / 4))
            expected = 0.35 * level + 0.35 * level / 2 + 0.20 * 0.2 + 0.10 * 1.0
            assert result.real_utilization.ratio.value == pytest.approx(expected)
        else:
            assert reading.sm_active_ratio == 0.0, "there is no sample before"


def test_a_page_that_repeats_has_the_activity_of_before() -> None:
    exporter = Exporter()
    *_, measured, repeated = exporter.read([0, 1, 1], clocks=[0, 1, 2])
    assert (
        measured.gpus[0].reading.sm_active_ratio == repeated.gpus[0].reading.sm_active_ratio == pytest.approx(LEVELS[0])
    )
    assert counted(repeated, "sm_active_seconds") == pytest.approx(2 * LEVELS[0] * INTERVAL)


@pytest.mark.parametrize("names", [["SM_CYCLES_ACTIVE_TOTAL"], ["SM_CYCLES_ELAPSED_TOTAL"], []])
def test_without_both_counters_the_gauge_counts(names: list[str]) -> None:
    *_, last = Exporter().read([0, 1, 2], names=names)
    assert last.gpus[0].reading.sm_active_ratio == 0.99


def test_counters_that_start_again_count_from_the_next_sample_on() -> None:
    exporter = Exporter()
    list(exporter.read([0, 1, 2]))
    exporter.offset = -20 * CLOCK
    reset, after = exporter.read([3, 4])
    assert reset.gpus[0].reading.sm_active_ratio == 0.99
    assert after.gpus[0].reading.sm_active_ratio == pytest.approx(LEVELS[3])


def test_a_gpu_without_gauges_has_its_activity_from_the_counters() -> None:
    first, second = Exporter().read([0, 1], gauges={})
    assert first.gpus[0].reading.sm_active_ratio is None
    assert second.gpus[0].reading.sm_active_ratio == pytest.approx(LEVELS[0])


@pytest.mark.parametrize("era", ["C2"])
async def test_dmon(era: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Counters as columns of dmon, once per second."""
    monkeypatch.chdir(tmp_path)
    layout = ERAS[era]
    writer = DmonWriter(layout, [1002, 1004, 1005, 1084, 1085, 1086])
    text = writer.header()
    elapsed, active = 10**15, 3 * 10**14
    for level in [0.0, *LEVELS]:
        elapsed, active = elapsed + 1_830_000_000, active + round(level * 1_830_000_000)
        text += writer.tick([("GPU 0", [0.99, 0.01, 0.2, elapsed, active, active // 2])])
    (tmp_path / "capture.txt").write_text(text + layout.stopped)
    output = await replayed("capture.txt", "publish.series=full")
    rows = [line.rsplit(" ", 1) for line in output.text.splitlines() if not line.startswith("#")]
    values = {name.partition("{")[0]: float(value) for name, value in rows}
    assert values["pulsed_gpu_sm_active_seconds_total"] == pytest.approx(sum(LEVELS))
    assert values["pulsed_gpu_tensor_active_seconds_total"] == pytest.approx(sum(LEVELS) / 2)
    assert values["pulsed_gpu_sm_elapsed_cycles_total"] == elapsed
