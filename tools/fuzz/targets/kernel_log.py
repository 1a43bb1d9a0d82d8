"""The kernel log as a file: read at once, and as it grows."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pulsed.model.raw_tick import KernelEvent
from pulsed.reader.kernel_log import KernelLog
from tools.fuzz.target import FuzzTarget, pieces, randomness

_ADDRESS = re.compile(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]")


def _events(written: Iterable[bytes]) -> list[KernelEvent]:
    """Return the events of a log that is polled after each write."""
    descriptor = os.memfd_create("kernel_log")
    log = KernelLog(f"/proc/self/fd/{descriptor}", wall=lambda: 1.7e9, uptime=lambda: 1e4)
    try:
        events: list[KernelEvent] = []
        for data in written:
            os.write(descriptor, data)
            while found := log.poll():  # None: it cannot be read, for a reason that `error` has
                events += found
        return events
    finally:
        log.close()
        os.close(descriptor)


def _read(data: bytes) -> object:
    return _events([data])


def _verify(data: bytes, outcome: Any) -> None:
    assert _events(pieces(data, randomness(data))) == outcome, "another reading as the log grows"
    for event in outcome:
        assert event.code >= 0
        assert math.isfinite(event.time)
        assert _ADDRESS.fullmatch(event.pci_bus_id), event
        assert event.text.isprintable()
        assert event.process.isprintable()
        assert event.pid is None or event.pid > 0


def _seeds() -> Iterator[bytes]:
    xid = b"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    yield b"3,1234,5678901234,-;" + xid
    yield b" [ 1234.567890] NVRM: Xid (PCI:0000:3b:00.0): 31, pid=42, name=python3, Ch 00000010, MMU Fault\n"
    yield b"<3>[ 1234.567890] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 40\n"
    yield b"_SOURCE_REALTIME_TIMESTAMP=1700000000123456\nMESSAGE=" + xid + b"\n\n"
    yield b"__REALTIME_TIMESTAMP=1700000000123456\nMESSAGE=NVRM: GPU at 0000:3b:00.0 has fallen off the bus.\n\n"
    yield b"6,1,2,c;a\\x0ab\\xc3\\xbc\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"


KERNEL_LOG = FuzzTarget(
    "kernel_log",
    _read,
    (),
    _verify,
    _seeds,
    (
        *(b"NVRM: Xid (PCI:0000:3b:00): ", b"NVRM: ", b"0000:3b:00.0", b"fallen off the bus", b", pid=", b", name="),
        *(b"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): ", b"Non-fatal", b"Fatal", b"\\x0a", b"3,1,2,-;", b"[ 1.5] "),
        *(b"MESSAGE=", b"__REALTIME_TIMESTAMP=1", b"_SOURCE_REALTIME_TIMESTAMP=1", b"\n\n"),
    ),
)
