"""The interface of attribution sources (which owners have which device now), and owners in labels of exporters' pages.

dcgm-exporter writes pods, containers and jobs into the labels of every row of a GPU; a row may stand there once per
owner.
Prometheus may have renamed those labels. This module must not depend on the format of pages.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pulsed.model.clocks import MONOTONIC_NEVER, Monotonic, Unix
from pulsed.model.gpu import Device
from pulsed.model.label_names import EXPORTED
from pulsed.model.owner import MAX_SHARERS, Owner, Owners, pod
from pulsed.owners.attribution.scraped_pods import EXPORTERS_OWN, PodName


@dataclass(frozen=True, slots=True)
class Claims:
    """Result of one look at a source.

    Attributes:
        owners: of each device that has any, by the key of the device (see `device_key`).
        is_complete: whether a device of this host that is not in `owners` is free; otherwise its owners are unknown.
        rejected: entries that could not be read, counted by reason.
        has_numbers: whether devices are named by numbers, and no setting defines whether these are indexes.
    """

    owners: Mapping[str, Owners] = field(default_factory=dict)
    is_complete: bool = False
    rejected: Mapping[str, int] = field(default_factory=dict)
    has_numbers: bool = False


NUMBERS_HINT = "see whether the files are named by index or device file, and set attribution.files.numbers"


def numbered_otherwise(device: Device) -> str:
    """Return how the index of a GPU differs from the number of its device file; empty if it does not."""
    number, index = device.device.removeprefix("nvidia"), device.entity.gpu
    return f"GPU {index} is /dev/{device.device}" if number.isdecimal() and index not in ("", number) else ""


NO_CLAIMS = Claims()


@dataclass(slots=True)
class SourceState:
    """The state of one source.

    Attributes:
        last_success: Unix time of the last look that succeeded; None before the first, and then it is not published.
        succeeded: the same in monotonic seconds.
        errors: failed looks and unreadable entries, by reason.
        message: the error of the last look; empty while up.
    """

    name: str
    up: bool = False
    claims: Claims = NO_CLAIMS
    last_success: Unix | None = None
    succeeded: Monotonic = MONOTONIC_NEVER
    errors: dict[str, int] = field(default_factory=dict)
    message: str = ""

    def succeed(self, time: Unix, now: Monotonic) -> None:
        """Note that a look succeeded at a Unix time, which is a moment in monotonic seconds."""
        self.last_success, self.succeeded = time, now

    def age(self, now: Monotonic) -> float:
        """Return the seconds since the last look that succeeded, at a moment in monotonic seconds; infinite if none."""
        return now - self.succeeded


class AttributionSource(Protocol):
    """Something of this host that assigns devices to owners. Equal sources are not started again by a reload."""

    @property
    def name(self) -> str:
        """Unique; the label `source` of its metrics."""

    @property
    def interval(self) -> float:
        """Seconds between two looks."""

    @property
    def absence(self) -> str:
        """The meaning of None from `read`, and how to enable the source."""

    async def read(self) -> Claims | None:
        """Return what is claimed now; None where this host does not have what the source reads. Must not block.

        Raises:
            AttributionError: it cannot be read; the claims of the last look remain in force for a while.
        """

    async def close(self) -> None:
        """Release connections."""


# dcgm-exporter's names, then those of its --use-old-namespace.
_POD = ("pod", "pod_name")
_NAMESPACE = ("namespace", "pod_namespace")
_CONTAINER = ("container", "container_name")
_UID = ("pod_uid",)
_JOB = ("hpc_job",)

SHARES = frozenset({prefix + name for name in (*_POD, *_CONTAINER, *_UID, *_JOB, "vgpu") for prefix in ("", EXPORTED)})
"""Labels that may mean a row is one owner's view of a GPU, in addition to a row of the whole."""


_PodKey = tuple[str, str, str]
"""Namespace, name and container."""

_NO_POD: _PodKey = ("", "", "")


def is_relabelled(rows: Iterable[Mapping[str, str]]) -> bool:
    """Return whether Prometheus has renamed the labels of a page."""
    names = {EXPORTED + name for name in (*_POD, *_NAMESPACE, *_CONTAINER)}
    return any(not names.isdisjoint(row) for row in rows)


def owners_of(
    rows: Iterable[Mapping[str, str]], relabelled: bool = False, scraped: Container[PodName] = ()
) -> Owners | None:
    """Return the owners of one device, jobs first; None without any: a page without owners may lack them.

    The same pod on several rows, also as several replicas (label `vgpu`), is one. A pod on a row with a job is the
    worker that the job runs in (Slurm on Kubernetes): both names are of one owner.

    Args:
        relabelled: as returned by `is_relabelled`.
        scraped: pods of exporters, which own nothing.
    """
    prefix = EXPORTED if relabelled else ""
    pods: dict[_PodKey, str] = {}
    jobs: dict[str, _PodKey] = {}
    containers: dict[str, None] = {}
    for row in rows:
        key = (_first(row, _NAMESPACE, prefix), _first(row, _POD, prefix), _first(row, _CONTAINER, prefix))
        _, name, container = key
        if EXPORTERS_OWN in (name or container) or key[:2] in scraped:
            key, name = _NO_POD, ""
        elif name:
            pods[key] = pods.get(key) or _first(row, _UID, prefix) or _first(row, _UID, "")
        elif container:
            containers[container] = None
        if job := _first(row, _JOB, prefix) or _first(row, _JOB, ""):
            jobs[job] = key if name else jobs.get(job, _NO_POD)
    workers = set(jobs.values())
    owners = (
        *(Owner("slurm_job", job, name=key[1], namespace=key[0], container=key[2]) for job, key in jobs.items()),
        *(pod(*key, uid) for key, uid in pods.items() if key not in workers),
        *(Owner("container", name, container=name) for name in containers if not jobs),
    )
    return owners[:MAX_SHARERS] or None


def _first(row: Mapping[str, str], names: tuple[str, ...], prefix: str) -> str:
    return next((row[prefix + name] for name in names if row.get(prefix + name)), "")
