"""Parse NVIDIA driver messages of the kernel log.

Forms of the messages: NVIDIA's XID catalogue, the open kernel modules (`nv-report-err`, NVSwitch driver), public logs.
Process and channel are optional and have changed between driver versions. This module does no I/O and has no clock.
"""

from __future__ import annotations

import re

from pulsed.reader.tick import KernelEvent

BUS_LOSS_XID = 79
"""The XID of a GPU that has fallen off the bus; the driver does not always print it beside the plain message."""

_PCI = r"(?:PCI:)?(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"
_XID = re.compile(rf"NVRM: Xid \({_PCI}\): (?P<code>\d+)(?P<rest>.*)", re.DOTALL)
_SXID = re.compile(rf"nvidia-nvswitch\d*: SXid \({_PCI}\): (?P<code>\d+)(?P<rest>.*)", re.DOTALL)
_BUS_LOSS = re.compile(rf"NVRM: .*\b{_PCI}\b.*fallen off the bus", re.DOTALL)
_PROCESS = re.compile(r",\s*pid='?(?P<pid>[^,']*)'?(?:,\s*name=(?P<name>[^,]*))?")
_FATAL = re.compile(r",\s*(?P<non>Non-)?fatal\b", re.IGNORECASE)
_LONGEST_TEXT = 500


def parse_message(message: str, time: float) -> KernelEvent | None:
    """Parse one kernel message; return None for messages that report no fault of a GPU or NVSwitch.

    Args:
        message: text of the message, without priority and time.
        time: when it was logged, in Unix seconds.
    """
    if "NVRM" not in message and "nvswitch" not in message:  # nearly all messages end here
        return None
    if match := _XID.search(message):
        pid, name = _process(match["rest"])
        return KernelEvent("xid", int(match["code"]), time, _address(match["pci"]), pid, name, None, _text(match))
    if match := _SXID.search(message):
        fatal = _FATAL.match(match["rest"])
        is_fatal = None if fatal is None else fatal["non"] is None
        return KernelEvent(
            "sxid", int(match["code"]), time, _address(match["pci"]), is_fatal=is_fatal, text=_text(match)
        )
    if match := _BUS_LOSS.search(message):
        return KernelEvent("bus_loss", BUS_LOSS_XID, time, _address(match["pci"]), text=_clean(match[0]))
    return None


def _process(rest: str) -> tuple[int | None, str]:
    match = _PROCESS.match(rest)
    if match is None:
        return None, ""
    pid, name = match["pid"].strip(), (match["name"] or "").strip()
    return int(pid) if pid.isdecimal() and int(pid) else None, "" if name == "<unknown>" else _clean(name)


def _address(text: str) -> str:
    """Return a PCI address in DCGM's form: eight digits of domain, upper case, with a function."""
    domain, bus, slot = text.split(":")
    return f"{domain.zfill(8)}:{bus}:{slot if '.' in slot else f'{slot}.0'}".upper()


def _text(match: re.Match[str]) -> str:
    return _clean(f"{match['code']}{match['rest']}")


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:_LONGEST_TEXT]
