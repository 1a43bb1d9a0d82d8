"""The epoch of the host engine, from the processes of this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pulsed.model.raw_tick import UNKNOWN_EPOCH
from pulsed.reader.dcgmi.discovery import engine_epoch
from pulsed.reader.dcgmi.source import DcgmiSource
from tests.reader.dcgmi.sources import fails, read, settings
from tests.support.standin.fixture import standin
from tests.support.standin.install import Standin

__all__ = ["standin"]


def process(proc: Path, pid: int, name: str, start: int | None) -> None:
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "comm").write_text(f"{name}\n")
    fields = " ".join(["S", *["0"] * 18, str(start), "0"]) if start is not None else "S"
    (folder / "stat").write_text(f"{pid} (a ) b) {fields}\n")


@pytest.mark.parametrize(
    ("processes", "epoch"),
    [
        ((), ""),
        (((7, "bash", 5),), ""),
        (((7, "bash", 5), (9, "nv-hostengine", 1234)), "9/1234"),
        (((8, "nv-hostengine", 1), (9, "nv-hostengine", 2)), ""),
        (((9, "nv-hostengine", None),), ""),
    ],
    ids=["none", "others", "one", "two", "ended"],
)
def test_the_one_visible_process_is_the_epoch(
    tmp_path: Path, processes: tuple[tuple[int, str, int | None], ...], epoch: str
) -> None:
    (tmp_path / "1234").mkdir()
    for pid, name, start in processes:
        process(tmp_path, pid, name, start)
    assert engine_epoch(tmp_path) == epoch


async def test_each_start_of_dmon_finds_the_host_engine(standin: Standin, tmp_path: Path) -> None:
    process(tmp_path, 9, "nv-hostengine", 1)
    source = DcgmiSource(settings(standin.path), proc=tmp_path)
    try:
        first, second = await read(source), await read(source)
        assert first.epoch.engine == "9/1"
        assert second.epoch == first.epoch
        process(tmp_path, 9, "nv-hostengine", 2)
        assert source.pid is not None
        os.kill(source.pid, signal.SIGKILL)
        await fails(source)
        assert (await read(source)).epoch.engine == "9/2"
    finally:
        await source.close()


async def test_the_host_engine_of_another_machine_is_unknown(standin: Standin, tmp_path: Path) -> None:
    process(tmp_path, 9, "nv-hostengine", 1)
    source = DcgmiSource(settings(standin.path, host="localhost"), proc=tmp_path)
    try:
        assert (await read(source)).epoch == UNKNOWN_EPOCH
    finally:
        await source.close()
