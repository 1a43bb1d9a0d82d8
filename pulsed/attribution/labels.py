"""The owners of a GPU, from the labels of an exporter's page.

dcgm-exporter writes pods and jobs into the labels of every row of a GPU; a row may stand there once per pod or job.
Prometheus may have renamed those labels. This module must not depend on the format of pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulsed.model.owner import MAX_SHARERS, Owner, Owners, pod

# dcgm-exporter's names, then those of its --use-old-namespace.
_POD = ("pod", "pod_name")
_NAMESPACE = ("namespace", "pod_namespace")
_CONTAINER = ("container", "container_name")
_UID = ("pod_uid",)
_JOB = ("hpc_job",)

EXPORTED = "exported_"
"""Prometheus, without `honorLabels`, puts this before the page's labels and gives the plain names to the scraped pod,
which is the exporter's (dcgm-exporter#340, #363)."""

_EXPORTERS_OWN = "dcgm-exporter"
"""A pod with this in its name has no GPU: it is the scraped one, on a row that had no pod."""

SHARES = frozenset({prefix + name for name in (*_POD, *_UID, *_JOB, "vgpu") for prefix in ("", EXPORTED)})
"""Labels that may mean a row is one pod's or one job's view of a GPU, beside a row of the whole."""


def is_relabelled(rows: Iterable[Mapping[str, str]]) -> bool:
    """Return whether Prometheus has renamed the labels of a page."""
    names = {EXPORTED + name for name in (*_POD, *_NAMESPACE, *_CONTAINER)}
    return any(not names.isdisjoint(row) for row in rows)


def owners_of(rows: Iterable[Mapping[str, str]], relabelled: bool = False) -> Owners | None:
    """Return the owners of one device, jobs first; None without any: a page without owners may lack them.

    The same pod on several rows, also as several replicas (label `vgpu`), is one.

    Args:
        rows: labels of the rows of the device.
        relabelled: as returned by `is_relabelled`.
    """
    prefix = EXPORTED if relabelled else ""
    pods: dict[tuple[str, str, str], str] = {}
    jobs: dict[str, None] = {}
    for row in rows:
        name = _first(row, _POD, prefix)
        if name and _EXPORTERS_OWN not in name:
            key = (_first(row, _NAMESPACE, prefix), name, _first(row, _CONTAINER, prefix))
            pods[key] = pods.get(key) or _first(row, _UID, prefix) or _first(row, _UID, "")
        if job := _first(row, _JOB, prefix) or _first(row, _JOB, ""):
            jobs[job] = None
    owners = (*(Owner("slurm_job", job) for job in jobs), *(pod(*key, uid) for key, uid in pods.items()))
    return owners[:MAX_SHARERS] or None


def _first(row: Mapping[str, str], names: tuple[str, ...], prefix: str) -> str:
    return next((row[prefix + name] for name in names if row.get(prefix + name)), "")
