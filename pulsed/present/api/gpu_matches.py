"""The GPUs of all targets as the API shows them: each once, found by any of its names, with its age.

Unlike the page for Prometheus it shows stale GPUs too. The sections of their derived values are made from the
declarations of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, create_model

from pulsed.compute.declaration import DerivedNumber, DerivedState, DerivedValue, DerivedVector
from pulsed.compute.derived_results import DERIVED_VALUES, ordered
from pulsed.compute.health.summary import unobserved
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, board_names, names_of, node_of
from pulsed.model.health import Health
from pulsed.model.owner import Owner, Owners
from pulsed.model.result import Result
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import GpuRow, shown_rows
from pulsed.model.vocabulary import Reading
from pulsed.present.api.schema import Document, DocumentModel, Text, TimeOrNull


class NamedGpu(DocumentModel):
    """What identifies a GPU or MIG instance."""

    gpu: str
    uuid: Text
    mig_id: Text
    node: str


def identity_of(device: Device, here: str) -> Document:
    """Return the members of `NamedGpu`; `here` is this process's node."""
    entity = device.entity
    return {
        "gpu": entity.gpu,
        "uuid": entity.uuid or None,
        "mig_id": entity.mig_id or None,
        "node": node_of(device, here),
    }


class Match(NamedTuple):
    """One GPU or MIG instance, with the target that shows it."""

    target: Target
    row: GpuRow
    node: str

    @property
    def device(self) -> Device:
        """The device of its row."""
        return self.row.device

    @property
    def owners(self) -> Owners | None:
        """Who has it; None if that is unknown."""
        return self.row.owners

    @property
    def reading(self) -> Reading:
        """Its inputs."""
        return self.row.reading

    @property
    def result(self) -> Result:
        """What follows from them."""
        return self.row.result

    @property
    def time(self) -> float:
        """When it was listed last."""
        return self.row.time

    @property
    def missing(self) -> bool:
        """Whether its source does not list it."""
        return not self.row.is_listed


def find(store: TargetStore, name: str, node: str | None = None, now: Monotonic | None = None) -> list[Match]:
    """Return the GPUs of a name, as `find_all`."""
    return find_all(store, [name], node, now)[name]


def find_all(
    store: TargetStore, gpu_names: Sequence[str], node: str | None = None, now: Monotonic | None = None
) -> dict[str, list[Match]]:
    """Return the GPUs of each name: none, one, or several if nodes share it or only MIG instances of a GPU are known.

    Names are indices, UUIDs of GPUs or MIG instances, or index or UUID and MIG id as in `0:7`. When two targets report
    the same GPU, one that is fresh at `now` monotonic seconds is preferred; None: the first. A GPU that is listed is
    preferred to others that its node had under the same name.
    """
    exact: dict[str, list[Match]] = {name: [] for name in gpu_names}
    parts: dict[str, list[Match]] = {name: [] for name in gpu_names}
    for match in matches(store, now):
        if node is None or match.node == node:
            for by_name, names in ((exact, names_of(match.device)), (parts, board_names(match.device))):
                for name in names:
                    if name in by_name:
                        by_name[name].append(match)
    return {name: _listed_first(exact[name] or parts[name]) for name in exact}


def _listed_first(gpu_matches: list[Match]) -> list[Match]:
    """Return the GPUs that their source lists, if any on the same node: others were there before them."""
    nodes = {match.node for match in gpu_matches if not match.missing}
    return [match for match in gpu_matches if not match.missing or match.node not in nodes]


def matches(store: TargetStore, now: Monotonic | None = None) -> Iterator[Match]:
    """Yield all GPUs, each once, in the order of the configuration; fresh targets take precedence."""
    seen = [target for target in store.targets if target.tick is not None]
    ranked = seen if now is None else sorted(seen, key=lambda target: not target.fresh(now))
    shown = {id(row) for _, row in shown_rows([target.tick for target in ranked if target.tick], store.node)}
    for target in seen:
        for row in target.tick.gpus if target.tick else ():
            if id(row) in shown:
                yield Match(target, row, node_of(row.device, store.node))


def is_stale(match: Match, now: Monotonic) -> bool:
    """Return whether a GPU's values are too old to be served as current ones; `now` is monotonic seconds."""
    return match.missing or not match.target.fresh(now)


def silence_of(target: Target) -> str:
    """Return why the GPUs of a target that is not fresh are unknown: its source is what is wrong."""
    return f"No data from {target.name}: {target.error or 'it does not answer'}"


def current_result(match: Match, now: Monotonic) -> Result:
    """Return the result of a GPU; its health is unknown while its target is not fresh."""
    health = health_of(match, now)
    return match.result if health is match.result.health else match.result._replace(health=health)


def health_of(match: Match, now: Monotonic) -> Health:
    """Return the health of a GPU: unknown while its target is stale, except earlier events and losses."""
    target, health = match.target, match.result.health
    if match.missing or target.fresh(now):
        return health
    return unobserved(health, Unix(match.time + target.interval), now - target.arrived, silence_of(target))


def age(match: Match, now: Monotonic) -> float:
    """Return the age of the values; for a missing GPU they are older than the sample that it is missing from."""
    target = match.target
    sample = match.time if target.tick is None else target.tick.time
    return max(0.0, now - target.arrived) + max(0.0, sample - match.time)


def without_split_boards(gpu_matches: Sequence[Match]) -> list[Match]:
    """Return the GPUs and MIG instances without the boards of these instances, whose values repeat theirs."""
    return [match for match in gpu_matches if not match.row.is_split]


def board_of(match: Match) -> tuple[str, str]:
    """Return the key of a GPU's board: its node, and its UUID or else its index."""
    entity = match.device.entity
    return (match.node, entity.uuid or entity.gpu)


def pods_of(owners: Owners | None) -> Sequence[Owner]:
    """Return the owners of a GPU that are containers of pods, or jobs in them; each container once."""
    pods = [owner for owner in owners or () if owner.has_pod]
    return list({(owner.namespace, owner.name, owner.container): owner for owner in pods}.values())


FIRST_SECTIONS = ("real_utilization", "saturation", "workload", "health")
"""Sections whose order in the document is fixed; later ones follow in the order of their table."""


class Derived(NamedTuple):
    """A holder of the derived values of a GPU; `preset` is the name of the weights of real utilization."""

    reading: Reading
    result: Result
    preset: str


Getter = Callable[[Derived], object]


class DerivedSection(NamedTuple):
    """A section of derived values: its model, and the functions that return its members."""

    model: type[DocumentModel]
    getters: Mapping[str, Getter]

    def values(self, derived: Derived) -> dict[str, object]:
        """Return the values of its members; the model makes the document from them."""
        return {name: get(derived) for name, get in self.getters.items()}

    def document(self, derived: Derived) -> Document:
        """Return the document of the section."""
        return self.model.render(self.values(derived))


def _members(value: DerivedValue) -> Iterator[tuple[str, Any, Getter]]:
    """Yield the name, the type and the function of each member of a section that a value has."""
    key = value.json.partition(".")[2]
    if isinstance(value, DerivedVector):
        for position, name in enumerate(value.keys):
            yield key.format(name), float if value.always else float | None, _of_sample(value.element(position))
    elif isinstance(value, DerivedNumber):
        number: Any = int if value.integer else float
        yield key, number if value.always else number | None, _of_sample(value.get)
    elif isinstance(value, DerivedState):
        yield key, str, _of_sample(value.get)
    elif value.kind == "setting":
        yield key, str, attrgetter("preset")
    else:
        yield key, _DETAILS[value.kind], _of_sample(value.get)


def _of_sample(get: Callable[[Reading, Result], object]) -> Getter:
    return lambda derived: get(derived.reading, derived.result)


_DETAILS: Mapping[str, Any] = {
    "ratio": float | None,
    "ratios": Annotated[dict[str, float | None], BeforeValidator(dict)],
    "names": list[str],
    "time": TimeOrNull,
    "flag": bool | None,
}
"""Types of details in JSON."""


def _section(name: str) -> DerivedSection:
    fields: Any = {}
    getters = {}
    for value in DERIVED_VALUES:
        if value.json.partition(".")[0] == name:
            for member, kind, getters[member] in _members(value):
                fields[member] = (kind, Field(description=value.help))
    title = "".join(map(str.capitalize, name.split("_")))
    return DerivedSection(create_model(f"{title}Shape", __base__=DocumentModel, **fields), getters)


_NAMES = [value.json.partition(".")[0] for value in DERIVED_VALUES if value.json]

SECTIONS: Mapping[str, DerivedSection] = {name: _section(name) for name in ordered(_NAMES, FIRST_SECTIONS)}
"""All sections of derived values, in the order of the document."""
