"""Objects of the Kubernetes API in JSON: their fields, what controls them, and selectors of their labels.

A field that is missing or has another type counts as not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

JsonObject = Mapping[str, object]


class NodeCondition(NamedTuple):
    """A condition of a node as it is to be; `reason` is in CamelCase."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def mapping(value: object) -> Mapping[str, object]:
    """Return the value if it is an object; otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> Sequence[Mapping[str, object]]:
    """Return the objects of a list; an empty list if the value is not a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return the value if it is a text; otherwise an empty one."""
    return value if isinstance(value, str) else ""


class ObjectKind(NamedTuple):
    """A kind of objects: its API group, empty for the core group, and its name.

    >>> str(ObjectKind("apps", "ReplicaSet"))
    'ReplicaSet.apps'
    """

    group: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


def parse_kind(text: str) -> ObjectKind:
    """Return the kind that `Kind.group` names.

    >>> parse_kind("RayJob.ray.io")
    ObjectKind(group='ray.io', name='RayJob')
    """
    name, _, group = text.partition(".")
    return ObjectKind(group, name)


class Controller(NamedTuple):
    """A reference to the object that controls another one, in the same namespace.

    Attributes:
        version: of the API, without its group.
    """

    kind: ObjectKind
    version: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodMetadata:
    """What attribution uses of a pod.

    Attributes:
        labels: those that are kept.
        controller: None of a bare pod.
        allocated: part of each of its GPUs that a scheduler of fractions gave it, above 0 to 1; None without a part.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    controller: Controller | None
    allocated: float | None = None


def pod_metadata(item: JsonObject, keeps_label: Callable[[str], bool]) -> PodMetadata:
    """Return what attribution uses of a pod in JSON.

    Args:
        keeps_label: whether a label of this name is kept.
    """
    metadata = mapping(item.get("metadata"))
    return PodMetadata(
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        labels={name: value for name, value in labels_of(item).items() if keeps_label(name)},
        controller=controller_of(item),
        allocated=allocated_part(mapping(metadata.get("annotations"))),
    )


_HAMI_CELLS = 4
"""UUID, type, MiB of memory, percent of the cores; 0: no limit."""


def allocated_part(annotations: JsonObject) -> float | None:
    """Return the part of a GPU in the annotations of KAI's or HAMi's scheduler, above 0 to 1; None without any."""
    fraction = text(annotations.get("gpu-fraction"))
    if re.fullmatch(r"0?\.\d{1,9}|1(\.0+)?", fraction) and float(fraction) > 0.0:
        return float(fraction)
    devices = text(annotations.get("hami.io/vgpu-devices-allocated")).replace(";", ":").split(":")
    cells = [cells for device in devices if len(cells := device.split(",")) == _HAMI_CELLS]
    cores = [int(percent) for *_, percent in cells if re.fullmatch(r"\d{1,3}", percent, re.ASCII)]
    return min(sum(cores) / len(cores) / 100.0, 1.0) if cores and 0 not in cores else None


def labels_of(item: JsonObject) -> Labels:
    """Return the labels of an object in JSON."""
    labels = mapping(mapping(item.get("metadata")).get("labels"))
    return {name: text(value) for name, value in labels.items()}


def controller_of(item: JsonObject) -> Controller | None:
    """Return the object that controls an object in JSON: its owner with `controller: true`; None without one."""
    for owner in mappings(mapping(item.get("metadata")).get("ownerReferences")):
        if owner.get("controller") is True:
            group, _, version = text(owner.get("apiVersion")).rpartition("/")
            kind = ObjectKind(group, text(owner.get("kind")))
            return Controller(kind, version, text(owner.get("name")), text(owner.get("uid")))
    return None


def uid_of(item: JsonObject) -> str:
    """Return the UID of an object in JSON."""
    return text(mapping(item.get("metadata")).get("uid"))


Labels = Mapping[str, str]

_SIGN = r"\s*(?P<sign>==|=|!=)(?:\s*(?P<value>[\w.-]+))?"
_SET = r"\s+(?P<set>in|notin)\s*\((?P<values>[\w., -]*)\)"
_TERM = re.compile(rf"\s*(?:(?P<absent>!)\s*(?P<missing>[\w./-]+)|(?P<name>[\w./-]+)(?:{_SIGN}|{_SET})?)\s*(?:,|$)")


def parse_selector(text: str) -> Callable[[Labels], bool]:
    """Return whether labels match a selector such as `app=web,tier in (a, b),!canary`; an empty one matches all.

    Raises:
        ValueError: it is not a selector.
    """
    terms: list[Callable[[Labels], bool]] = []
    at = 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is not a label selector")
        terms.append(_term(match))
        at = match.end()
    return lambda labels: all(term(labels) for term in terms)


def _term(match: re.Match[str]) -> Callable[[Labels], bool]:
    if match["absent"]:
        missing = match["missing"]
        return lambda labels: missing not in labels
    name = match["name"]
    if match["sign"] is None and match["set"] is None:
        return lambda labels: name in labels
    allowed = {match["value"] or ""} if match["sign"] else {value.strip() for value in match["values"].split(",")}
    if match["sign"] == "!=" or match["set"] == "notin":
        return lambda labels: labels.get(name) not in allowed
    return lambda labels: labels.get(name) in allowed
