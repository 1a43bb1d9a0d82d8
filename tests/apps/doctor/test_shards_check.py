"""Shards that overlap, or miss targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsed.apps.doctor.shards_check import RunningShard, compared
from pulsed.reader.exporter.discovery import ShardSettings
from tests.support.daemon import pulsed, serving

TWO = ShardSettings(of=2)


def shard(index: int, *targets: str, of: int = 2) -> RunningShard:
    return RunningShard(f"http://{index}", ShardSettings(index=index, of=of), targets)


@pytest.mark.parametrize(
    ("shards", "problems"),
    [
        ([shard(0, "a"), shard(1, "b")], []),
        ([shard(0, "a"), shard(1, "a", "b")], ["1 targets are read by more than one shard"]),
        ([shard(0, "a")], ["no shard that was asked has the index 1", "1 targets are read by no shard"]),
        ([shard(0, "a"), shard(1, "b", "c")], ["1 targets are not in this configuration"]),
        ([shard(0, "a"), shard(1, "b", of=3)], ["http://1 is one of 3 shards by jump, not of 2"]),
        (
            [shard(0, "a"), shard(0, "a"), shard(1, "b")],
            ["several shards have the index 0", "1 targets are read by more"],
        ),
    ],
)
def test_what_is_wrong(shards: list[RunningShard], problems: list[str]) -> None:
    found = compared(shards, {"a", "b"}, TWO)
    assert len(found.problems) == len(problems)
    assert all(given.startswith(begin) for given, begin in zip(found.problems, problems, strict=True))


@pytest.mark.slow
def test_running_shards(tmp_path: Path) -> None:
    pages = [tmp_path / f"{number}.prom" for number in range(6)]
    for number, page in enumerate(pages):
        page.write_text(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",UUID="GPU-{number}"}} 5\n')
    config = tmp_path / "pulsed.yaml"
    exporter = {"targets": list(map(str, pages)), "shard": {"of": 2}}
    config.write_text(json.dumps({"source": {"kind": "exporter", "exporter": exporter}}))
    arguments = ("--config.file", str(config), "--set")
    with (
        serving(tmp_path, *arguments, "source.exporter.shard.index=0") as one,
        serving(tmp_path, *arguments, "source.exporter.shard.index=1") as other,
    ):
        asked = ("doctor", "--config.file", str(config), "--shards")
        done = pulsed(*asked, f"http://{one.address}", f"http://{other.address}")
        assert "shards          2, 6 targets: each is read once" in done.stdout, done.stdout + done.stderr
        assert done.returncode == 0
        anywhere = pulsed("doctor", "--shards", f"http://{one.address}", f"http://{other.address}")
        assert "shards          2, 6 targets: each is read once" in anywhere.stdout, anywhere.stdout
        assert (anywhere.returncode, "does not work" in anywhere.stdout) == (0, False)
        half = pulsed(*asked, f"http://{one.address}")
        assert "no shard that was asked has the index 1" in half.stdout
        assert half.returncode == 1
