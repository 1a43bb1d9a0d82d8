"""The XIDs of NVLinks: what their details mean, and where a fault began that several GPUs report.

Source of the meanings: NVIDIA's XID catalogue, "XID 144-150 Decode". Of a link that is down, bits 25 to 20 of the
interrupt information are the reason; of all others the driver's own classification, fatal or not, decides.

XID 149 is a link that is down. XIDs 145 and 150 of other GPUs of its fabric within `WINDOW` follow from it, unless they
came before: then all keep their own severity. A verdict is the same in whatever order the targets are read; it changes
when a fault is seen later that came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pulsed.compute.health.xid_log import XidRecord
from pulsed.compute.health.xids import XidSeverity, xid_of
from pulsed.compute.products import is_rack_scale
from pulsed.model.gpu import Device
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
    """Return the link that an XID is about: that of the kernel's message, otherwise the only one that is down."""
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

CLOCK_ERROR = 5.0
"""Seconds by which the clocks of nodes, and the times of their samples, may differ."""

FOLLOWERS = (145, 150)
"""Codes of GPUs whose data or management packets are lost on a link that is down."""

SOME_RACK = "rack"
"""The fabric of a rack-scale product whose source does not name it: most processes read one rack, or a node of one."""


class ReportedFault(NamedTuple):
    """A fault of one GPU: the newest burst of a code.

    Attributes:
        board: node, and UUID or else index.
        began: in Unix seconds.
        is_fatal: as the driver classifies it; None without its message.
        fabric: cluster and clique of the GPU; empty if unknown, `SOME_RACK` of a product whose fabric is a rack.
    """

    code: int
    began: float
    board: tuple[str, str]
    gpu: str
    link: int | None
    is_fatal: bool | None
    fabric: str

    def __str__(self) -> str:
        """Return the fault in words."""
        link = f", {link_name(self.link)}" if self.link is not None else ""
        return f"XID {self.code} of GPU {self.gpu} of {self.board[0]}{link}"


class Verdict(NamedTuple):
    """The role of a fault in its incident.

    Attributes:
        origin: the fault that it follows from.
        followers: GPUs whose faults follow from it.
        down: GPUs of its node with a link that went down within `WINDOW`, its own included.
        doubt: a link that went down within `WINDOW` and may be its cause.
    """

    origin: ReportedFault | None = None
    followers: int = 0
    down: int = 0
    doubt: ReportedFault | None = None


ALONE = Verdict()


def faults_of(
    records: Mapping[int, XidRecord], epoch: float, device: Device, here: str, links_down: Sequence[int]
) -> tuple[ReportedFault, ...]:
    """Return the faults of a GPU that may be an origin or follow from one: not those that were injected.

    Args:
        epoch: Unix seconds at time 0 of the records.
        here: the node of a device whose source does not name it.
        links_down: as `link_of` has them.
    """
    entity = device.entity
    return tuple(
        [
            ReportedFault(
                code,
                round(epoch + record.began, 1),
                (entity.node or here, entity.uuid or entity.gpu),
                entity.gpu or entity.uuid,
                link_of(record.fault, links_down),
                record.fault.is_fatal if record.fault else None,
                device.fabric or (SOME_RACK if is_rack_scale(device.model) else ""),
            )
            for code, record in records.items()
            if code in LINK_XIDS and record.dated and not (record.fault and record.fault.is_injected)
        ]
    )


def verdicts_on(faults: Iterable[ReportedFault]) -> dict[ReportedFault, Verdict]:
    """Return the roles of the faults of all GPUs."""
    sorted_faults = sorted(set(faults), key=lambda fault: (fault.began, fault.board, fault.code))
    links_down = [fault for fault in sorted_faults if fault.code == LINK_DOWN and fault.is_fatal is not False]
    verdicts = {fault: _verdict_on(fault, links_down) for fault in sorted_faults}
    followers: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for fault, verdict in verdicts.items():
        if verdict.origin is not None:
            followers.setdefault(verdict.origin.board, set()).add(fault.board)
    for fault in links_down:
        boards = followers.get(fault.board, set()) - {fault.board}
        verdicts[fault] = verdicts[fault]._replace(followers=len(boards))
    return verdicts


def _verdict_on(fault: ReportedFault, links_down: Sequence[ReportedFault]) -> Verdict:
    """Return the role of a fault without what follows from it."""
    near = [down for down in links_down if abs(down.began - fault.began) <= WINDOW]
    if fault.code == LINK_DOWN:
        return Verdict(down=len({down.board for down in near if down.board[0] == fault.board[0]}))
    if fault.code not in FOLLOWERS:
        return Verdict()
    related = [down for down in near if _shares_fabric(down, fault)]
    if causes := [down for down in related if down.began <= fault.began + CLOCK_ERROR]:
        return Verdict(min(causes, key=lambda down: (down.board[0] != fault.board[0], down.began)))
    unrelated = [down for down in near if not (_is_named(down) and _is_named(fault))]
    return Verdict(doubt=next(iter(related or unrelated), None))


def _shares_fabric(one: ReportedFault, other: ReportedFault) -> bool:
    """Return whether two faults are known to be of one NVLink fabric."""
    if _is_named(one) and _is_named(other):
        return one.fabric == other.fabric
    return one.board[0] == other.board[0] or one.fabric == other.fabric == SOME_RACK


def _is_named(fault: ReportedFault) -> bool:
    """Return whether the source names the fabric."""
    return fault.fabric not in ("", SOME_RACK)
