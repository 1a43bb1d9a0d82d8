"""The names of owners: all by which users, Slurm and Kubernetes refer to a job or a pod.

A task of a job array has its raw id (501), its name (500_1), and the id of the array (500), which all tasks have. The
components of a heterogeneous job have 701, 700+1 and 700 in the same way.
"""

from __future__ import annotations

import re

from pulsed.model.owner import Owner

ARRAY, COMPONENT, RAW_ID = "array", "component", "job_id"
"""Labels of Slurm jobs: the names of array task and component, and the raw id if another one is used."""

_STEP = re.compile(r"(\d+(?:[_+]\d+)?)\.\w+")
_PART = re.compile(r"(\d+)[_+]\d+")


def names_of_owner(owner: Owner) -> set[str]:
    """Return all names by which an owner is found."""
    names = {owner.id, owner.uid, group_of(owner)}
    if owner.kind == "slurm_job":
        labels = dict(owner.labels)
        names |= {labels.get(name, "") for name in (ARRAY, COMPONENT, RAW_ID)}
    if owner.has_pod:
        names |= {
            owner.name,
            f"{owner.namespace}/{owner.name}",
            f"pod:{owner.namespace}/{owner.name}",
            f"pod:{owner.namespace}/{owner.name}/{owner.container}",
        }
    return names - {""}


def part_of(owner: Owner) -> str:
    """Return the name of a job as a task of its array or a component; empty if it is neither."""
    labels = dict(owner.labels)
    name = labels.get(ARRAY) or labels.get(COMPONENT) or owner.id
    return name if owner.kind == "slurm_job" and _PART.fullmatch(name) else ""


def group_of(owner: Owner) -> str:
    """Return the id of the array or the heterogeneous job that a job is a part of; empty without one."""
    match = _PART.fullmatch(part_of(owner))
    return match[1] if match else ""


def without_step(name: str) -> str:
    """Return the name of the job of a step.

    >>> [without_step(name) for name in ("4711.0", "500_1.batch", "web.1")]
    ['4711', '500_1', 'web.1']
    """
    match = _STEP.fullmatch(name)
    return match[1] if match else name
