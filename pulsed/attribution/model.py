"""The users of a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pod:
    """A Kubernetes pod that has a GPU, or a share of one.

    Attributes:
        namespace: its namespace.
        pod: its name.
        container: the container that has the GPU; empty if the source does not name it.
        uid: the pod's UID; empty if the source does not name it.
    """

    namespace: str
    pod: str
    container: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The known users of a GPU; empty does not mean that it is free.

    Attributes:
        pods: without repetition, in the source's order.
        slurm_jobs: job ids, without repetition, in the source's order.
    """

    pods: tuple[Pod, ...] = ()
    slurm_jobs: tuple[str, ...] = ()


NO_USERS = Attribution()
