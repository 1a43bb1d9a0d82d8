"""The source `dcgmi` on the real dcgmi and host engine."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pulsed.errors import HostEngineUnavailable
from pulsed.model.raw_tick import RawTick
from pulsed.reader.dcgmi import DcgmiSettings
from pulsed.reader.dcgmi.discovery import discover
from pulsed.reader.dcgmi.source import DcgmiSource
from pulsed.translate.fields import COLUMNS
from tests.support.dcgm import RealDcgm, running
from tests.support.waiting import SECONDS

pytestmark = pytest.mark.slow


def settings(dcgm: RealDcgm, **changes: Any) -> DcgmiSettings:
    return replace(DcgmiSettings(fast=(150, 155), interval=0.5, path=str(dcgm.dcgmi), host=dcgm.host), **changes)


async def ticks(count: int, dcgm: RealDcgm, **changes: Any) -> list[RawTick]:
    source = DcgmiSource(settings(dcgm, **changes))
    try:
        return [await asyncio.wait_for(source.read(), SECONDS) for _ in range(count)]
    finally:
        await source.close()


async def test_the_columns_of_all_fields_are_named_as_in_the_table(h100: RealDcgm) -> None:
    fields = [field for field in COLUMNS if field < 1600]
    for first in range(0, len(fields), 48):
        part = fields[first : first + 48]
        printed = await asyncio.to_thread(h100.run_dcgmi, "dmon", "-e", ",".join(map(str, part)), "-c", "1")
        header = printed.stdout.splitlines()[0].split()[1:]
        assert header == [COLUMNS[field].partition(".")[0] for field in part]


async def test_equal_columns_are_told_apart_by_their_place_in_the_request(h100: RealDcgm) -> None:
    for fields in ((1402, 155), (1402, 1401), (1401, 1402, 1400, 1403)):
        (tick,) = await ticks(1, h100, fast=fields)
        names = [series.name for series in tick.layout.series]
        assert names[: len(fields)] == [COLUMNS[field] for field in fields]


async def test_the_list_of_gpus_counts_although_the_module_of_switches_is_missing(h100: RealDcgm) -> None:
    assert h100.run_dcgmi("discovery", "-l").returncode == 223
    topology = await discover((str(h100.dcgmi), "--host", h100.host), 8.0)
    assert topology.models == {h100.gpu(0, "name")}
    assert dict(topology.labels["GPU", "1"])["uuid"] == h100.gpu(1, "uuid")


async def test_ten_ticks_a_second_come_together_each_with_its_time(h100: RealDcgm) -> None:
    found = await ticks(31, h100, interval=0.1)
    assert {len(tick.values) for tick in found} == {len(found[-1].values)}
    gaps = [after.clock - before.clock for before, after in pairwise(found)]
    assert min(gaps) > 0.0
    assert sum(gaps) / len(gaps) == pytest.approx(0.1, rel=0.2)


async def test_an_engine_that_is_not_there_is_told_from_one_that_hangs(h100: RealDcgm) -> None:
    h100.stop_engine()
    with pytest.raises(HostEngineUnavailable, match="cannot be reached"):
        await ticks(1, h100)


async def test_a_gpu_without_profiling_leaves_it_to_the_others() -> None:
    with running("h100", 3, {"devices.1.architecture": "ampere"}) as dcgm:
        printed = await asyncio.to_thread(dcgm.run_dcgmi, "dmon", "-e", "1001,155", "-c", "1")
        assert (printed.returncode, "not currently loaded" in printed.stderr) == (223, True)
        source = DcgmiSource(settings(dcgm, fast=(1001, 155, 150), slow=(54,)))
        try:
            active: set[str] = set()
            while active != {"0", "2"}:
                tick = await asyncio.wait_for(source.read(), SECONDS)
                values = list(zip(tick.layout.series, tick.values, strict=True))
                active = {dict(each.labels)["id"] for each, value in values if each.name == "GRACT" and value}
                powers = [value for each, value in values if each.name == "POWER"]
            assert powers == [dcgm.gpu(index, "power.current_draw_mw") / 1000 for index in range(3)]
            assert not source.lost
        finally:
            await source.close()


def test_the_programs_are_those_of_the_archive(h100: RealDcgm) -> None:
    version = subprocess.run([h100.dcgmi, "-v", "--host", h100.host], capture_output=True, text=True, check=True)
    assert "Version : 4.6.0" in version.stdout


async def test_new_mig_instances_are_found_as_soon_as_the_mode_changes(h100: RealDcgm) -> None:
    source = DcgmiSource(settings(h100, fast=(155, 67, 252), interval=0.2))
    try:
        await asyncio.wait_for(source.read(), SECONDS)
        await asyncio.to_thread(h100.split, 0, 2)
        instances: set[tuple[str, str]] = set()
        while not instances:
            tick = await asyncio.wait_for(source.read(), SECONDS)
            rows = [dict(each.labels) for each in tick.layout.series]
            instances = {(row["uuid"], row["instance_id"]) for row in rows if row["entity"] == "GPU-I"}
        assert {uuid for uuid, _ in instances} == {h100.gpu(0, "uuid")}
        assert len(instances) == 2
    finally:
        await source.close()
