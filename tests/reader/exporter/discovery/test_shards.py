"""Every target is in one shard, the same in every process."""

from __future__ import annotations

import pytest

from pulsed.config.configuration import load
from pulsed.errors import ConfigError
from pulsed.reader.exporter.discovery import Partition, ShardSettings, shard_key, shard_of

TARGETS = [f"gpu-{number:04}:9400" for number in range(1250)]


def test_hashmod_is_that_of_prometheus() -> None:
    """Prometheus 2.42 gives this for `hashmod` of `__address__` with modulus 4."""
    assert shard_of("gpu-0001:9400", 4, "hashmod") == 1


@pytest.mark.parametrize(("by", "moved"), [("jump", 0.25), ("hashmod", 0.85)])
def test_one_more_shard_moves_few_targets(by: Partition, moved: float) -> None:
    before, after = ([shard_of(target, shards, by) for target in TARGETS] for shards in (4, 5))
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert 0.15 < len(changed) / len(TARGETS) < moved
    if by == "jump":
        assert {new for _, new in changed} == {4}
    assert all(200 < before.count(shard) < 420 for shard in range(4))


@pytest.mark.parametrize("by", ["jump", "hashmod"])
def test_shards_neither_overlap_nor_miss_a_target(by: Partition) -> None:
    shards = [ShardSettings(index=index, of=3, by=by) for index in range(3)]
    assert all(sum(shard.has(target) for shard in shards) == 1 for target in TARGETS)


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("http://gpu-1:9400/metrics", "gpu-1:9400"),
        ("https://me:secret@gpu-1/metrics?a=b", "gpu-1"),
        ("http://[fd00::1]:9400/", "[fd00::1]:9400"),
        ("/var/lib/page.prom", "/var/lib/page.prom"),
    ],
)
def test_a_target_is_assigned_by_host_and_port(target: str, key: str) -> None:
    assert shard_key(target) == key


@pytest.mark.parametrize(("given", "index"), [("0", 0), ("pulsed-fleet-1", 1), ("1", 1)])
def test_the_index_is_a_number_or_the_name_of_a_pod(given: str, index: int) -> None:
    config = load(None, [f"source.exporter.shard.index={given}", "source.exporter.shard.of=2"], {})
    assert config.source.exporter.shard.index == index


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (["of=2", "index=pulsed-2"], "index: is 2; allowed: 0..1"),
        (["of=2", "index=pulsed"], "a name that ends in - and such a number"),
    ],
)
def test_an_index_that_cannot_be(settings: list[str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        load(None, [f"source.exporter.shard.{each}" for each in settings], {})


def test_a_daemon_needs_the_index() -> None:
    """The file of all shards has none: other commands take it."""
    config = load(None, ["source.exporter.shard.of=2"], {})
    with pytest.raises(ConfigError, match=r"shard\.index is missing"):
        config.source.exporter.shard.check_index()
