"""What Slurm's controller has of a job beyond its mapping: user, account, partition, name, array.

Each job is looked up once, by one short `squeue` at a time, in the background. `squeue` prints chosen fields in a given
format; in the output of `scontrol show job`, the name of a job can forge other fields.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic

from pulsed.model.owner import Owner
from pulsed.owners.attribution.source import Claims

SECONDS = 5.0
"""A longer look-up has failed."""

RETRY_SECONDS = 60.0
"""After a look-up that failed, the next one waits for so long: the controller may be overloaded."""

_SEPARATOR = "\x1f"
_FORMAT = _SEPARATOR.join(("%i", "%u", "%U", "%P", "%a", "%j"))
_ABSENT = ("(null)", "N/A")

_TEXTS = ("user", "user_id", "account", "partition", "name")
_Job = tuple[str, float | None]
"""Id and begin."""


@dataclass(unsafe_hash=True)
class SlurmQueue:
    """The jobs of one source, completed by `squeue`, the command; nothing is looked up without that program."""

    command: str = "squeue"
    clock: Callable[[], float] = field(default=monotonic, compare=False, repr=False)
    # Claimed jobs that were looked up; None for those that Slurm does not have.
    _known: dict[_Job, Owner | None] = field(default_factory=dict, init=False, compare=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False, compare=False)
    _not_before: float = field(default=0.0, init=False, compare=False)
    _failed: int = field(default=0, init=False, compare=False)

    def complete(self, claims: Claims) -> Claims:
        """Return the claims with what is known of their jobs, and begin to look up one that is not. Does not wait."""
        jobs = {(owner.id, owner.begin): None for owners in claims.owners.values() for owner in owners if _lacks(owner)}
        self._known = {job: details for job, details in self._known.items() if job in jobs}
        missing = next((job for job in jobs if job not in self._known), None)
        if missing and (self._task is None or self._task.done()) and self.clock() >= self._not_before:
            self._task = asyncio.create_task(self._look_up(missing), name="squeue")
        if not any(self._known.values()) and not self._failed:
            return claims
        owners = {key: tuple(map(self._completed, each)) for key, each in claims.owners.items()}
        failed, self._failed = {"squeue": self._failed} if self._failed else {}, 0
        return replace(claims, owners=owners, rejected={**claims.rejected, **failed})

    async def close(self) -> None:
        """Abandon a look-up; its process ends within `SECONDS`."""
        if self._task:
            self._task.cancel()

    def _completed(self, owner: Owner) -> Owner:
        details = self._known.get((owner.id, owner.begin))
        if details is None:
            return owner
        texts = {name: getattr(owner, name) or getattr(details, name) for name in _TEXTS}
        if owner.user == owner.user_id:
            texts["user"] = details.user
        return replace(owner, labels=owner.labels or details.labels, **texts)

    async def _look_up(self, job: _Job) -> None:
        try:
            self._known[job] = await asyncio.to_thread(self._query, job[0])
        except FileNotFoundError:
            self._known[job] = None
        except (OSError, subprocess.SubprocessError):
            self._failed += 1
            self._not_before = self.clock() + RETRY_SECONDS

    def _query(self, id: str) -> Owner | None:
        """Return a job, or None if Slurm does not have it; wait for the controller.

        Raises:
            OSError: the command cannot be run.
            SubprocessError: it failed or took too long.
        """
        command = [self.command, "--noheader", "--states=all", f"--jobs={id}", f"--format={_FORMAT}"]
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False, errors="replace"
        )
        if done.returncode and "Invalid job id" not in done.stderr:
            done.check_returncode()
        return parse_job(done.stdout)


def parse_job(text: str) -> Owner | None:
    """Return the job of squeue's output; None without one. A name with line breaks ends at the first."""
    values = ["" if value in _ABSENT else value for value in text.partition("\n")[0].split(_SEPARATOR, 5)]
    if len(values) != 6:
        return None
    id, user, user_id, partition, account, name = values
    labels = (("array", id),) if "_" in id else ()
    return Owner(
        "slurm_job", id, user=user, user_id=user_id, partition=partition, account=account, name=name, labels=labels
    )


def _lacks(owner: Owner) -> bool:
    return not all(getattr(owner, name) for name in _TEXTS) or owner.user == owner.user_id
