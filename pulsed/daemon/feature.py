"""A feature of the daemon, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from prometheus_client.metrics_core import Metric

from pulsed.config.configuration import ActiveConfig, Config
from pulsed.model.clocks import Monotonic
from pulsed.model.result import Removal
from pulsed.model.target_store import TargetStore
from pulsed.model.tick import Tick
from pulsed.owners.attribution import Attribution
from pulsed.present.exposition.page import Pages

if TYPE_CHECKING:
    from fastapi import APIRouter

    from pulsed.daemon.state_file import WriteStatus

_F = TypeVar("_F", bound="Feature")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the state file.

    Attributes:
        name: its key in the file.
        mark: returns a value that differs when the section must be written soon, not only once a minute.
        save: returns it as JSON.
        restore: takes what `save` has returned in an earlier run, before the first tick. Raises `ValueError` if it is
            something else; then nothing is restored.
    """

    name: str
    mark: Callable[[], object]
    save: Callable[[], object]
    restore: Callable[[object], None]


class Feature:
    """What the daemon does with ticks in addition to publishing the newest one. Every method has a default that does
    nothing.

    Attributes:
        name: in logs and as a label.
    """

    name: ClassVar[str]

    def __init__(self, parts: FeatureParts) -> None:
        """Make the feature; neither the event loop nor the collectors run yet."""

    def check(self, config: Config) -> None:
        """Raise `ConfigError` if this configuration cannot be put in force."""

    def take_tick(self, tick: Tick) -> None:
        """Take a tick of any target; called in the order of `FEATURES`."""

    def forget(self, removal: Removal) -> None:
        """Forget an absent GPU on request."""

    def metrics(self, now: Monotonic) -> Iterable[Metric]:
        """Return its own families on the metrics page, at monotonic seconds."""
        return ()

    def routes(self) -> Iterable[APIRouter]:
        """Return its own routes of the JSON API, which follow the configuration in force; called once."""
        return ()

    async def run(self) -> None:
        """Do background work until cancelled, or until the configuration in force needs none.

        It is called at start after `restore`, again after each reload once it has ended, and after an error, with a
        pause.
        """

    def statuses(self) -> Iterable[WriteStatus]:
        """Return whether files of its own in `state_dir` are written."""
        return ()

    def sections(self) -> Iterable[Section]:
        """Return its sections of the state file."""
        return ()

    def restore(self) -> None:
        """Load what an earlier run has kept in `state_dir`, before the first tick."""

    def save(self) -> None:
        """Write what outlives a restart, after the last tick."""

    def stop(self) -> None:
        """End what would keep the server from ending; the daemon stops."""


@dataclass(frozen=True, slots=True)
class FeatureParts:
    """What features are made of.

    Attributes:
        active: the configuration in force, at first the one of the start.
        store: the targets with their newest ticks.
        attribution: the owners of this host's GPUs.
        pages: the metrics page.
        features: those made before, by class.
    """

    active: ActiveConfig
    store: TargetStore
    attribution: Attribution
    pages: Pages
    features: Mapping[type[Feature], Feature]

    def feature(self, kind: type[_F]) -> _F:
        """Return a feature that stands before this one in `FEATURES`."""
        feature = self.features[kind]
        assert isinstance(feature, kind)
        return feature
