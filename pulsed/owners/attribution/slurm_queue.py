"""What Slurm's controller has of a job beyond its mapping: user, account, partition, name, array, state, and the
part of a GPU that its shards, or its percentage of MPS, are.

Jobs are looked up by one short `squeue` at a time, in the background. `squeue` prints chosen fields in a given
format; in the output of `scontrol show job`, the name of a job can forge other fields.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from pulsed.model.job_names import ARRAY, COMPONENT, RAW_ID
from pulsed.model.owner import Owner
from pulsed.owners.attribution.source import Claims

log = logging.getLogger(__name__)

SECONDS = 5.0
"""A longer look-up has failed."""

RETRY_SECONDS = 60.0
"""After a look-up that failed, the next one waits for so long: the controller may be overloaded."""

CHECK_SECONDS = 600.0
"""A job is looked up again after this time, as its epilog may have left its files behind; at once if another job gets
one of its devices."""

_SEPARATOR = "\x1f"
_FORMAT = _SEPARATOR.join(("%i", "%A", "%T", "%u", "%U", "%P", "%a", "%b", "%N", "%j"))
_FIELDS = 10
_ABSENT = ("(null)", "N/A")

_FINAL = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
          "REVOKED", "TIMEOUT")  # fmt: skip
"""States in which a job has no devices any more."""

_TEXTS = ("user", "user_id", "account", "partition", "name")
_Job = tuple[str, float | None]
"""Id, and when the newest of its files changed."""


_KINDS = ("gpu", "shard", "mps")


class QueuedJob(NamedTuple):
    """What Slurm has of a job.

    Attributes:
        details: None if it does not have the job.
        has_ended: whether it has ended.
        gres: the generic resources that it has on each node; `nodes` are these.
        gpus: GPUs on this node whose part the job has; None if it has whole ones, or that is not known.
    """

    details: Owner | None = None
    has_ended: bool = False
    gres: str = ""
    nodes: str = ""
    gpus: float | None = None


class _LookUp(NamedTuple):
    job: QueuedJob
    moment: float
    neighbours: frozenset[str]


@dataclass(unsafe_hash=True)
class SlurmQueue:
    """The jobs of one source, completed by `squeue`, the command; nothing is looked up without that program.

    A job that has ended, or that Slurm no longer has, is not an owner until one of its files changes.
    """

    command: str = "squeue"
    clock: Callable[[], float] = field(default=monotonic, compare=False, repr=False)
    # Claimed jobs that were looked up.
    _known: dict[_Job, _LookUp] = field(default_factory=dict, init=False, compare=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False, compare=False)
    _not_before: float = field(default=0.0, init=False, compare=False)
    _rejected: Counter[str] = field(default_factory=Counter, init=False, compare=False)
    # Whether nodes of the cluster divide GPUs by shards or MPS; None until that was asked.
    _divides: bool | None = field(default=None, init=False, compare=False)

    def complete(self, claims: Claims, changed: Mapping[str, float] | None = None) -> Claims:
        """Return the claims with what is known of their jobs, and begin to look up one that is due. Does not wait.

        Args:
            claims: of the files.
            changed: when the newest file of each job changed, by its id.
        """
        changed = changed or {}
        neighbours: dict[_Job, set[str]] = {}
        lacking: set[_Job] = set()
        for owners in claims.owners.values():
            for owner in owners:
                job = _job(owner, changed)
                neighbours.setdefault(job, set()).update(each.id for each in owners)
                if _lacks(owner):
                    lacking.add(job)
        self._known = {job: known for job, known in self._known.items() if job in neighbours}
        for job, ids in neighbours.items():
            if job not in self._known and job not in lacking and len(ids) == 1 and self._divides is False:
                # its state is checked later
                self._known[job] = _LookUp(QueuedJob(), self.clock(), frozenset(ids))
        due = next((job for job, ids in neighbours.items() if self._is_due(job, ids)), None)
        if due and (self._task is None or self._task.done()) and self.clock() >= self._not_before:
            look = self._find_parts() if self._divides is None else self._look_up(due, frozenset(neighbours[due]))
            self._task = asyncio.create_task(look, name="squeue")
        if not any(any(known.job) for known in self._known.values()) and not self._rejected:
            return claims
        devices = Counter(_job(owner, changed) for owners in claims.owners.values() for owner in owners)
        completed = {
            key: tuple(
                [
                    self._completed(owner, changed, devices[_job(owner, changed)])
                    for owner in owners
                    if not self._has_ended(owner, changed)
                ]
            )
            for key, owners in claims.owners.items()
        }
        rejected, self._rejected = {**claims.rejected, **self._rejected}, Counter()
        return replace(claims, owners={key: owners for key, owners in completed.items() if owners}, rejected=rejected)

    async def ended(self, ids: Iterable[str]) -> list[str]:
        """Return the jobs that have ended, of some ids; none where that is not known."""
        ended = []
        for id in ids:
            try:
                if (await asyncio.to_thread(self._query, id)).has_ended:
                    ended.append(id)
            except (OSError, subprocess.SubprocessError):
                break
        return ended

    def _is_due(self, job: _Job, neighbours: set[str]) -> bool:
        known = self._known.get(job)
        if known is None:
            return True
        is_old = self.clock() - known.moment >= CHECK_SECONDS or not neighbours <= known.neighbours
        return is_old and not known.job.has_ended

    def _has_ended(self, owner: Owner, changed: Mapping[str, float]) -> bool:
        known = self._known.get(_job(owner, changed))
        return known is not None and known.job.has_ended

    async def close(self) -> None:
        """Abandon a look-up; its process ends within `SECONDS`."""
        if self._task:
            self._task.cancel()

    def _completed(self, owner: Owner, changed: Mapping[str, float], devices: int) -> Owner:
        known = self._known.get(_job(owner, changed))
        if known and known.job.gpus is not None and owner.allocated is None:
            owner = replace(owner, allocated=min(known.job.gpus / devices, 1.0))
        details = known.job.details if known else None
        if details is None:
            return owner
        texts = {name: getattr(owner, name) or getattr(details, name) for name in _TEXTS}
        if owner.user == owner.user_id:
            texts["user"] = details.user
        names = dict(details.labels) | dict(owner.labels)
        labels = tuple([(name, text) for name, text in names.items() if text != owner.id])
        return replace(owner, labels=labels, **texts)

    async def _look_up(self, job: _Job, neighbours: frozenset[str]) -> None:
        before = self._known.get(job)
        try:
            found = await asyncio.to_thread(self._query, job[0])
        except FileNotFoundError:
            found = QueuedJob()
        except (OSError, subprocess.SubprocessError):
            self._rejected["squeue"] += 1
            self._not_before = self.clock() + RETRY_SECONDS
            return
        if found.has_ended:
            self._rejected["stale_job"] += 1
            log.warning("a job has ended and its files in the mapping directory remain: its epilog has not run",
                        extra={"job": job[0]})  # fmt: skip
        elif found.details is None and before is not None:
            found = before.job
        self._known[job] = _LookUp(found, self.clock(), neighbours)

    async def _find_parts(self) -> None:
        """Query whether nodes divide GPUs: then each job is looked up at once, as its file may lack its part."""
        try:
            kinds = await asyncio.to_thread(self._gres)
        except (OSError, subprocess.SubprocessError):  # then only a look-up that is due anyway has it
            kinds = set()
        self._divides = any(kind != "gpu" for gres in kinds for kind in _numbers(gres))

    def _query(self, id: str) -> QueuedJob:
        """Return a job; wait for the controller.

        Raises:
            OSError: the command cannot be run.
            SubprocessError: it failed or took too long.
        """
        command = [self.command, "--noheader", "--states=all", f"--jobs={id}", f"--format={_FORMAT}"]
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False, errors="replace"
        )
        if done.returncode:
            if "Invalid job id" in done.stderr:
                return QueuedJob(has_ended=True)
            done.check_returncode()
        job = parse_job(done.stdout, id)
        if not job.gres:
            return job
        try:
            kinds = self._gres(f"--nodes={job.nodes}")
        except (OSError, subprocess.SubprocessError):  # only the job's part is unknown then
            return job
        return job._replace(gpus=parts_of_gpus(job.gres, kinds.pop())) if len(kinds) == 1 else job

    def _gres(self, *options: str) -> set[str]:
        """Return the kinds of generic resources that nodes have. Raises as `_query`."""
        command = [str(Path(self.command).with_name("sinfo")), "--noheader", *options, "--format=%G"]
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=True, errors="replace"
        )
        return set(done.stdout.split())


def parse_job(text: str, id: str) -> QueuedJob:
    """Return the job with this id, or this name of a task or component, of squeue's output; without one, nothing is
    known of it. A name with line breaks ends at the first.
    """
    for line in text.split("\n"):
        values = ["" if value in _ABSENT else value for value in line.split(_SEPARATOR, _FIELDS - 1)]
        if len(values) == _FIELDS and id in values[:2]:
            name, raw_id, state, user, user_id, partition, account, gres, nodes, title = values
            label = ARRAY if "_" in name else COMPONENT if "+" in name else ""
            labels = ((label, name), (RAW_ID, raw_id)) if label else ()
            details = Owner(
                "slurm_job", id, user=user, user_id=user_id, partition=partition, account=account, name=title,
                labels=labels,
            )  # fmt: skip
            is_part = nodes and any(kind != "gpu" for kind in _numbers(gres))
            return QueuedJob(details, state in _FINAL, *((gres, nodes) if is_part else ()))
    return QueuedJob()


def parts_of_gpus(gres: str, of_node: str) -> float | None:
    """Return how many GPUs the shards of a job, or its percentage of MPS, are; None if that is not known.

    Args:
        gres: what the job has of a node, as `gres:shard:3`.
        of_node: all that the node has, as `gpu:4,shard:16`.
    """
    in_all, parts = _numbers(of_node), _numbers(gres)
    del parts["gpu"]
    if not in_all["gpu"] or any(not in_all[kind] for kind in parts):
        return None
    return sum(number * in_all["gpu"] / in_all[kind] for kind, number in parts.items()) or None


def _numbers(gres: str) -> Counter[str]:
    """Return the number of each kind of generic resource.

    >>> _numbers("gres/shard:3,gpu:a100:2(S:0-1),gpu:h100:2")
    Counter({'gpu': 4, 'shard': 3})
    """
    numbers: Counter[str] = Counter()
    for item in gres.split(","):
        words = item.partition("(")[0].replace("=", ":").replace("/", ":").removeprefix("gres:").split(":")
        if words[0] in _KINDS and words[-1].isascii() and words[-1].isdigit():
            numbers[words[0]] += int(words[-1][:9])
    return numbers


def _job(owner: Owner, changed: Mapping[str, float]) -> _Job:
    return owner.id, changed.get(owner.id, owner.begin)


def _lacks(owner: Owner) -> bool:
    return not all(getattr(owner, name) for name in _TEXTS) or owner.user == owner.user_id
