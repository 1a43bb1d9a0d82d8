"""Checks sources: whether they work here, their data, and whether the owners of GPUs are known.

Changes nothing; every source is closed again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import NamedTuple

from pulsed.collector.attribution_sources import resolves_workloads
from pulsed.collector.collector import Collector, Pipeline, PipelineSettings
from pulsed.collector.source_factory import found_sources
from pulsed.collector.this_host import api_client, node_name
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import Config
from pulsed.errors import AttributionError, ConfigError, ProfilingHeld, SourceError
from pulsed.kubernetes.api_client import ApiClient, KubernetesError, ResourceNotFound
from pulsed.kubernetes.objects import Controller, JsonObject, ObjectKind
from pulsed.kubernetes.workload_resolver import object_path
from pulsed.model.target_store import Target
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING
from pulsed.owners.attribution import LABELS, READ_SECONDS
from pulsed.owners.attribution.mapping_directory import MappingDirectory
from pulsed.owners.attribution.pod_workloads import NAME
from pulsed.owners.attribution.source import NUMBERS_HINT, AttributionSource, numbered_otherwise
from pulsed.reader.dcgmi.child import find
from pulsed.reader.dcgmi.discovery import described, versions
from pulsed.reader.dcgmi.source import DcgmiSource
from pulsed.reader.nvml.source import NvmlSource
from pulsed.reader.settings import CANDIDATES
from pulsed.reader.source import Source
from pulsed.translate.fields import ExporterVersion, in_words, versions_of

TICKS = 4
"""Most ticks that are awaited for profiling counters, which need one or two samples to begin with."""

LIVE_SECONDS = 0.5
"""Interval of these samples, shorter than the daemon's."""

PATIENCE_SECONDS = 30.0
"""Timeout for one source."""

VERSION_SECONDS = 8.0

MORE_PAGES = 2
"""Pages of an exporter that are read to see whether its address leads to several exporters."""


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """Result of reading one source.

    Attributes:
        error: why it does not work, with the remedy; empty if it does.
        version: of the software behind it; empty if unknown.
        exporter_versions: the oldest and the newest dcgm-exporter version that can have rendered the page; None if
            dcgm-exporter did not render it.
        tick: the last one that it delivered.
        lost: requested DCGM fields that it does not deliver, by reason.
        why: the error messages by the same reasons, with the remedy.
        without_counters: why the driver gives no profiling counters: messages by reason, with the remedy.
        requested: DCGM fields that were requested, from these GPUs.
        pending: requested fields without an answer in time.
        alternating_hosts: hosts that the pages of its address name in turns; empty for none.
        flickering_owners: GPUs whose owners some of its pages name and others do not.
    """

    kind: str
    target: str
    error: str = ""
    version: str = ""
    exporter_versions: tuple[ExporterVersion, ExporterVersion] | None = None
    tick: Tick | None = None
    lost: Mapping[str, Sequence[int]] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    without_counters: Mapping[str, str] = field(default_factory=dict)
    requested: frozenset[int] = frozenset()
    pending: frozenset[int] = frozenset()
    alternating_hosts: tuple[str, ...] = ()
    flickering_owners: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether it can be served from."""
        return self.tick is not None

    @property
    def is_blind(self) -> bool:
        """Whether it names GPUs and has no value of any."""
        return self.tick is not None and all(row.reading == NOTHING for row in self.tick.gpus)

    @property
    def limited(self) -> bool:
        """Whether another process, most likely a dcgm-exporter, holds the profiling hardware and so has more fields."""
        return ProfilingHeld.reason in self.lost


class SourceChoice(NamedTuple):
    """The sources that `pulsed serve` would read: more than one only for several exporters."""

    probes: tuple[SourceCheck, ...]
    why: str


async def probe_all(config: Config, exporter: ExporterVersion | None) -> list[SourceCheck]:
    """Check every source that the configuration allows, concurrently; errors of sources are not raised.

    Args:
        config: for the kind `auto` all candidates are checked.
        exporter: version of the dcgm-exporters; None to conclude it from their pages.
    """
    kinds = [config.source.kind]
    if config.source.kind == "auto":  # several exporters are read without trying the host engine
        kinds = ["exporter"] if len(config.source.exporter.targets) > 1 else list(CANDIDATES)
    return [
        source
        for kind in await asyncio.gather(*(_probe_kind(kind, config, exporter) for kind in kinds))
        for source in kind
    ]


async def _probe_kind(kind: str, config: Config, exporter: ExporterVersion | None) -> list[SourceCheck]:
    if kind in ("dcgmi", "nvml"):
        config = replace(config, source=replace(config.source, interval=LIVE_SECONDS))
    try:
        sources = await found_sources(config, kind)
    except ConfigError as error:
        return [SourceCheck(kind, "", str(error))]
    checks = list(await asyncio.gather(*(probe(source, config, exporter=exporter) for source in sources)))
    if kind != "exporter" or not all(check.works for check in checks):
        return checks
    pages = [[check] for check in checks]
    for _ in range(MORE_PAGES):  # each by a connection of its own: a balanced address leads it elsewhere
        again = await asyncio.gather(
            *(probe(each, config, exporter=exporter) for each in await found_sources(config, kind))
        )
        for of_target, check in zip(pages, again, strict=False):
            of_target.append(check)
    return [
        replace(each[0], alternating_hosts=_alternating(map(_hosts, each)), flickering_owners=_flickering(each))
        for each in pages
    ]


def _hosts(check: SourceCheck) -> frozenset[str]:
    return frozenset(device.entity.node for device in check.tick.devices) if check.tick else frozenset()


def _flickering(pages: Sequence[SourceCheck]) -> tuple[str, ...]:
    """Return the GPUs and MIG instances that have owners on some pages of an exporter only."""
    named: dict[str, set[bool]] = {}
    for row in (row for page in pages if page.tick for row in page.tick.gpus):
        named.setdefault(row.device.entity.name, set()).add(bool(row.owners))
    return tuple(name for name, answers in named.items() if len(answers) > 1)


def _alternating(pages: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Return the hosts of the pages of one address if some pages name none of the hosts of others."""
    named = [hosts for hosts in pages if hosts]
    others = any(one.isdisjoint(other) for one in named for other in named)
    return tuple(sorted(frozenset().union(*named))) if others else ()


async def probe(
    source: Source, config: Config, patience: float = PATIENCE_SECONDS, exporter: ExporterVersion | None = None
) -> SourceCheck:
    """Check one source; its errors are not raised.

    Args:
        source: closed afterwards.
        patience: timeout in seconds.
        exporter: version of the dcgm-exporter; None to conclude it from its page.
    """
    target = Target(source.kind, source.target, source.interval, inf)
    version = ""
    try:
        if source.kind == "dcgmi" and not config.source.dcgmi.host:  # `dcgmi -v` has the local engine's version only
            version = described(await versions(find(config.source.dcgmi.path), VERSION_SECONDS))
        pipeline = Pipeline(
            GpuTable(config.compute_settings()),
            node_name(config),
            settings=PipelineSettings(max_gpus=config.source.max_gpus, exporter_pods=config.attribution.exporter_pods),
        )
        until = partial(_is_complete, source)
        async with asyncio.timeout(patience):
            await Collector(source, pipeline, target, until=until, is_logged=False).run()
    except SourceError as failure:
        target.error = str(failure)
        await source.close()
    except TimeoutError:  # nothing, or not everything
        target.error = f"{source.target} delivered nothing for {patience:g} s. See whether it hangs"
    lost, why = (source.lost, source.why) if isinstance(source, DcgmiSource) else ({}, {})
    requested = source.requested if isinstance(source, DcgmiSource) else frozenset()
    errors = dict(source.profiling_errors) if isinstance(source, NvmlSource) else {}
    pending = frozenset(source.pending)
    tick = target.tick
    if tick is None:
        return SourceCheck(source.kind, source.target, target.error, version)
    exporters = None
    if source.kind in ("exporter", "replay") and tick.layout.dialect == "exporter":
        exporters = versions_of(tick.layout)
    if exporters:
        exporters = (exporter, exporter) if exporter else exporters
        version = f"dcgm-exporter {in_words(*exporters)}"
    return SourceCheck(source.kind, source.target, "", version, exporters, tick, lost, why, errors, requested, pending)


def _is_complete(source: Source, target: Target) -> bool:
    """Return whether the source has delivered what it can, or failed."""
    if target.tick is None or not target.up or target.kind not in ("dcgmi", "nvml"):
        return True
    is_covered = all(row.result.real_utilization.coverage == 1 for row in target.tick.gpus)
    return not source.pending and (is_covered or target.samples >= TICKS)


def choose(probes: Sequence[SourceCheck], kind: str) -> SourceChoice | None:
    """Return what `source.kind` would read; None if nothing works.

    Args:
        probes: checks of the candidates, the preferred one first.
    """
    working = [probe for probe in probes if probe.works]
    if not working:
        return None
    if kind != "auto":
        return SourceChoice(tuple(working), f"source.kind is {kind}")
    if len({probe.kind for probe in probes}) == 1:
        return SourceChoice(tuple(working), "there are several source.exporter.targets")
    first = next((probe for probe in working if not probe.limited), working[0])
    if first.limited:
        why = "nothing else works, though the profiling counters are held by another process"
    elif first is probes[0]:
        why = "it works, and auto tries it first"
    elif probes[0].works:
        why = (
            f"the profiling counters are held by another process, so {first.kind} has more fields than {probes[0].kind}"
        )
    else:
        why = f"it works, and {probes[0].kind} does not"
    return SourceChoice((first,), why)


@dataclass(frozen=True, slots=True)
class AttributionCheck:
    """Result of one look at an attribution source.

    Attributes:
        source: its name.
        works: whether it can be read; False too where this host does not have it.
        devices: number of GPUs and MIG instances that have an owner.
        note: the error, or how to have the source; if it works, what else was found.
    """

    source: str
    works: bool
    devices: int = 0
    note: str = ""


async def check_attribution(
    sources: Iterable[AttributionSource], probes: Iterable[SourceCheck]
) -> Sequence[AttributionCheck]:
    """Look at the sources of this host once, and at the labels of the pages that were read."""
    probes = list(probes)
    owned = sum(bool(row.owners) for probe in probes if probe.tick for row in probe.tick.gpus)
    note = (
        "" if owned else "no pod or job is on the pages; dcgm-exporter writes them with DCGM_EXPORTER_KUBERNETES=true"
    )
    devices = [row.device for probe in probes if probe.tick for row in probe.tick.gpus]
    numbered = next(filter(None, map(numbered_otherwise, devices)), "")
    checks = await asyncio.gather(*[_check(source, numbered) for source in sources])
    return [*checks, AttributionCheck(LABELS, owned > 0, owned, note)]


async def _check(source: AttributionSource, numbered: str) -> AttributionCheck:
    try:
        async with asyncio.timeout(READ_SECONDS):
            claims = await source.read()
            ended = await source.ended_jobs() if isinstance(source, MappingDirectory) and claims else []
    except AttributionError as error:
        return AttributionCheck(source.name, False, note=str(error))
    except TimeoutError:
        return AttributionCheck(source.name, False, note=f"it did not answer within {READ_SECONDS:.0f} s")
    finally:
        await source.close()
    if claims is None:
        return AttributionCheck(source.name, False, note=source.absence)
    names = ", ".join(ended)
    notes = [f"these jobs have ended and their files remain, see whether the epilog runs: {names}"] if ended else []
    notes += [f"{numbered}: {NUMBERS_HINT}"] if claims.has_numbers and numbered else []
    return AttributionCheck(source.name, True, len(claims.owners), "; ".join(notes))


_REQUESTED = (ObjectKind("apps", "ReplicaSet"), ObjectKind("batch", "Job"))
_ABSENT = "pulsed-doctor"
"""Name of objects that do not exist; who may not read them gets another answer."""


async def check_workloads(config: Config) -> Sequence[AttributionCheck]:
    """Request the pods of this node and what may control them; nothing where workloads are not resolved."""
    if not resolves_workloads(config):
        return ()
    try:
        client = api_client(config)
        try:
            pods = await _count_pods(client, node_name(config))
        finally:
            await client.close()
    except (ConfigError, KubernetesError) as error:
        return (AttributionCheck(NAME, False, note=str(error)),)
    if not pods:
        note = f"there is no pod on node {node_name(config)}; see whether that is the node's name in Kubernetes"
        return (AttributionCheck(NAME, False, note=note),)
    return (AttributionCheck(NAME, True, note=f"pods on {node_name(config)}: {pods}"),)


async def _count_pods(client: ApiClient, node: str) -> int:
    """Return the number of pods on a node.

    Raises:
        KubernetesError: something cannot be read.
    """
    pods: list[JsonObject] = []
    await client.list("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"}, pods.append)
    for kind in _REQUESTED:
        with contextlib.suppress(ResourceNotFound):
            await client.get(object_path("default", Controller(kind, "v1", _ABSENT, "")))
    return len(pods)
