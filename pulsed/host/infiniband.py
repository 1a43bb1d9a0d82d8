"""The ports of InfiniBand and RoCE adapters, from /sys/class/infiniband."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pulsed.host.pci_bus import text_of
from pulsed.model.host import PORT_COUNTERS, InfinibandPort

_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec")
_NUMBER = re.compile(r"[0-9]{1,20}")


def read_ports(root: Path, counters: Collection[str] = PORT_COUNTERS) -> tuple[InfinibandPort, ...] | None:
    """Return the ports in the order of their names; None if there is no sysfs to see.

    Args:
        root: folder with `sys` of the host.
        counters: those of `PORT_COUNTERS` to read.
    """
    if not (root / "sys/class").is_dir():
        return None
    return tuple([_port(folder, counters) for folder in sorted((root / "sys/class/infiniband").glob("*/ports/[0-9]*"))])


def _port(folder: Path, counters: Collection[str]) -> InfinibandPort:
    device = folder.parent.parent
    rate = _RATE.match(text_of(folder / "rate"))
    counted = {
        name: int(text) * counter.unit
        for name, counter in PORT_COUNTERS.items()
        if name in counters and _NUMBER.fullmatch(text := text_of(folder / counter.path))
    }
    return InfinibandPort(
        device.name,
        folder.name,
        f"{text_of(device / 'board_id') or device.name} {text_of(folder / 'link_layer')}",
        _word(folder / "state"),
        _word(folder / "phys_state"),
        float(rate[1]) * 1e9 / 8 if rate else None,
        counted,
    )


def _word(path: Path) -> str:
    """Return the word of `4: ACTIVE`."""
    return text_of(path).rpartition(": ")[2]
