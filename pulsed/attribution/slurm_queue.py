"""What Slurm's controller has of a job beyond its mapping: user, account, partition, name, array.

Each job is looked up once, by one short `squeue` at a time, beside the looks of its source. `squeue` prints chosen
fields in a chosen format; in the output of `scontrol show job`, the name of a job can forge other fields.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic

from pulsed.attribution.source import Claims
from pulsed.model.owner import Owner

SECONDS = 5.0
"""A longer look-up has failed."""

RETRY_SECONDS = 60.0
"""After a look-up that failed, the next one waits for so long: the controller may be overloaded."""

_SEPARATOR = "\x1f"
_FORMAT = _SEPARATOR.join(("%i", "%u", "%U", "%P", "%a", "%j"))
_ABSENT = ("(null)", "N/A")

_Found = Owner | None


@dataclass(eq=False, slots=True)
class _LookUps:
    """Claimed jobs that were looked up, by id and begin; None for those that Slurm does not have."""

    found: dict[tuple[str, float | None], _Found] = field(default_factory=dict)
    running: asyncio.Task[None] | None = None
    not_before: float = 0.0
    failed: int = 0


@dataclass(frozen=True)
class SlurmQueue:
    """The jobs of one source, completed from the controller.

    Args:
        command: name or path of `squeue`. Without it nothing is looked up.
        clock: returns monotonic seconds.
    """

    command: str = "squeue"
    clock: Callable[[], float] = field(default=monotonic, compare=False, repr=False)
    _look_ups: _LookUps = field(default_factory=_LookUps, compare=False, repr=False)

    def complete(self, claims: Claims) -> Claims:
        """Return the claims with what is known of their jobs, and begin to look up one that is not. Does not wait."""
        state = self._look_ups
        jobs = {(owner.id, owner.begin): None for owners in claims.owners.values() for owner in owners if _lacks(owner)}
        state.found = {key: found for key, found in state.found.items() if key in jobs}
        missing = next((key for key in jobs if key not in state.found), None)
        if missing and (state.running is None or state.running.done()) and self.clock() >= state.not_before:
            state.running = asyncio.create_task(self._look_up(missing), name="squeue")
        if not any(state.found.values()) and not state.failed:
            return claims
        owners = {key: tuple(map(self._completed, each)) for key, each in claims.owners.items()}
        failed, state.failed = {"squeue": state.failed} if state.failed else {}, 0
        return replace(claims, owners=owners, rejected={**claims.rejected, **failed})

    async def close(self) -> None:
        """Abandon a look-up; its process ends within `SECONDS`."""
        if self._look_ups.running:
            self._look_ups.running.cancel()

    def _completed(self, owner: Owner) -> Owner:
        found = self._look_ups.found.get((owner.id, owner.begin))
        if found is None:
            return owner
        known = {name: getattr(owner, name) or getattr(found, name) for name in _TEXTS}
        if owner.user == owner.user_id:
            known["user"] = found.user
        return replace(owner, labels=owner.labels or found.labels, **known)

    async def _look_up(self, job: tuple[str, float | None]) -> None:
        state = self._look_ups
        try:
            state.found[job] = await asyncio.to_thread(self._query, job[0])
        except FileNotFoundError:
            state.found[job] = None
        except (OSError, subprocess.SubprocessError):
            state.failed += 1
            state.not_before = self.clock() + RETRY_SECONDS

    def _query(self, id: str) -> _Found:
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


def parse_job(text: str) -> _Found:
    """Return the job of squeue's output; None without one. A name with line breaks ends at the first."""
    values = ["" if value in _ABSENT else value for value in text.partition("\n")[0].split(_SEPARATOR, 5)]
    if len(values) != 6:
        return None
    id, user, user_id, partition, account, name = values
    labels = (("array", id),) if "_" in id else ()
    return Owner(
        "slurm_job", id, user=user, user_id=user_id, partition=partition, account=account, name=name, labels=labels
    )


_TEXTS = ("user", "user_id", "account", "partition", "name")


def _lacks(owner: Owner) -> bool:
    return not all(getattr(owner, name) for name in _TEXTS) or owner.user == owner.user_id
