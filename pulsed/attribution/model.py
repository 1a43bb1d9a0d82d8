"""What is known about the users of a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pod:
    """A Kubernetes pod that has a GPU, or a share of one.

    Attributes:
        namespace: its namespace.
        pod: its name.
        container: the container that has the GPU; empty when the source does not say.
        uid: the pod's UID; empty when the source does not say.
    """

    namespace: str
    pod: str
    container: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Everybody who is known to use a GPU; empty does not mean that nobody does.

    Attributes:
        pods: without repetition, in the source's order.
        slurm_jobs: job ids, without repetition, in the source's order.
    """

    pods: tuple[Pod, ...] = ()
    slurm_jobs: tuple[str, ...] = ()


NO_USERS = Attribution()
