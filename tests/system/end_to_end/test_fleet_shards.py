"""A small edition of `tools.bench.bench_shards`: a fleet in two daemons, scraped by a real Prometheus."""

from __future__ import annotations

from pathlib import Path

from tools.bench.bench_shards import measured


def test_no_gpu_is_lost_or_there_twice(tmp_path: Path) -> None:
    """Also while a shard is killed and comes back, the list changes, and an exporter hangs: it would raise."""
    *_, last = measured(tmp_path, 20, 1.0)
    assert last.name == "a fifth of the list is back"
