"""What attribution uses of a pod, and what controls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pulsed.kubernetes.api_client import JsonObject
from pulsed.kubernetes.json_fields import mapping, mappings, text


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
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    controller: Controller | None


def pod_metadata(item: JsonObject, keeps_label: Callable[[str], bool]) -> PodMetadata:
    """Return what attribution uses of a pod in JSON.

    Args:
        keeps_label: whether a label of this name is kept.
    """
    metadata = mapping(item.get("metadata"))
    labels = mapping(metadata.get("labels"))
    return PodMetadata(
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        labels={name: text(value) for name, value in labels.items() if keeps_label(name)},
        controller=controller_of(item),
    )


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
