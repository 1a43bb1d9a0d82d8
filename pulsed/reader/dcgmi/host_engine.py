"""The epoch of the host engine of this machine: its process, as far as it is visible."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")

_NAME = b"nv-hostengine"

_START = 19
"""Field 22 of `/proc/PID/stat`, start in clock ticks since boot, as an index behind the name of the program."""


def engine_epoch(proc: Path = PROC) -> str:
    """Return an opaque text of the running host engine, another one after each start.

    Empty unless exactly one is visible: in a container it is not, and an exporter may have an engine of its own.
    """
    found = [start for folder in proc.glob("[0-9]*") if (start := _start(folder))]
    return found[0] if len(found) == 1 else ""


def _start(folder: Path) -> str:
    """Return process id and start of a host engine; empty for another process, or one that has ended."""
    try:
        if (folder / "comm").read_bytes().strip() != _NAME:
            return ""
        status = (folder / "stat").read_bytes()
        return f"{folder.name}/{status.rpartition(b')')[2].split()[_START].decode()}"
    except (OSError, IndexError):
        return ""
