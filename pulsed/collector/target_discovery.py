"""The targets of lists (files, HTTP, DNS), each a source; sources change as the lists do."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pulsed.background_tasks import BackgroundTasks
from pulsed.config.configuration import Config
from pulsed.errors import ExporterNotFound, SourceError, TargetListError
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import DiscoveryList
from pulsed.reader.exporter.discovery import GONE_SECONDS
from pulsed.reader.exporter.discovery.target_groups import ListedTarget, TargetGroup, listed_targets
from pulsed.reader.exporter.discovery.target_lists import DnsLists, FileLists, HttpList, TargetLists
from pulsed.reader.exporter.source import ExporterSource, Scraper, phases
from pulsed.reader.source import Source

if TYPE_CHECKING:
    from pulsed.kubernetes.exporter_pods import ExporterEndpoint

log = logging.getLogger(__name__)

_MAX_PROBLEMS = 8

MAX_TARGETS = 1024
"""Targets that a process reads, 25 kB of memory each. With more, targets of the same list are left out."""


class Discovery:
    """Finds targets while pulsed runs.

    Args:
        changed: called when `sources` are others than before.

    Attributes:
        sources: one per target, the same object as long as its address is; one that fails with the reason if there is
            none.
        targets: of lists, by URL.
        found_by: what pods were found by; empty: nothing to keep for the next run.
        endpoints: the pods.
    """

    sources: tuple[Source, ...] = ()
    targets: Mapping[str, ListedTarget] = {}
    found_by = ""
    endpoints: tuple[ExporterEndpoint, ...] = ()

    def __init__(self, config: Config, changed: Callable[[], None]) -> None:
        self._changed, self._shard = changed, config.source.exporter.shard
        self._settings = config.source.scrapes()
        self._scraper = Scraper(self._settings)
        self._scraper.retain()
        self._read_at: dict[str, float] = {}
        self._tasks = BackgroundTasks()
        self._settled = asyncio.Event()

    @property
    @abstractmethod
    def lists(self) -> Sequence[DiscoveryList]:
        """How reading the lists goes."""

    @abstractmethod
    def start(self) -> None:
        """Begin to look."""

    async def settle(self) -> None:
        """Wait until the first look has ended, successfully or not."""
        await self._settled.wait()

    async def stop(self) -> None:
        """End looking; `sources` can still be read."""
        await self._tasks.stop()
        await self._scraper.release()

    def reload(self) -> None:
        """Use what is found as it is, also if much is missing."""

    @abstractmethod
    def problem(self) -> ExporterNotFound:
        """Return why there is no target."""

    def _with_times(self, kind: str, states: Mapping[str, bool]) -> Sequence[DiscoveryList]:
        """Return lists of a kind, given whether they can be read now, by name."""
        self._read_at |= {name: time.time() for name, is_up in states.items() if is_up}
        return [DiscoveryList(kind, name, is_up, self._read_at.get(name)) for name, is_up in states.items()]


class MissingExporter(Source):
    """In place of exporters that are not there: every read fails with the reason."""

    kind = "exporter"

    def __init__(
        self, target: str, interval: float, discovery: Discovery, failures: tuple[type[SourceError], ...]
    ) -> None:
        self.target, self.interval, self.failures, self._discovery = target, interval, failures, discovery
        self._is_first = True

    async def read(self) -> RawTick:
        """Raise `ExporterNotFound` once discovery has found none, then once an interval."""
        if not self._is_first:
            await asyncio.sleep(self.interval)
        await self._discovery.settle()
        self._is_first = False
        if self not in self._discovery.sources:
            await asyncio.Event().wait()  # until this read is cancelled: what was found is about to take its place
        raise self._discovery.problem()


class TargetDiscovery(Discovery):
    """Reads the lists of the configuration regularly. A list that cannot be read changes nothing.

    Args:
        targets: targets that were found before, until the first look.

    Attributes:
        sources: those of this process's shard.
        targets: all targets by URL, also of other shards.
    """

    lists: Sequence[DiscoveryList] = ()

    def __init__(
        self,
        config: Config,
        changed: Callable[[], None] = lambda: None,
        targets: Mapping[str, ListedTarget] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, changed)
        self._lists, self._kind, self._clock = _lists(config), config.source.exporter.discovery, clock
        self._groups: dict[str, Sequence[TargetGroup]] = {}
        self._errors: tuple[str, ...] = ()
        self._problems: tuple[str, ...] = ()
        self._listed: Mapping[str, ListedTarget] = targets or {}
        self._missing: dict[str, tuple[ListedTarget, float]] = {}
        self._is_reloaded = False
        self._sources: dict[str, tuple[ListedTarget, ExporterSource]] = {}
        self.targets = self._listed
        self._set_sources()

    def start(self) -> None:
        """Begin to read the lists."""
        self._tasks.start("discovery", self._run, self._fail)

    async def stop(self) -> None:
        """End reading; `sources` can still be read."""
        await super().stop()
        await self._lists.close()

    def reload(self) -> None:
        """Use the lists as they are, also if half of the targets are missing."""
        self._is_reloaded = True
        if self._settled.is_set():
            self._update()

    def problem(self) -> ExporterNotFound:
        """Return why there is no target."""
        if reasons := [*self._errors, *self._problems]:
            return ExporterNotFound(f"there is no target: {'; '.join(reasons[:_MAX_PROBLEMS])}")
        if self.targets:
            shard = self._shard
            return ExporterNotFound(f"shard {shard.index} of {shard.of} has none of the {len(self.targets)} targets")
        return ExporterNotFound(f"the lists of source.exporter.{self._kind} have no target", "Add targets to them")

    def _fail(self) -> None:
        """Show an error of pulsed itself: the lists are not up, and their targets are kept."""
        self._errors = ("internal error; see the log",)
        lists = self.lists or [DiscoveryList(self._kind, self._kind, False, None)]
        self.lists = [each._replace(is_up=False) for each in lists]
        self._settled.set()

    async def _run(self) -> None:
        while True:
            results = await self._lists.read()
            failed = {name: each for name, each in results.items() if isinstance(each, TargetListError)}
            self._groups = {
                name: self._groups.get(name, ()) if isinstance(each, TargetListError) else each
                for name, each in results.items()
            }
            self.lists = self._with_times(self._kind, {name: name not in failed for name in results})
            errors = tuple(map(str, failed.values()))
            if errors != self._errors:
                self._errors = errors
                if errors:
                    log.warning(
                        "lists of targets cannot be read; their targets are kept",
                        extra={"errors": "; ".join(errors[:_MAX_PROBLEMS])},
                    )
                else:
                    log.info("lists of targets can be read again")
            # A list that was never read may have no targets but the known ones.
            if not failed or all(self._groups.values()) or not self._listed:
                self._update()
            self._settled.set()
            await asyncio.sleep(self._lists.interval)

    def _update(self) -> None:
        problems: list[str] = []
        groups = [group for groups_of_list in self._groups.values() for group in groups_of_list]
        listed: dict[str, ListedTarget] = {}
        for target in listed_targets(groups, problems):
            listed.setdefault(target.url, target)
        own = sum(self._shard.has(target.address) for target in listed.values())
        if own > MAX_TARGETS:
            problems.append(f"of {own} targets {MAX_TARGETS} are read; divide them by source.exporter.shard")
        if tuple(problems) != self._problems:
            self._problems = tuple(problems)
            if problems:
                more = "; ".join(dict.fromkeys(problems[:_MAX_PROBLEMS]))
                log.warning("a part of the lists of targets is not used", extra={"problems": more})
        self._keep_missing(listed)
        self._listed = listed
        targets = {url: target for url, (target, _) in self._missing.items()} | listed
        if targets != self.targets:
            self.targets = targets
            log.info("targets of the lists", extra={"targets": len(targets), "kept": len(self._missing)})
            self._set_sources()
            self._changed()

    def _keep_missing(self, listed: Mapping[str, ListedTarget]) -> None:
        """Keep the targets of before if half of them are missing, each until it has not answered for long."""
        now = self._clock()
        gone = self._listed.keys() - listed.keys()
        if gone and 2 * len(gone) >= len(self._listed) and not self._is_reloaded:
            self._missing |= {url: (self._listed[url], now) for url in gone if url in self._sources}
            log.warning(
                "half of the targets or more are missing from the lists; those that answer are kept until a reload",
                extra={"missing": len(gone), "before": len(self._listed)},
            )
        self._missing = {
            url: (target, since)
            for url, (target, since) in self._missing.items()
            if url not in listed and not self._is_reloaded and now - max(since, self._answered(url)) < GONE_SECONDS
        }
        self._is_reloaded = False

    def _answered(self, url: str) -> float:
        """Return when the source of a target had its last page."""
        source = self._sources[url][1] if url in self._sources else None
        return -GONE_SECONDS if source is None or source.answered is None else source.answered

    def _set_sources(self) -> None:
        own = [target for target in self.targets.values() if self._shard.has(target.address)][:MAX_TARGETS]
        delays = dict(zip(self.targets, phases(list(self.targets)), strict=True))
        before, self._sources = self._sources, {}
        for target in own:
            entry = before.get(target.url)
            if entry is None or (entry[0].interval, entry[0].timeout) != (target.interval, target.timeout):
                self._sources[target.url] = target, self._source(target, delays[target.url])
            else:
                entry[1].labels = target.labels
                self._sources[target.url] = target, entry[1]
        self.sources = tuple(source for _, source in self._sources.values()) or (
            MissingExporter(self._kind, self._settings.interval, self, (*ExporterSource.failures, ExporterNotFound)),
        )

    def _source(self, target: ListedTarget, delay: float) -> ExporterSource:
        settings = self._settings
        if target.interval is not None or target.timeout is not None:
            settings = replace(
                settings, interval=target.interval or settings.interval, timeout=target.timeout or settings.timeout
            )
        return ExporterSource(target.url, settings, self._scraper, delay, labels=target.labels, clock=self._clock)


def _lists(config: Config) -> TargetLists:
    exporter = config.source.exporter
    if exporter.discovery == "http":
        return HttpList(exporter.http)
    return DnsLists(exporter.dns) if exporter.discovery == "dns" else FileLists(exporter.file)
