"""Keys by which attribution sources name devices: UUIDs, indexes, device files and PCI addresses.

A name is any form that the kubelet, Slurm's prolog scripts or dcgm-exporter write; its key is the one spelling of it
under which a source stores its claims, and which is looked up for a GPU.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_REPLICA = re.compile(r"(.+?)(?:::|/vgpu)([0-9]+)")
_LEGACY_MIG = re.compile(r"mig-(gpu-[0-9a-f-]+)/([0-9]+)/[0-9]+")
_UUID = re.compile(r"(?:gpu|mig)-[0-9a-z-]+")
_INDEX = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_DEVICE_FILE = re.compile(r"(nvidia[0-9]{1,4})(?:/gi([0-9]{1,4}))?")
_PCI = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


class ClaimedDevice(NamedTuple):
    """A device as a source names it.

    Attributes:
        key: of the device; of a MIG instance without a UUID of its own it is the board's key, a slash and the number
            of the GPU instance.
        replica: number of the share of a device that is advertised several times (time slicing, MPS); empty if it is
            not.
    """

    key: str
    replica: str = ""


@lru_cache(maxsize=4096)
def parse_device(name: str) -> ClaimedDevice | None:
    """Parse the name of a device; None if it is not one.

    Forms: `GPU-<uuid>`, `MIG-<uuid>`, `MIG-GPU-<uuid>/<gi>/<ci>`, `3` (index), `3.7` (index and GPU instance),
    `nvidia3`, `nvidia3/gi7`, a PCI address; each also with `::<replica>`, those of device files with `/vgpu<replica>`.
    """
    name, replica = name.strip().lower(), ""
    if match := _REPLICA.fullmatch(name):
        name, replica = match[1], match[2]
    if match := _LEGACY_MIG.fullmatch(name):
        return ClaimedDevice(f"{match[1]}/{match[2]}", replica)
    if match := _INDEX.fullmatch(name) or _DEVICE_FILE.fullmatch(name):
        board = match[1].lstrip("0") or "0" if match[1].isdecimal() else match[1]
        return ClaimedDevice(f"{board}/{int(match[2])}" if match[2] else board, replica)
    if match := _PCI.fullmatch(name):
        return ClaimedDevice(f"{match[1].zfill(8)}:{match[2]}", replica)
    return ClaimedDevice(name, replica) if _UUID.fullmatch(name) else None


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
