"""The epoch of the host engine, from the processes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.reader.dcgmi.host_engine import engine_epoch


def process(proc: Path, pid: int, name: str, start: int | None) -> None:
    folder = proc / str(pid)
    folder.mkdir()
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
