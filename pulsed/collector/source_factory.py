"""Makes the sources of the configuration, whatever their kinds are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from pulsed.collector.this_host import api_client, discovers_exporters, node_name
from pulsed.compute.products import C2C_LINKS
from pulsed.config.configuration import Config
from pulsed.model.target_store import Target, stale_seconds
from pulsed.reader.settings import CANDIDATES, STALE_INTERVALS
from pulsed.reader.source import Source, SourceRequest


def open_sources(config: Config, kind: str | None = None, *, hurried: bool = False) -> Sequence[Source]:
    """Return the sources of the configuration, one per target. Nothing is read yet.

    Args:
        kind: instead of `source.kind`.
        hurried: for commands: start with all targets at once, instead of spreading many over
            the interval, and play a recording as fast as it can be read.

    Raises `ConfigError` if a target is neither a URL nor a path, or the file of a secret cannot be read.
    """
    kind = kind or config.source.kind
    if kind == "auto" and len(config.source.exporter.targets) > 1:
        kind = "exporter"
    section = config.source.section(kind)
    if section is None:
        from pulsed.reader.auto import AutoSource

        return [AutoSource([partial(_first_source, config, candidate, hurried) for candidate in CANDIDATES])]
    request = SourceRequest(node_name(config), hurried, [link.pattern for link in C2C_LINKS])
    module = import_module(f"{type(section).__module__}.source")  # at the first use: some are heavy
    completed = section.completed(config.source.interval, config.source.max_gpus)
    sources: Sequence[Source] = module.open_sources(completed, request)
    if kind == "exporter" and config.source.exporter.own_node:
        from pulsed.collector.exporter_pages import OwnNodeExporter

        return [OwnNodeExporter(source, request.node) for source in sources]
    return sources


def _first_source(config: Config, kind: str, hurried: bool) -> Source:
    return open_sources(config, kind, hurried=hurried)[0]


async def found_sources(config: Config, kind: str | None = None, *, hurried: bool = True) -> Sequence[Source]:
    """Return the sources for a command, which reads the exporters that are there when it starts.

    Args:
        kind: instead of `source.kind`, to check whether it works.
        hurried: as for `open_sources`.

    Raises:
        ConfigError: a source cannot be made.
    """
    if kind not in (None, "exporter") or not discovers_exporters(config):
        return open_sources(config, kind, hurried=hurried)
    from pulsed.collector.exporter_discovery import ExporterDiscovery

    client = api_client(config)
    try:
        discovery = ExporterDiscovery(config, client)
        discovery.start()
        try:
            await discovery.settle()
        finally:
            await discovery.stop()
        return discovery.sources
    finally:
        await client.close()


def target_of(source: Source, config: Config) -> Target:
    """Return the target of a source."""
    stale_after, intervals = config.source.stale_after, float(STALE_INTERVALS)
    if source.kind == "replay" and config.source.replay.speed:
        intervals /= config.source.replay.speed
    errors = {kind.reason: 0 for kind in source.failures}
    return Target(
        source.kind,
        source.target,
        source.interval,
        stale_seconds(intervals, source.interval) if stale_after is None else stale_after,
        errors=errors,
        stale_intervals=intervals if stale_after is None else None,
    )
