"""`source.max_gpus`: the same limit, reason and remedy for every kind of source."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsed.collector.pool import CollectorPool
from pulsed.config.configuration import load
from pulsed.model.target_store import Target, TargetStore
from tests.reader.dcgmi.processes import script
from tests.support.daemon import environment
from tests.support.waiting import eventually

_HEADER = "#Entity    POWER             \nID          W                \n"


def dmon(gpus: int) -> str:
    return _HEADER + "".join(f"GPU {gpu}      100.000           \n" for gpu in range(gpus))


def page(gpus: int) -> str:
    return "".join(f'DCGM_FI_DEV_POWER_USAGE{{gpu="{gpu}",UUID="GPU-{gpu}"}} 100\n' for gpu in range(gpus))


def record(folder: Path, gpus: int) -> str:
    capture, path = folder / "capture.txt", folder / "record"
    path.unlink(missing_ok=True)
    capture.write_text(dmon(gpus))
    command = ["record", "--source", "replay", "--set", f"source.replay.path={capture}", str(path)]
    subprocess.run(
        [sys.executable, "-m", "pulsed", *command], check=True, capture_output=True, timeout=60, env=environment()
    )
    return path.read_text()


SOURCES: dict[str, Callable[[Path, int], list[str]]] = {}


def source(make: Callable[[Path, int], list[str]]) -> Callable[[Path, int], list[str]]:
    SOURCES[make.__name__] = make
    return make


def replayed(folder: Path, text: str) -> list[str]:
    path = folder / "recording"
    path.write_text(text)
    return ["source.kind=replay", f"source.replay.path={path}", "source.replay.loop=true"]


@source
def capture(folder: Path, gpus: int) -> list[str]:
    return replayed(folder, dmon(gpus))


@source
def saved_page(folder: Path, gpus: int) -> list[str]:
    return replayed(folder, page(gpus))


@source
def recorded(folder: Path, gpus: int) -> list[str]:
    return replayed(folder, record(folder, gpus))


@source
def exporter(folder: Path, gpus: int) -> list[str]:
    path = folder / "page.prom"
    path.write_text(page(gpus))
    return ["source.kind=exporter", f"source.exporter.targets=[{path}]"]


@source
def dcgmi(folder: Path, gpus: int) -> list[str]:
    (folder / "rows").write_text(dmon(gpus))
    path = script(folder, f'[ "$1" = dmon ] || exit 1\ncat {folder / "rows"}\nsleep 1\ncat {folder / "rows"}\nsleep 60')
    return ["source.kind=dcgmi", f"source.dcgmi.path={path}", "source.dcgmi.groups=[core]"]


async def collected(settings: list[str]) -> Target:
    """Collect until there is a tick or an error."""
    store = TargetStore("n")
    pool = CollectorPool(store, lambda layer, seconds: None, lambda tick: None)
    pool.apply(load(None, settings, {}))
    try:
        await eventually(lambda: store.targets[0].samples > 0 or any(store.targets[0].errors.values()))
    finally:
        await pool.stop()
    return store.targets[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_with_more_gpus_than_the_limit_fails(tmp_path: Path, kind: str) -> None:
    good = asyncio.run(collected([*SOURCES[kind](tmp_path, 3), "source.max_gpus=3"]))
    assert good.tick is not None
    assert len(good.tick.devices) == 3
    target = asyncio.run(collected([*SOURCES[kind](tmp_path, 4), "source.max_gpus=3"]))
    assert target.tick is None
    assert target.errors["too_many_gpus"] >= 1, target.error
    assert "more than 3 GPUs and MIG instances" in target.error
    assert target.error.endswith("increase source.max_gpus")


async def test_the_limit_follows_the_configuration(tmp_path: Path) -> None:
    store = TargetStore("n")
    pool = CollectorPool(store, lambda layer, seconds: None, lambda tick: None)
    path = tmp_path / "page.prom"
    path.write_text(page(4))
    settings = ["source.kind=exporter", f"source.exporter.targets=[{path}]", "source.interval=1s"]
    pool.apply(load(None, settings, {}))
    await eventually(lambda: store.targets[0].up)
    pool.apply(load(None, [*settings, "source.max_gpus=3"], {}))
    await eventually(lambda: "more than 3 GPUs" in store.targets[0].error)
    pool.apply(load(None, settings, {}))
    await eventually(lambda: store.targets[0].up)
    await pool.stop()


@pytest.mark.parametrize("kind", ["capture", "dcgmi"])
def test_twenty_thousand_entities(tmp_path: Path, kind: str) -> None:
    target = asyncio.run(collected(SOURCES[kind](tmp_path, 20_000)))
    assert "more than 1024 GPUs and MIG instances" in target.error
