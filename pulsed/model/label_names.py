"""Names of the labels of dcgm-exporter's rows, compared without regard to case and separators.

Collectors write labels in lower case or with other separators, and Prometheus puts `exported_` before some of them.
"""

from __future__ import annotations

from functools import lru_cache

from pulsed.model.raw_tick import Labels

EXPORTED = "exported_"
"""Prometheus, without `honorLabels`, puts this before the page's labels and gives the plain names to the scraped pod,
which is the exporter's (dcgm-exporter#340, #363)."""

_NAMES = (
    *("UUID", "gpu", "GPU_I_ID", "GPU_I_PROFILE", "modelName", "device", "pci_bus_id", "Hostname", "vgpu", "err_code"),
    *("pod", "namespace", "container", "pod_uid", "hpc_job", "pod_name", "pod_namespace", "container_name"),
    *("gpu_uuid", "nvlink", "nvswitch", "cpu", "cpucore", "dra_mig_profile", "dra_mig_device_uuid"),
    *("xid", "health_watch", "health_error_code", "clock_event", "kubernetes_node", "node", "instance"),
)
_OTHER_SPELLINGS = ("uuid", "hostname", "model_name")  # of some versions: where both are, they are two labels
_FIELD = "DCGM_FI_"
"""Beginning of labels that are named as DCGM's fields."""


def _fold(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


_BY_FOLDED = {_fold(name): name for name in _NAMES}
_KNOWN = frozenset((*_NAMES, *_OTHER_SPELLINGS))


@lru_cache(maxsize=1024)
def _spelling(name: str) -> str:
    if name in _KNOWN or name.startswith(_FIELD):
        return name
    prefix, bare = (EXPORTED, name[len(EXPORTED) :]) if name.lower().startswith(EXPORTED) else ("", name)
    if bare in _KNOWN:
        return prefix + bare
    if bare.upper().startswith(_FIELD):
        return prefix + bare.upper()
    known = _BY_FOLDED.get(_fold(bare))
    return name if known is None else prefix + known


def with_known_names(labels: Labels) -> Labels:
    """Return labels under the names of dcgm-exporter; the same object if they have them.

    A label keeps its name where the row has another one of the name that it would get: it may be a pod's.
    """
    names = [name for name, _ in labels]
    spellings = [_spelling(name) for name in names]
    if spellings == names:
        return labels
    used: set[str] = {name for name, known in zip(names, spellings, strict=True) if name == known}
    renamed = []
    for (name, value), known in zip(labels, spellings, strict=True):
        free = name == known or known not in used
        used.add(known)
        renamed.append((known if free else name, value))
    return tuple(renamed)
