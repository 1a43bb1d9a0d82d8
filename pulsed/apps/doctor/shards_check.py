"""Whether the running shards of a fleet read every target, and each once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pulsed.apps.daemon_client import ClientSettings, DaemonClient
from pulsed.collector.source_factory import found_sources
from pulsed.config.configuration import Config
from pulsed.errors import PulsedError
from pulsed.reader.exporter.discovery import ShardSettings

SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RunningShard:
    """A running daemon.

    Attributes:
        shard: its setting `source.exporter.shard`.
        targets: that it reads.
        error: why it could not be asked; empty if it answered.
    """

    url: str
    shard: ShardSettings = field(default_factory=ShardSettings)
    targets: Sequence[str] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class ShardsCheck:
    """What the shards read, against the targets of the configuration.

    Attributes:
        targets: number of targets of the configuration, all shards together.
        repeated: targets that several shards read.
        missed: targets that no shard reads.
        problems: what is wrong, one sentence each; empty if nothing is.
    """

    shards: Sequence[RunningShard]
    targets: int
    repeated: Sequence[str]
    missed: Sequence[str]
    problems: Sequence[str]


async def check_shards(config: Config, urls: Sequence[str]) -> ShardsCheck:
    """Compare the shards at these URLs with the targets that all of them should read.

    A configuration without shards has no such list: then the shards are compared with each other.
    """
    shards = [await asyncio.to_thread(_running, url) for url in urls]
    if config.source.exporter.shard.of == 1:
        first = next((each.shard for each in shards if not each.error), ShardSettings())
        return compared(shards, {target for each in shards for target in each.targets}, first)
    exporter = config.source.exporter
    everything = replace(config, source=replace(config.source, exporter=replace(exporter, shard=ShardSettings())))
    sources = await found_sources(everything)
    expected = {source.target for source in sources}
    for source in sources:
        await source.close()
    return compared(shards, expected, exporter.shard)


def compared(shards: Sequence[RunningShard], expected: set[str], configured: ShardSettings) -> ShardsCheck:
    """Return what several shards read, against what they should."""
    readers: dict[str, int] = {}
    for shard in shards:
        for target in shard.targets:
            readers[target] = readers.get(target, 0) + 1
    repeated = sorted(target for target, number in readers.items() if number > 1)
    missed = sorted(expected - readers.keys())
    problems = list(_problems(shards, configured))
    if repeated:
        problems.append(f"{len(repeated)} targets are read by more than one shard")
    if missed:
        problems.append(f"{len(missed)} targets are read by no shard")
    if unknown := readers.keys() - expected:
        problems.append(f"{len(unknown)} targets are not in this configuration; the shards may have other lists")
    return ShardsCheck(shards, len(expected), repeated, missed, problems)


def _problems(shards: Sequence[RunningShard], configured: ShardSettings) -> Iterator[str]:
    for running in shards:
        shard = running.shard
        if running.error:
            yield running.error
        elif (shard.of, shard.by) != (configured.of, configured.by):
            yield (
                f"{running.url} is one of {shard.of} shards by {shard.by}, not of {configured.of} by {configured.by}; "
                "set the same source.exporter.shard.of and .by everywhere"
            )
    indexes = [running.shard.index for running in shards if not running.error]
    if twice := sorted({index for index in indexes if index is not None and indexes.count(index) > 1}):
        yield f"several shards have the index {', '.join(map(str, twice))}"
    if lacking := sorted(set(range(configured.of)) - set(indexes)):
        yield f"no shard that was asked has the index {', '.join(map(str, lacking))}"


def _running(url: str) -> RunningShard:
    try:
        client = DaemonClient(url, ClientSettings(SECONDS))
        section = client.json("/config")["source"]["exporter"]["shard"]
        targets = [str(source["target"]) for source in client.json("/gpus?view=summary&fields=power_watts")["sources"]]
        shard = ShardSettings(index=section["index"], of=section["of"], by=section["by"])
    except PulsedError as error:
        return RunningShard(url, error=str(error))
    except (KeyError, TypeError):
        return RunningShard(url, error=f"{url} is not a pulsed with shards. Upgrade it")
    return RunningShard(client.address, shard, targets)
