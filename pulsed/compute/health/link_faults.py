"""The XIDs of NVLinks: what their details mean, and which of them may follow from another GPU's.

Source of the meanings: NVIDIA's XID catalogue, "XID 144-150 Decode". Of a link that is down, bits 25 to 20 of the
interrupt information are the reason; of all others the driver's own classification, fatal or not, decides.

XID 149 is a link that is down. XIDs 145 and 150 of other GPUs of its fabric within a minute may follow from it. A fault
belongs to its GPU and keeps its severity; the message names the XID 149 of another GPU of the same node and tick. Over
nodes, the alerts of faults that follow are left out by the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health.xids import XidSeverity, xid_of
from pulsed.model.clocks import GpuSeconds
from pulsed.model.raw_tick import LinkFault

LINK_XIDS = frozenset(range(144, 151))
"""Codes of NVLink 5."""

LINK_DOWN = 149
"""The code of the GPU whose link is down; others follow from it."""


class DownReason(NamedTuple):
    """The reason why a link is down, with what to do; `is_harmless` if NVIDIA requires no reset."""

    advice: str
    is_harmless: bool = False


_SIGNAL = "check the signal integrity of the link"
_SOFTWARE = "find out which software or user took the link down"

DOWN_REASONS: Mapping[int, DownReason] = {
    **dict.fromkeys((2, 4, 10), DownReason(_SIGNAL)),
    **dict.fromkeys((42, 43), DownReason(f"{_SIGNAL}, and cables, temperature and seating")),
    **dict.fromkeys((15, 17, 22), DownReason(_SOFTWARE)),
    **dict.fromkeys((16, 18), DownReason(f"{_SOFTWARE}; if that does not help, {_SIGNAL}")),
    **dict.fromkeys((21, *range(32, 38)), DownReason("investigate the device at the other end of the link")),
    38: DownReason(_SOFTWARE, is_harmless=True),
    40: DownReason("look for the fault of the host that it follows", is_harmless=True),
}
"""By subcode of XID 149."""


def down_reason(code: int, fault: LinkFault | None) -> DownReason | None:
    """Return why a link is down, as far as that is known."""
    if code != LINK_DOWN or fault is None or fault.subcode is None or "LINK" not in fault.unit:
        return None
    return DOWN_REASONS.get(fault.subcode)


def link_severity(code: int, severity: XidSeverity, fault: LinkFault | None) -> XidSeverity:
    """Return the severity of a code with the details that the driver printed; a configured one stays.

    The driver's classification decides, also against DCGM, for which XID 145 is always fatal. A fault that was
    injected as a test is only information.
    """
    if fault is None or severity == "ok":
        return severity
    if fault.is_injected:
        return "info"
    if severity != xid_of(code).severity:
        return severity
    if not fault.is_fatal:
        return "info" if severity == "info" else "warn"
    reason = down_reason(code, fault)
    return "warn" if reason is not None and reason.is_harmless else "crit"


def link_of(fault: LinkFault | None, links_down: Sequence[int]) -> int | None:
    """Return the link of an XID: from the kernel's message, otherwise the only link that is down."""
    if fault is not None and fault.link is not None:
        return fault.link
    return links_down[0] if len(links_down) == 1 else None


def link_name(link: int | None) -> str:
    """Return the name of a link in messages: `link 14`, or nothing for none.

    >>> link_name(14), link_name(None)
    ('link 14', '')
    """
    return "" if link is None else f"link {link}"


def fault_text(code: int, fault: LinkFault | None, link: int | None) -> str:
    """Return the details of an XID about a link in words.

    >>> fault_text(149, LinkFault("NETIR_LINK_DOWN", True, subcode=37), 14)
    'XID 149.37, NETIR_LINK_DOWN on link 14, fatal'
    """
    where = f" on {link_name(link)}" if link is not None else ""
    if fault is None:
        return f"XID {code}{where}, {xid_of(code).description}"
    subcode = f".{fault.subcode}" if fault.subcode else ""
    injected = ", injected as a test" if fault.is_injected else ""
    return f"XID {code}{subcode}, {fault.unit}{where}, {'fatal' if fault.is_fatal else 'not fatal'}{injected}"


WINDOW = 60.0
"""Seconds: NVIDIA's guide searches 30 s for the link that went down, and an exporter may report it 30 s later."""

FOLLOWERS = (145, 150)
"""Codes of GPUs whose data or management packets are lost on a link that is down."""


SOME_RACK = "rack"
"""The fabric of a rack-scale product whose source does not name it: most processes read one rack, or a node of one."""


class LinkDown(NamedTuple):
    """A link of a GPU that went down.

    Attributes:
        gpu: its index, or else its UUID.
        node: its host.
        began: when, by the clock of the GPU to which it is shown.
    """

    gpu: str
    node: str
    began: GpuSeconds

    def precedes(self, code: int, began: GpuSeconds) -> bool:
        """Return whether a fault that began at a time of that clock may follow from it."""
        return code in FOLLOWERS and abs(self.began - began) <= WINDOW

    def __str__(self) -> str:
        """Return the fault in words."""
        return f"XID {LINK_DOWN} of GPU {self.gpu}"


def is_link_down(record: XidRecord) -> bool:
    """Return whether a record of `LINK_DOWN` is about a link that really failed, at a known time."""
    fault = record.fault
    return record.dated and (fault is None or (fault.is_fatal and not fault.is_injected))
