"""The users of a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pod:
    """A Kubernetes pod that has a GPU, or a share of one; container and UID are empty if not known."""

    namespace: str
    pod: str
    container: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The known users of a GPU, without repetition, in the source's order; empty does not mean that it is free."""

    pods: tuple[Pod, ...] = ()
    slurm_jobs: tuple[str, ...] = ()


NO_USERS = Attribution()
