"""Identify the devices of an exporter's rows as they are parsed, to reject a page with too many of them early.

A device that is parsed, translated and evaluated costs a hundred times as much as a row.
"""

from __future__ import annotations

from pulsed.model.raw_tick import Labels

_NOT_A_GPU = frozenset({"nvlink", "nvswitch", "cpu", "cpucore"})


def device_of(labels: Labels) -> int | None:
    """Return a hash of the GPU or MIG instance that labels name; None if they name none.

    `translate.identity` identifies devices by the same labels; a test holds both equal on all samples.
    """
    pairs = dict(labels)
    uuid, gpu = pairs.get("UUID") or pairs.get("uuid"), pairs.get("gpu")
    if not uuid and (not gpu or not _NOT_A_GPU.isdisjoint(pairs)):
        return None
    node = pairs.get("Hostname") or pairs.get("hostname") or pairs.get("instance")
    return hash((node, uuid or f"gpu {gpu}", pairs.get("GPU_I_ID")))
