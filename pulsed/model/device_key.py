"""Keys by which attribution sources name devices: UUIDs, indexes, device files and PCI addresses.

A name is any form that the kubelet, Slurm's prolog scripts or dcgm-exporter write; its key is the one spelling of it
under which a source stores its claims, and which is looked up for a GPU.
"""

from __future__ import annotations

import re
from functools import lru_cache

_REPLICA = re.compile(r"(?:::|/vgpu)[0-9]+$")
_LEGACY_MIG = re.compile(r"mig-(gpu-[0-9a-f-]+)/([0-9]+)/[0-9]+")
_UUID = re.compile(r"(?:gpu|mig)-[0-9a-z-]+")
_INDEX = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_DEVICE_FILE = re.compile(r"(nvidia[0-9]{1,4})(?:/gi([0-9]{1,4}))?")
_PCI = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@lru_cache(maxsize=4096)
def device_key(name: str) -> str | None:
    """Return the key of a device by a name of it; None if it is not one.

    Forms: `GPU-<uuid>`, `MIG-<uuid>`, `MIG-GPU-<uuid>/<gi>/<ci>`, `3` (index), `3.7` (index and GPU instance),
    `nvidia3`, `nvidia3/gi7`, a PCI address. A replica of a device that is advertised several times (time slicing, MPS)
    has the device's key: `::<number>` or, after a device file, `/vgpu<number>` is ignored. The key of a MIG instance
    without a UUID of its own is the board's key, a slash and the number of the GPU instance.
    """
    name = _REPLICA.sub("", name.strip().lower())
    if match := _LEGACY_MIG.fullmatch(name):
        return f"{match[1]}/{match[2]}"
    if match := _INDEX.fullmatch(name) or _DEVICE_FILE.fullmatch(name):
        board = match[1].lstrip("0") or "0" if match[1].isdecimal() else match[1]
        return f"{board}/{int(match[2])}" if match[2] else board
    if match := _PCI.fullmatch(name):
        return f"{match[1].zfill(8)}:{match[2]}"
    return name if _UUID.fullmatch(name) else None


def board_keys(uuid: str, pci_bus_id: str, device_file: str, index: str, *, is_local: bool) -> tuple[str, ...]:
    """Return the keys of a board, the most certain first.

    Args:
        uuid: of the board; empty if unknown, like the others.
        pci_bus_id: in any of its spellings.
        device_file: such as `nvidia3`. Unknown, it is derived from the index: they differ only where the driver
            numbers GPUs in another order than their PCI addresses.
        index: of the board.
        is_local: whether the board is in this host; keys that other hosts use, too, are left out if it is not.
    """
    keys = [uuid.lower()]
    if is_local:
        address = _PCI.fullmatch(pci_bus_id.lower())
        file = device_file.lower() or (f"nvidia{index}" if index else "")
        keys += [f"{address[1].zfill(8)}:{address[2]}" if address else "", file, index]
    return tuple(filter(None, keys))
