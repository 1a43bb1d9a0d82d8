"""Where a fault of NVLinks began: among all GPUs of a process, the one that the others follow from.

All faults of a fabric that are closer than `WINDOW` are one incident. Its origin is the same in whatever order the
targets are read: a verdict changes when a fault is seen later that came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pulsed.compute.health.link_faults import LINK_DOWN, LINK_XIDS, link_name, link_of
from pulsed.compute.health.xid_log import XidRecord
from pulsed.model.gpu import Device

WINDOW = 60.0
"""Seconds: NVIDIA's guide searches 30 s for the link that went down, and an exporter may report it 30 s later."""


class ReportedFault(NamedTuple):
    """A fault of one GPU: the newest burst of a code.

    Attributes:
        board: node, and UUID or else index.
        began: in Unix seconds.
        is_fatal: as the driver classifies it; None without its message.
        fabric: cluster and clique of the GPU; empty if unknown.
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
        origin: the fault that it follows from; None if it is the origin itself.
        followers: GPUs that follow from it.
    """

    origin: ReportedFault | None = None
    followers: int = 0


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
                device.fabric,
            )
            for code, record in records.items()
            if code in LINK_XIDS and record.dated and not (record.fault and record.fault.is_injected)
        ]
    )


def _rank(fault: ReportedFault) -> tuple[object, ...]:
    return (fault.is_fatal is False, fault.code != LINK_DOWN, fault.began, fault.board, fault.code)


def verdicts_on(faults: Iterable[ReportedFault]) -> dict[ReportedFault, Verdict]:
    """Return the roles of the faults of all GPUs."""
    verdicts: dict[ReportedFault, Verdict] = {}
    for incident in _incidents(sorted(faults, key=lambda fault: (fault.fabric, fault.began))):
        first = min(incident, key=_rank)
        followers = [fault for fault in incident if _follows(fault, first)]
        boards = {fault.board for fault in followers} - {first.board}
        for fault in incident:
            verdicts[fault] = Verdict(None, len(boards) if fault.board == first.board else 0)
        verdicts |= dict.fromkeys(followers, Verdict(first))
    return verdicts


def _follows(fault: ReportedFault, first: ReportedFault) -> bool:
    """Return whether a fault follows from the first of its incident."""
    is_same = fault.board == first.board and fault.code == first.code  # under another key
    # Two links that go down on nodes without a known fabric need not be of the same rack.
    is_another = fault.code == LINK_DOWN and not fault.fabric and fault.board[0] != first.board[0]
    return not is_same and not is_another


def _incidents(faults: Sequence[ReportedFault]) -> Iterator[list[ReportedFault]]:
    """Yield groups of faults, which are sorted by fabric and time."""
    group: list[ReportedFault] = []
    for fault in faults:
        if group and (fault.fabric != group[-1].fabric or fault.began - group[-1].began > WINDOW):
            yield group
            group = []
        group.append(fault)
    if group:
        yield group
