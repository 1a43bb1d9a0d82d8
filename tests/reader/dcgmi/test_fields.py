"""Unavailable fields, and fields that are read rarely."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from pulsed.reader.dcgmi.source import DcgmiSource
from tests.reader.dcgmi.sources import FAST, PLAIN, SHORTS, fails, read, read_until, reading, recovers, row
from tests.support.standin.fixture import standin
from tests.support.standin.install import Standin
from tests.support.standin.scenario import Fault, Gpu, Refusal, gpus
from tests.support.standin.signals import Constant

__all__ = ["standin"]

PROFILING = (1001, 1002)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def columns(source: DcgmiSource) -> list[str]:
    return list(row(await read(source), "0"))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.2.9", "3.1.8", "4.2.3", "4.6.0"])
async def test_a_field_that_this_version_does_not_know_is_left_out(
    standin: Standin, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    standin.change(version=version, gpus=gpus("ampere", 1), missing_fields=(150,))
    async with reading(standin.path, fast=(*FAST, 64000)) as source:
        assert await columns(source) == ["GRACT", "SMACT", "POWER", "GPUTL"]
        assert source.lost == {"field_refused": (150, 64000)}
    assert warnings(caplog) == ["some fields are unavailable and left out"]
    assert caplog.records[0].__dict__["fields"] == "field_refused: 150 64000"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.2.9", "4.2.3"])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("profiling_held", "profiling_held"),
        ("in_use", "profiling_held"),
        ("module_not_loaded", "profiling_unavailable"),
        ("needs_root", "not_permitted"),
    ],
)
async def test_without_profiling_the_plain_fields_go_on(
    standin: Standin, caplog: pytest.LogCaptureFixture, version: str, failure: str, reason: str
) -> None:
    standin.change(version=version, gpus=gpus("ampere", 1), refusals=(Refusal(failure, PROFILING),))
    async with reading(standin.path) as source:
        assert await columns(source) == [SHORTS[field] for field in PLAIN]
        assert source.lost == {reason: PROFILING}
        await read(source)
    assert warnings(caplog) == ["some fields are unavailable and left out"]
    assert caplog.records[0].__dict__["why"]
    assert len(standin.starts("dmon")) <= 4


async def test_a_geforce_has_no_profiling(standin: Standin) -> None:
    standin.change(gpus=gpus("geforce", 1))
    async with reading(standin.path) as source:
        assert await columns(source) == [SHORTS[field] for field in PLAIN]
        assert source.lost == {"profiling_unavailable": PROFILING}


@pytest.mark.slow
async def test_a_refused_field_that_is_not_named_is_found(standin: Standin) -> None:
    standin.change(gpus=gpus("ampere", 1), refusals=(Refusal("field_not_supported", (150, 1002)),))
    async with reading(standin.path) as source:
        assert await columns(source) == ["GRACT", "POWER", "GPUTL"]
        assert source.lost == {"field_refused": (150, 1002)} or source.lost == {"field_refused": (1002, 150)}


@pytest.mark.slow
async def test_profiling_that_is_let_go_comes_back(standin: Standin, caplog: pytest.LogCaptureFixture) -> None:
    held = Refusal("profiling_held", PROFILING)
    standin.change(gpus=gpus("ampere", 1), refusals=(held,))
    async with reading(standin.path, upkeep_interval=0.2) as source:
        assert "GRACT" not in await columns(source)
        pid = source.pid
        await read_until(source, lambda tick: len(standin.starts("dmon")) > 3)
        assert source.pid == pid  # it was tried beside the stream, which went on
        standin.change(refusals=())
        await read_until(source, lambda tick: "GRACT" in row(tick, "0"))
        assert source.lost == {}
    assert warnings(caplog) == ["some fields are unavailable and left out"]


async def test_a_restart_asks_for_everything_again(standin: Standin) -> None:
    standin.change(
        gpus=gpus("ampere", 1),
        refusals=(Refusal("profiling_held", PROFILING, starts=2),),
        faults=(Fault("exit", after=3, starts=2),),
    )
    async with reading(standin.path) as source:
        assert "GRACT" not in await columns(source)
        await fails(source)
        tick, _ = await recovers(source)
        assert "GRACT" in row(tick, "0")
        assert source.lost == {}


async def test_an_engine_that_refuses_everything_is_an_error_and_no_storm(standin: Standin) -> None:
    standin.change(refusals=(Refusal("field_not_supported"),))
    async with reading(standin.path, fast=PLAIN) as source:
        error = await fails(source)
        assert error.reason == "field_refused"
        assert "none of 3 fields" in str(error)
        assert len(standin.starts("dmon")) <= 3 * len(PLAIN)
        standin.change(refusals=())
        tick, _ = await recovers(source)
        assert list(row(tick, "0")) == [SHORTS[field] for field in PLAIN]


GH200 = Gpu(model="NVIDIA GH200 480GB")
LINK_OF_GH200 = {r"\bGH200\b": (1076, 1078), r"\bGB200\b": (1079,)}


@pytest.mark.parametrize(
    ("nodes", "more"), [((GH200,), ["C2CTXAB", "C2CRXAB"]), ((Gpu(), GH200), ["C2CTXAB", "C2CRXAB"]), ((Gpu(),), [])]
)
async def test_fields_of_a_product_are_requested_where_it_is(
    standin: Standin, nodes: tuple[Gpu, ...], more: list[str]
) -> None:
    standin.change(gpus=nodes)
    async with reading(standin.path, by_model=LINK_OF_GH200) as source:
        assert await columns(source) == [*(SHORTS[field] for field in FAST), *more]
        assert source.lost == {}


async def test_fields_of_a_product_that_appears_later(standin: Standin) -> None:
    """As long as dcgmi discovery fails, no product is known."""
    standin.change(gpus=(replace(GH200, state="blank"),), version="4.5.2")
    async with reading(standin.path, by_model=LINK_OF_GH200, upkeep_interval=0.1) as source:
        assert "C2CTXAB" not in row(await read(source), "0")
        standin.change(gpus=(GH200,))
        await read_until(source, lambda tick: "C2CTXAB" in row(tick, "0"))


async def test_slow_values_go_with_every_tick(standin: Standin) -> None:
    standin.change(gpus=gpus("ampere", 2), values={"GPU 1": {310: Constant(7)}})
    async with reading(standin.path, slow=(310, 54, 155), slow_interval=30.0) as source:
        first = await read_until(source, lambda tick: "ESVTL" in row(tick, "1"))
        ticks = [await read(source) for _ in range(3)]
    for tick in ticks:
        assert tick.layout is first.layout
        assert row(tick, "1")["ESVTL"] == 7
        assert str(row(tick, "0")["UUID#"]).startswith("GPU-")
        assert [series.name for series in tick.layout.series].count("POWER") == 2
    slow = next(series for series in first.layout.series if series.name == "ESVTL")
    assert slow.labels in {series.labels for series in first.layout.series if series.name == "POWER"}


async def test_slow_values_are_followed_and_grow_old(standin: Standin) -> None:
    standin.change(values={"*": {310: Constant(1)}})
    async with reading(standin.path, slow=(310,), slow_interval=0.2) as source:
        await read_until(source, lambda tick: row(tick, "0").get("ESVTL") == 1)
        standin.change(values={"*": {310: Constant(2)}})
        tick = await read_until(source, lambda tick: row(tick, "0").get("ESVTL") == 2)
        standin.change(refusals=(Refusal("field_not_supported", (310,)),))
        for start in standin.starts("dmon")[1:]:
            os.kill(start.pid, signal.SIGKILL)
        old = await read_until(source, lambda tick: row(tick, "0").get("ESVTL") is None)
        assert old.layout is tick.layout
        assert row(old, "0")["POWER"] is not None


async def test_slow_fields_that_fail_cost_only_themselves(standin: Standin, caplog: pytest.LogCaptureFixture) -> None:
    standin.change(refusals=(Refusal("field_not_supported", (310,)),))
    async with reading(standin.path, slow=(310,)) as source:
        while len(standin.starts("dmon")) <= 2:
            assert list(row(await read(source), "0")) == [SHORTS[field] for field in FAST]
        assert source.starts == 1
        assert warnings(caplog) == ["the slow fields cannot be read"]
        standin.change(refusals=())
        await read_until(source, lambda tick: row(tick, "0").get("ESVTL") is not None)


async def test_one_of_the_slow_fields_may_be_lost(standin: Standin) -> None:
    async with reading(standin.path, slow=(310, 64000)) as source:
        await read_until(source, lambda tick: "ESVTL" in row(tick, "0"))
        assert source.lost == {"field_refused": (64000,)}


async def test_a_closed_source_ends_its_background_work(standin: Standin) -> None:
    standin.change(refusals=(Refusal("profiling_held", PROFILING),), slow_start=0.1)
    async with reading(standin.path, upkeep_interval=0.1, slow=(310,)) as source:
        for _ in range(4):
            await read(source)
    assert len(asyncio.all_tasks()) == 1
