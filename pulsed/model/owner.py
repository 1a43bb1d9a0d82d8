"""The owners of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple

from pulsed.model.clocks import Unix

MAX_TEXT = 512
"""Longer texts of owners are cut: users choose them. The id of a pod has up to 381 characters."""

MAX_SHARERS = 256
"""Owners of one device beyond this are left out."""

OwnerKind = Literal["slurm_job", "pod", "container", "process", "nobody"]


BEGIN_TOLERANCE = 5.0
"""Seconds between the begins of one owner by different sources; no id is used again as fast."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A job, a container or a process that has a GPU, or a share of one.

    Unknown texts are empty, long ones are cut.

    Attributes:
        kind: `container` is one of Docker or Podman, without a pod; `nobody` is the owner of the time in which a GPU
            has no known owner.
        id: unique among the owners of its kind at a time: the job id (`4711`, `4711_7`), `namespace/name/container`
            of a pod, name or short id of a container, the process id. Ids are used again: see `continues`.
        begin: when it got its first GPU, in Unix seconds; None if the source does not date it.
        uid: of a pod.
        user: login name; `user_id` is the number.
        account: of a Slurm job, as are `partition` and `cluster`.
        name: of the pod or job, or the program of a process or container. A Slurm job of a worker that is a pod has
            the pod's.
        namespace: of a pod, as is `container`; empty without one.
        workload: what controls the pod, such as a Deployment's name; `workload_kind` is its kind.
        labels: of the pod, or other properties, as pairs.
        allocated: part of this device that the scheduler gave it, above 0 to 1, as by shards; None if it is not known.
    """

    kind: OwnerKind
    id: str
    begin: Unix | None = None
    uid: str = ""
    user: str = ""
    user_id: str = ""
    account: str = ""
    partition: str = ""
    cluster: str = ""
    name: str = ""
    namespace: str = ""
    container: str = ""
    workload: str = ""
    workload_kind: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    allocated: float | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if len(text := getattr(self, name)) > MAX_TEXT:
                object.__setattr__(self, name, text[:MAX_TEXT])

    @property
    def is_known(self) -> bool:
        """Whether it is a job, pod, container or process, and does not stand for missing owners."""
        return self.kind != "nobody"

    @property
    def has_pod(self) -> bool:
        """Whether it is a container of a pod, or a Slurm job that runs in one."""
        return self.kind == "pod" or (self.kind == "slurm_job" and bool(self.namespace))

    @property
    def key(self) -> tuple[OwnerKind, str]:
        """Kind and id: identifies it among the owners at a time."""
        return (self.kind, self.id)

    @property
    def program(self) -> str:
        """What runs, in words, the same over restarts: the workload of a pod, an array of jobs, a user's program."""
        if self.kind == "pod":
            name = self.workload or "/".join(filter(None, (self.name, self.container)))
            return f"{self.workload_kind or 'pod'} {self.namespace}/{name}"
        if self.kind == "slurm_job":
            return f"job {self.id.partition('_')[0]}"
        if self.kind == "container":
            return f"container {self.id}"
        user = self.user or self.user_id
        return f"{self.name or f'process {self.id}'}{f' of user {user}' if user else ''}"

    def continues(self, before: Owner) -> bool:
        """Return whether this is an owner seen before, not another one with its id (requeued, recreated, recycled)."""
        return (
            self.key == before.key
            and (self.begin is None or before.begin is None or abs(self.begin - before.begin) <= BEGIN_TOLERANCE)
            and (self.uid == before.uid or not self.uid or not before.uid)
        )


class OwnerUse(NamedTuple):
    """What one of the owners of a device uses of it.

    Attributes:
        memory_bytes: device memory; None if unknown.
        activity_share: of the activity of all of its owners, 0..1: these add up to 1. None if unknown.
    """

    memory_bytes: float | None = None
    activity_share: float | None = None


OwnerUses = Mapping[tuple[OwnerKind, str], OwnerUse]
"""By key of the owner."""

Owners = tuple[Owner, ...]
"""The owners of one device, without repetition; several share it. Empty: it is free."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who has a device in a tick.

    Attributes:
        owners: of a board also the owners of its instances; empty if it is free, None if that is unknown.
        uses: the use by each owner, where the source measures it.
        passing: owners that had it since the tick before, but in neither of both.
    """

    owners: Owners | None = None
    uses: OwnerUses = field(default_factory=dict)
    passing: Owners = ()


UNKNOWN_OWNERS = Ownership()
"""The ownership of a GPU with unknown owners."""

_TEXTS = [each.name for each in fields(Owner) if each.type == "str"]


def pod(namespace: str, name: str, container: str = "", uid: str = "") -> Owner:
    """Return the owner that a pod's container is."""
    id = "/".join(filter(None, (namespace, name, container)))
    return Owner("pod", id, uid=uid, name=name, namespace=namespace, container=container)
