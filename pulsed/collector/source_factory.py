"""Makes sources from the configuration: the only module that imports every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pulsed.collector.connections import api_client, exporter_settings
from pulsed.collector.this_host import discovers_exporters, node_name
from pulsed.configuration import Config
from pulsed.errors import ProfilingHeld
from pulsed.model.target_store import Target
from pulsed.reader.settings import STALE_INTERVALS
from pulsed.reader.source import Source
from pulsed.translate.fields import fields_to_watch, superchip_fields


def open_sources(config: Config, *, hurried: bool = False) -> Sequence[Source]:
    """Return the sources of the configuration, one per target. Nothing is read yet.

    Args:
        hurried: for commands: start with all targets at once, instead of spreading many over
            the interval, and play a recording as fast as it can be read.

    Raises `ConfigError` if a target is no URL and no path, or a secret's file cannot be read.
    """
    return _KINDS[config.source.kind](config, hurried)


async def found_sources(config: Config, kind: str | None = None, *, hurried: bool = True) -> Sequence[Source]:
    """Return the sources for a command, which reads the exporters that are there when it starts.

    Args:
        kind: instead of `source.kind`, to check whether it works.
        hurried: as for `open_sources`.

    Raises:
        ConfigError: a source cannot be made.
    """
    if not discovers_exporters(config) or kind not in (None, "exporter"):
        return _KINDS[kind or config.source.kind](config, hurried)
    from pulsed.collector.exporter_discovery import ExporterDiscovery

    client = api_client(config)
    discovery = ExporterDiscovery(config, client)
    discovery.start()
    try:
        await discovery.settle()
    finally:
        await discovery.stop()
        await client.close()
    return discovery.sources


def target_of(source: Source, config: Config) -> Target:
    """Return the target of a source."""
    given, intervals = config.source.stale_after, float(STALE_INTERVALS)
    if source.kind == "replay" and config.source.replay.speed:
        intervals /= config.source.replay.speed
    errors = {kind.reason: 0 for kind in source.failures}
    return Target(
        source.kind,
        source.target,
        source.interval,
        intervals * source.interval if given is None else given,
        errors=errors,
        stale_intervals=intervals if given is None else None,
    )


def _exporter(config: Config, hurried: bool) -> Sequence[Source]:
    from pulsed.reader.exporter.scraper import Scraper
    from pulsed.reader.exporter.source import ExporterSource, exporter_sources

    targets, settings = config.source.exporter.targets, exporter_settings(config)
    if not hurried:
        sources = exporter_sources(targets, settings)
    else:
        scraper = Scraper(settings)
        sources = [ExporterSource(target, settings, scraper) for target in targets]
    if not config.source.exporter.own_node:
        return sources
    from pulsed.collector.exporter_pages import OwnNodeExporter

    return [OwnNodeExporter(source, node_name(config)) for source in sources]


def _auto(config: Config, hurried: bool) -> Sequence[Source]:
    from pulsed.reader.auto import AutoSource, SourceCandidate

    if len(config.source.exporter.targets) > 1:
        return _exporter(config, hurried)
    return [
        AutoSource(
            [
                SourceCandidate(lambda: _dcgmi(config, hurried)[0], _lacks_profiling),
                SourceCandidate(lambda: _exporter(config, hurried)[0]),
                SourceCandidate(lambda: _nvml(config, hurried)[0], lambda source: True),  # DCGM has more
            ]
        )
    ]


def _lacks_profiling(source: Source) -> bool:
    """Return whether another process, most likely a dcgm-exporter, holds the profiling hardware."""
    from pulsed.reader.dcgmi.source import DcgmiSource

    return isinstance(source, DcgmiSource) and ProfilingHeld.reason in source.lost


def _dcgmi(config: Config, hurried: bool) -> Sequence[Source]:
    from pulsed.compute.products import C2C_LINKS
    from pulsed.reader.dcgmi.source import DcgmiSource

    given, limit = config.source.dcgmi, config.source.max_gpus
    fast, slow = fields_to_watch(given.groups, given.fields)
    by_model = {link.pattern: superchip_fields(given.groups) for link in C2C_LINKS}
    interval = config.source.seconds() or given.interval
    return [DcgmiSource(replace(given, fast=fast, by_model=by_model, slow=slow, interval=interval, max_gpus=limit))]


def _nvml(config: Config, hurried: bool) -> Sequence[Source]:
    from pulsed.reader.nvml.source import NvmlSource

    given = config.source.nvml
    interval = config.source.seconds() or given.interval
    return [NvmlSource(replace(given, interval=interval, max_gpus=config.source.max_gpus))]


def _replay(config: Config, hurried: bool) -> Sequence[Source]:
    from pulsed.reader.replay.source import replay_sources

    given, speed = config.source.replay, 0.0 if hurried else config.source.replay.speed
    interval, limit = config.source.seconds(), config.source.max_gpus
    return replay_sources(replace(given, speed=speed, interval=interval, max_gpus=limit))


def _demo(config: Config, hurried: bool) -> Sequence[Source]:
    from pulsed.reader.demo.source import DemoSource

    return [DemoSource(config.source.demo.seed, config.source.seconds() or 1.0, node_name(config))]


_KINDS: Mapping[str, Callable[[Config, bool], Sequence[Source]]] = {
    "auto": _auto,
    "dcgmi": _dcgmi,
    "exporter": _exporter,
    "nvml": _nvml,
    "replay": _replay,
    "demo": _demo,
}
"""One line per kind of source; each imports its module when it is used, because some are heavy."""
