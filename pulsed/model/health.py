"""Results of the health layer: states, the evidence for them, and the remedies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device

State = Literal["unknown", "ok", "info", "warn", "hot", "crit"]
"""`unknown` means that the inputs are absent; it is never ok. `hot` ranks above `warn`, because heat acts at once."""

STATES: tuple[State, ...] = ("unknown", "ok", "info", "warn", "hot", "crit")
"""From the least to the most severe."""

RAISED_STATES: tuple[State, ...] = STATES[2:]
"""The states of a raised check."""

SEVERITY: Mapping[State, int] = {state: number - 1 for number, state in enumerate(STATES)}
"""-1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit."""


@dataclass(frozen=True, slots=True)
class CheckState:
    """The result of one check for one GPU.

    Attributes:
        since: when the state was entered, in Unix seconds; None for a check that was never evaluated.
        last_event: in Unix seconds; None for none or an unknown time.
        message, remedy: the problem and its remedy; empty while it is not raised, except for `telemetry` while the
            source does not deliver, and for problems that `dcgm_health` ignores.
        evidence: the numbers that decide, by name: of a raised check at present, or when its inputs were last there;
            of others when the state was entered.
        covered: whether its inputs are present. A latched state outlives them.
        applies: whether the check makes sense for this device. If not it is unknown and not part of the coverage.
    """

    id: str
    state: State
    since: Unix | None = None
    last_event: Unix | None = None
    message: str = ""
    evidence: tuple[tuple[str, float], ...] = ()
    remedy: str = ""
    covered: bool = False
    applies: bool = True

    @property
    def severity(self) -> int:
        """-1 unknown to 4 crit."""
        return SEVERITY[self.state]


def worst_state(checks: tuple[CheckState, ...], is_fresh: bool) -> tuple[State, float]:
    """Return the state of a GPU with these checks, and the share of those that apply which are known."""
    severities = [SEVERITY[check.state] for check in checks if check.applies]
    severity = max(severities, default=-1)
    if not is_fresh:
        severity = max([check.severity for check in checks if check.applies and check.id != "telemetry"], default=-1)
        severity = severity if severity >= SEVERITY["warn"] else -1
    evaluated = len(severities) - severities.count(SEVERITY["unknown"])
    coverage = evaluated / len(severities) if severities else 0.0
    return STATES[severity + 1], coverage


def applicable_checks(checks: Iterable[CheckState]) -> int:
    """Return how many checks apply."""
    return sum([check.applies for check in checks])


def known_checks(checks: Iterable[CheckState]) -> int:
    """Return how many checks apply and have a known state."""
    return sum([check.applies and check.state != "unknown" for check in checks])


OTHER_XIDS = "other"
"""Stands for the codes beyond those that are kept of a GPU."""


@dataclass(frozen=True, slots=True)
class XidLast:
    """The last XID of a GPU. `time` is in Unix seconds, and None for an XID from before the first sample."""

    code: int
    time: Unix | None
    description: str


class Nvlink(NamedTuple):
    """One NVLink of a GPU.

    Attributes:
        link: its number.
        state: 0 not up, 1 up, 2 asleep; None if unknown.
        is_down: whether it is not up and should be.
        counters: by kind (`crc_flit_errors`, `link_recoveries`, ...), since the driver was loaded.
    """

    link: int
    state: float | None = None
    is_down: bool = False
    counters: tuple[tuple[str, float], ...] = ()


class NvlinkFault(NamedTuple):
    """The fault of an NVLink that raises the check `nvlink_fault` of a GPU.

    Attributes:
        xid: its code.
        link: number of the link; None if it is not known, or not one.
        time: when it began, in Unix seconds.
        fabric: where faults follow from each other: cluster and clique, or without them the node.
    """

    xid: int
    link: int | None
    time: Unix
    fabric: str


@dataclass(frozen=True, slots=True)
class Health:
    """Health of one GPU: the worst of the checks that are known, `unknown` for none.

    Attributes:
        coverage: share of the checks that apply whose state is known, 0..1.
        checks: all enabled checks, in the order of the table.
        events: by check, the number of events so far.
        xid_events: by XID, the number of events so far: all critical codes, others once seen, and `OTHER_XIDS`.
        last_reset: when it was last reset, or its driver or node restarted, in Unix seconds; None if never seen.
        nvlinks: those that the source has one by one, by number.
        nvlink_fault: the one that is raised; None for none.
    """

    state: State
    coverage: float
    checks: tuple[CheckState, ...]
    events: tuple[tuple[str, int], ...] = ()
    xid_events: tuple[tuple[int | str, int], ...] = ()
    xid_last: XidLast | None = None
    last_reset: Unix | None = None
    nvlinks: tuple[Nvlink, ...] = ()
    nvlink_fault: NvlinkFault | None = None

    @property
    def severity(self) -> int:
        """-1 unknown to 4 crit."""
        return SEVERITY[self.state]

    @property
    def problems(self) -> list[CheckState]:
        """The checks that are worse than ok."""
        return [check for check in self.checks if check.applies and SEVERITY[check.state] > 0]

    def check(self, id_: str) -> CheckState:
        """Return a check by its id.

        Raises:
            KeyError: there is no such check, or it is disabled.
        """
        for check in self.checks:
            if check.id == id_:
                return check
        raise KeyError(id_)


NOT_EVALUATED = Health("unknown", 0.0, ())
"""Health of a device before its first sample."""


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A change of the state of a check or of a GPU, at a time in Unix seconds.

    Attributes:
        check: id of the check; empty for the GPU as a whole.
    """

    check: str
    before: State
    after: State
    time: Unix
    message: str
    remedy: str
    device: Device


@dataclass(frozen=True, slots=True)
class XidEvent:
    """An XID that happened, at a time in Unix seconds.

    Attributes:
        count: how often, if several were reported at once.
        total: how often so far.
        detail: what the driver printed about it, in words; empty for nothing.
    """

    device: Device
    code: int
    severity: str
    time: Unix
    count: int
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Health of this host apart from its GPUs: the worst result of the checks of the node.

    Attributes:
        checks: those that are enabled and apply, in the order of the table.
    """

    checks: tuple[CheckState, ...]

    @property
    def state(self) -> State:
        """The worst known state; `unknown` for none."""
        return max((check.state for check in self.checks), key=SEVERITY.__getitem__, default="unknown")

    @property
    def problems(self) -> list[CheckState]:
        """The checks that are worse than ok."""
        return [check for check in self.checks if check.severity > 0]
