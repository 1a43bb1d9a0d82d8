"""When a job hangs: none of its GPUs has worked for long, and kernels of some of them only spin.

A collective operation that never completes looks like that: one rank has dropped out, the others wait for it in a
kernel. A job whose GPUs are all idle does not hang, it waits for something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.account import GpuAccount
from pulsed.owners.accounting.extremes import WARM_UP_SECONDS, WORKING_DRAM_RATIO, Extremes
from pulsed.owners.findings.steps import GpuStep

FINDING_SECONDS = 600.0
"""Observed time for which a condition must hold, at least."""

PAUSES = 3.0
"""A job hangs after so many times its longest pause so far (NVIDIA's Cluster Readiness Engine: k >= 3)."""

WAITS = 3
WAITING_RATIO = 0.25
"""A program that has waited so often, and for such a share of the time in which it worked, waits by design: for
requests."""

SPINNING_RATIO = 0.95
IDLE_RATIO = 0.05
SPINNING_BYTES_PER_SECOND = 50e6
SPINNING_POWER_RATIO = 0.5
SPINNING_SM_CHANGE = 0.02
SPINNING_POWER_CHANGE = 0.05
"""A kernel that only spins keeps the graphics engine busy without traffic or change, at half or less of the peak power
of the job on this GPU."""

FIRST_SAMPLES = 2.0
"""A GPU stopped before another if more than so many samples of both are between."""

StallState = Literal["works", "idle", "spins"]


def stall_state(step: GpuStep | None, before: GpuStep | None, extremes: Extremes) -> StallState | None:
    """Return what a GPU did in a step; None without an input.

    Args:
        before: the step before it.
        extremes: of the owner on this GPU. One on which it has hardly worked does not spin: it is not yet known how
            it works.
    """
    if step is None or extremes.power_watts is None:
        return None
    gr, sm, watts = step.graphics_engine, step.sm_active, step.watts
    dram, traffic = step.dram_active, step.traffic
    if gr is None or sm is None or dram is None or watts is None:
        return None
    if dram > WORKING_DRAM_RATIO or step.media > 0.0:
        return "works"
    if traffic is None:
        return None
    if traffic > SPINNING_BYTES_PER_SECOND:
        return "works"
    if gr <= IDLE_RATIO:
        return "idle"
    is_steady = (
        before is not None
        and before.sm_active is not None
        and before.watts is not None
        and abs(sm - before.sm_active) <= SPINNING_SM_CHANGE
        and abs(watts - before.watts) <= SPINNING_POWER_CHANGE * before.watts
    )
    is_low = watts <= SPINNING_POWER_RATIO * extremes.power_watts and extremes.worked >= WARM_UP_SECONDS
    return "spins" if gr >= SPINNING_RATIO and is_steady and is_low else "works"


def stall_limit(gpus: Sequence[Extremes]) -> float | None:
    """Return the seconds without work after which a job hangs; None if it waits by design."""
    if any(each.waits >= WAITS and each.waited > WAITING_RATIO * each.worked for each in gpus):
        return None
    return max(FINDING_SECONDS, PAUSES * max(each.longest_pause for each in gpus))


class Stop(NamedTuple):
    """How a GPU of a job stopped to work.

    Attributes:
        gpu: its name, with its node.
        time: Unix time of its last work, as far as samples show it.
        interval: seconds between two samples.
        spins: whether a kernel spins since then; else it is idle.
    """

    gpu: str
    time: float
    interval: float
    spins: bool


def stop_of(account: GpuAccount, now: float, *, spins: bool) -> Stop | None:
    """Return how a GPU stopped to work, at the Unix time of its newest sample; None if it hardly worked before."""
    entity, extremes = account.device.entity, account.extremes
    if extremes.worked < WARM_UP_SECONDS:
        return None
    name = f"{entity.node}/{entity.name}" if entity.node else entity.name
    return Stop(name, now - extremes.pause, account.observed / max(extremes.samples, 1), spins)


def first_stopped(stops: Sequence[Stop]) -> Stop | None:
    """Return the GPU that dropped out: it stopped before all others, or is the only idle one among those that spin."""
    if len(stops) < 2:
        return None
    first, second = sorted(stops, key=lambda stop: stop.time)[:2]
    if second.time - first.time > FIRST_SAMPLES * (first.interval + second.interval):
        return first
    idle = [stop for stop in stops if not stop.spins]
    return idle[0] if len(idle) == 1 else None


def stall_text(state: StallState | None, step: GpuStep | None, peak: Value, seconds: float) -> str:
    """Return what one GPU of a job that hangs does."""
    minutes = f"for {seconds / 60.0:.0f} min"
    if state != "spins" or step is None:
        return f"idle {minutes} while kernels of other GPUs of the job spin"
    return (
        f"busy {minutes} without traffic or change: graphics engine {step.graphics_engine:.0%}, "
        f"DRAM {step.dram_active:.1%}, {step.watts:.0f} W of {peak:.0f} W before"
    )


FIRST_STOPPED = "; GPU "
"""Begins the part of a text that names the GPU that dropped out."""


def first_text(stops: Sequence[Stop | None]) -> str:
    """Return the end of the text about a hang: which GPU dropped out; empty if that is not known."""
    first = first_stopped([stop for stop in stops if stop is not None])
    if first is None:
        return ""
    return f"{FIRST_STOPPED}{first.gpu} stopped first, at {datetime.fromtimestamp(first.time, UTC):%H:%M:%S} UTC"
