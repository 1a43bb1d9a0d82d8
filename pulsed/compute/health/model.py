"""What health delivers: states, what decided them, and what to do.

The same objects are given again for as long as nothing of them changes, so that whoever renders them can compare by
identity. Knows no rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pulsed.compute.tracker import GpuTrack
from pulsed.translate.tick import Device

State = Literal["unknown", "ok", "info", "warn", "hot", "crit"]
"""`unknown` means that the inputs are absent; it is never ok. `hot` stands above `warn`, because heat acts now."""

STATES: tuple[State, ...] = ("unknown", "ok", "info", "warn", "hot", "crit")
"""From the least to the worst."""

SEVERITY: Mapping[State, int] = {state: number - 1 for number, state in enumerate(STATES)}
"""-1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit."""


@dataclass(frozen=True, slots=True)
class CheckState:
    """What one check says of one GPU.

    Attributes:
        id: of the check, as in `pulsed.compute.health.checks.CHECKS`.
        state: what it says.
        since: when it began to say so, in Unix seconds; None for a check that was never judged.
        last_event: when the last event that counts for it happened, in Unix seconds; None for none, or when its time is
            not known.
        message: one line for a person; empty while all is well.
        evidence: the numbers that decided, by name, as they were when the state was entered.
        remedy: what to do about it; empty while all is well.
        covered: whether its inputs are there now. A latched state outlives them.
        applies: whether the check makes sense for this device at all. If not it is unknown, and not in the coverage.
    """

    id: str
    state: State
    since: float | None = None
    last_event: float | None = None
    message: str = ""
    evidence: tuple[tuple[str, float], ...] = ()
    remedy: str = ""
    covered: bool = False
    applies: bool = True

    @property
    def severity(self) -> int:
        """-1 unknown to 4 crit."""
        return SEVERITY[self.state]


@dataclass(frozen=True, slots=True)
class XidLast:
    """The last XID that was seen of a GPU.

    Attributes:
        code: which.
        time: when it was seen to happen, in Unix seconds; None when it was there before anybody looked.
        description: what it means, in a few words.
    """

    code: int
    time: float | None
    description: str


@dataclass(frozen=True, slots=True)
class Health:
    """Health of one GPU.

    Attributes:
        state: the worst of the known checks; `unknown` when none is known.
        severity: the same as a number, -1..4.
        coverage: share of the checks that apply whose state is known, 0..1.
        checks: all checks that are not disabled, in the order of the table.
        events: by check that counts any, how many events were seen so far; from 0 on.
        xid_events: by XID, how many were seen so far: all codes that are critical, and others once seen.
        xid_last: the last XID; None for none.
    """

    state: State
    severity: int
    coverage: float
    checks: tuple[CheckState, ...]
    events: tuple[tuple[str, int], ...] = ()
    xid_events: tuple[tuple[int, int], ...] = ()
    xid_last: XidLast | None = None

    def check(self, id_: str) -> CheckState:
        """Give a check by its id.

        Raises:
            KeyError: there is no such check, or it is disabled.
        """
        for check in self.checks:
            if check.id == id_:
                return check
        raise KeyError(id_)


NOT_JUDGED = Health("unknown", -1, 0.0, ())
"""Health of a device before its first sample."""


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A state gave way to another one.

    Attributes:
        position: which device of the tick; -1 for a GPU that is in no tick any more (`device` tells which).
        check: id of the check; empty for the GPU as a whole.
        before: the state that it had.
        after: the state that it has.
        time: when, in Unix seconds.
        message: one line for a person.
        remedy: what to do about it.
        device: which GPU.
    """

    position: int
    check: str
    before: State
    after: State
    time: float
    message: str
    remedy: str
    device: Device


@dataclass(frozen=True, slots=True)
class LostGpu:
    """A GPU that was there, and is not in the samples any more although they come.

    Attributes:
        track: its identity.
        device: what was last known of it.
        since: when it was missed first, in Unix seconds.
        last_seen: when it was seen last, in Unix seconds.
        health: what to show of it: `gpu_lost` critical, latched states kept, all else unknown.
    """

    track: GpuTrack
    device: Device
    since: float
    last_seen: float
    health: Health


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Health of all GPUs of a target, lost ones included; parts of a board do not count beside it.

    Attributes:
        state: the worst known state of any GPU.
        severity: the same as a number, -1..4.
        coverage: the mean over the GPUs.
        gpus: how many there are, the lost ones included.
        counts: how many are in each state, in the order of `STATES`.
    """

    state: State
    severity: int
    coverage: float
    gpus: int
    counts: tuple[tuple[State, int], ...]


@dataclass(frozen=True, slots=True)
class HealthTick:
    """Health that follows from one sample, and from those before it.

    Attributes:
        healths: one per device of the sample; a MIG instance or vGPU has the very object of its board.
        lost: GPUs that are in no sample any more.
        node: all of them together.
        changes: that this sample brought.
        clock_event_shares: one per device: by reason, the share of the last minute in which the clocks were held for
            it (`power_cap`, `sw_thermal`, ...). Benign ones are in here only, they are no matter of health.
    """

    healths: tuple[Health, ...]
    lost: tuple[LostGpu, ...]
    node: NodeHealth
    changes: tuple[HealthChange, ...] = ()
    clock_event_shares: tuple[tuple[tuple[str, float], ...], ...] = field(default=())
