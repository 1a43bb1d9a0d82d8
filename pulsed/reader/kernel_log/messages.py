"""Parse NVIDIA driver messages of the kernel log.

Forms of the messages: NVIDIA's XID catalogue, the open kernel modules (`kernel_rc.c`, NVSwitch driver), public logs.
Process and channel are optional and have changed between driver versions. On MIG GPUs the instances follow the PCI
address. Messages of other parts of the kernel may quote what looks like one of the driver, such as the name of a
control group: only the beginning of a message counts. This module does no I/O and has no clock.
"""

from __future__ import annotations

import re

from pulsed.model.raw_tick import KernelEvent

BUS_LOSS_XID = 79
"""The XID of a GPU that has fallen off the bus; the driver does not always print it beside the plain message."""

DRIVERS = (b"NVRM:", b"nvidia-nvswitch")
"""How the messages of NVIDIA's drivers begin."""

_DRIVERS = tuple(name.decode() for name in DRIVERS)
_LONGEST_TEXT = 500
_LONGEST_MESSAGE = 1000
_PCI = r"(?:PCI:)?(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"
_INSTANCES = r"(?: GPU-I:\d{1,4})?(?: GPU-CI:\d{1,4})?"
_CODE = r"(?P<code>[0-9]{1,6})(?![0-9])"
_XID = re.compile(rf"NVRM: Xid \({_PCI}{_INSTANCES}\): {_CODE}(?P<rest>.*)", re.DOTALL)
_SXID = re.compile(rf"nvidia-nvswitch[0-9]{{0,4}}: SXid \({_PCI}\): {_CODE}(?P<rest>.*)", re.DOTALL)
_BUS_LOSS = re.compile(rf"NVRM: [^:]{{0,40}}?\b{_PCI}\b.{{0,120}}?fallen off the bus", re.DOTALL)
_PROCESS = re.compile(r",\s*pid='?(?P<pid>[^,']*)'?(?:,\s*name=(?P<name>[^,]*))?")
_PID = re.compile(r"[0-9]{1,10}")
_FATAL = re.compile(r",\s*(?P<non>Non-)?fatal\b", re.IGNORECASE)


def parse_message(message: str, time: float) -> KernelEvent | None:
    """Parse one kernel message; return None for messages that report no fault of a GPU or NVSwitch.

    Args:
        message: text of the message, without priority and time.
        time: when it was logged, in Unix seconds.
    """
    if not message.startswith(_DRIVERS):  # nearly all messages end here
        return None
    message = message[:_LONGEST_MESSAGE]
    if match := _XID.match(message):
        pid, name = _process(match["rest"])
        return KernelEvent("xid", int(match["code"]), time, _address(match["pci"]), pid, name, None, _text(match))
    if match := _SXID.match(message):
        fatal = _FATAL.match(match["rest"])
        is_fatal = None if fatal is None else fatal["non"] is None
        return KernelEvent(
            "sxid", int(match["code"]), time, _address(match["pci"]), is_fatal=is_fatal, text=_text(match)
        )
    if match := _BUS_LOSS.match(message):
        return KernelEvent("bus_loss", BUS_LOSS_XID, time, _address(match["pci"]), text=_clean(match[0]))
    return None


def _process(rest: str) -> tuple[int | None, str]:
    match = _PROCESS.match(rest)
    if match is None:
        return None, ""
    pid, name = match["pid"].strip(), (match["name"] or "").strip()
    number = int(pid) if _PID.fullmatch(pid) else 0
    return number or None, "" if name == "<unknown>" else _clean(name)


def _address(text: str) -> str:
    """Return a PCI address in DCGM's form: eight digits of domain, upper case, with a function."""
    domain, bus, slot = text.split(":")
    return f"{domain.zfill(8)}:{bus}:{slot if '.' in slot else f'{slot}.0'}".upper()


def _text(match: re.Match[str]) -> str:
    return _clean(f"{match['code']}{match['rest']}")


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:_LONGEST_TEXT]
