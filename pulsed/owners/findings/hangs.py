"""When a job hangs: none of its GPUs has worked for long, and kernels of some of them only spin.

A collective operation that never completes looks like that: one rank has dropped out, or never came, and the others
wait for it in a kernel. A job whose GPUs are all idle does not hang, it waits for something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pulsed.model.clocks import EPOCH, Unix
from pulsed.model.gpu import Device
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.account import GpuAccount
from pulsed.owners.accounting.activity import WARM_UP_SECONDS, WORKING_DRAM_RATIO, Extremes
from pulsed.owners.findings.steps import GpuStep

HANG_SECONDS = 1800.0
"""Minimum observed time without work after which a job hangs: first checkpoints and lulls can be this long."""

PAUSES = 3.0
"""A job hangs after its longest pause so far times this factor (NVIDIA's Cluster Readiness Engine: k >= 3)."""

WAITS = 3
WAITING_RATIO = 0.25
"""A program that has waited so often, and for such a share of the time in which it worked, waits by design: for
requests."""

SERVERS = ("Deployment", "ReplicaSet", "DaemonSet", "InferenceService")
"""Kinds of workloads that may wait for requests all night."""

SPINNING_RATIO = 0.95
IDLE_RATIO = 0.05
WORKING_PIPE_RATIO = 0.01
SPINNING_BYTES_PER_SECOND = 50e6
SPINNING_SM_CHANGE = 0.02
SPINNING_POWER_CHANGE = 0.05
"""A kernel that only spins keeps the graphics engine busy without tensor and memory work, traffic or change."""

SPINNING_SM_RATIO = 0.35
WORKING_SM_RATIO = 0.5
SPINNING_POWER_RATIO = 0.5
SPINNING_LIMIT_RATIO = 0.3
WORKING_LIMIT_RATIO = 0.5
"""Kernels of collectives have few SMs, and low power: half of the job's earlier power, or a third of the power limit. A
kernel that computes in registers has many of both."""

FIRST_SAMPLES = 2.0
"""A GPU stopped before another if more than this number of samples of both are in between."""

StallState = Literal["works", "idle", "spins"]
StopState = Literal[StallState, "silent"]


class MissingInput(NamedTuple):
    """The input, named as by DCGM, without which it is not known what a GPU does."""

    name: str


def stall_state(step: GpuStep, before: GpuStep | None, extremes: Extremes) -> StallState | MissingInput:
    """Return what a GPU did in a step."""
    gr, dram = step.graphics_engine, step.dram_active
    pipes = max(step.tensor_active or 0.0, step.arithmetic)
    has_worked = (dram or 0.0) > WORKING_DRAM_RATIO or pipes > WORKING_PIPE_RATIO
    if has_worked or step.media > 0.0 or step.traffic > SPINNING_BYTES_PER_SECOND:
        return "works"
    inputs = {"GR_ENGINE_ACTIVE": gr is not None, "DRAM_ACTIVE": dram is not None}
    missing = next((name for name, is_known in inputs.items() if not is_known), step.unmeasured_link)
    if gr is None or missing:
        return MissingInput(missing)
    if gr <= IDLE_RATIO:
        return "idle"
    if gr < SPINNING_RATIO:
        return "works"
    if step.sm_active is None and step.watts is None:
        return MissingInput("SM_ACTIVE")
    is_steady = before is None or (
        _is_steady(step.sm_active, before.sm_active, SPINNING_SM_CHANGE)
        and _is_steady(step.watts, before.watts, SPINNING_POWER_CHANGE * (before.watts or 0.0))
    )
    return _spinning_state(step, extremes) if is_steady else "works"


def _is_steady(now: Value, before: Value, change: float) -> bool:
    return now is None or before is None or abs(now - before) <= change


def _spinning_state(step: GpuStep, extremes: Extremes) -> StallState | MissingInput:
    """Return whether a kernel that is steady, without memory work and traffic, spins or computes in registers."""
    watts, limit, sm = step.watts, step.limit_watts, step.sm_active
    if watts is not None and limit is not None and watts > WORKING_LIMIT_RATIO * limit:
        return "works"
    if sm is not None and sm <= SPINNING_SM_RATIO:
        return "spins"
    if sm is not None and sm > WORKING_SM_RATIO:
        return "works"
    peak = extremes.power_watts if extremes.worked >= WARM_UP_SECONDS else None
    lows = [SPINNING_POWER_RATIO * peak] if peak is not None else []
    lows += [SPINNING_LIMIT_RATIO * limit] if limit is not None else []
    if watts is not None and lows and watts <= max(lows):
        return "spins"
    if sm is None:
        return MissingInput("SM_ACTIVE")
    return "works" if lows and watts is not None else MissingInput("POWER_MGMT_LIMIT" if watts else "POWER_USAGE")


def waits_by_design(owner: Owner, gpus: Sequence[Extremes]) -> str:
    """Return why a program waits for requests; empty if it does not."""
    if owner.workload_kind in SERVERS:
        return f"a {owner.workload_kind} may wait for requests"
    if any(each.waits >= WAITS and each.waited > WAITING_RATIO * each.worked for each in gpus):
        return "its program often waits, as servers do"
    return ""


def stall_limit(gpus: Sequence[Extremes]) -> float:
    """Return the seconds without work after which a job hangs."""
    return max(HANG_SECONDS, PAUSES * max(each.longest_pause for each in gpus))


class Stop(NamedTuple):
    """How a GPU of a job stopped to work.

    Attributes:
        gpu: its name, with its node.
        last_work: Unix time of its last work, as far as its samples show it; None if it hardly worked.
        last_sample: Unix time of its newest sample that shows whether it works.
        interval: seconds between two samples.
        state: its behaviour since then; `silent` if there are no samples.
    """

    gpu: str
    node: str
    last_work: Unix | None
    last_sample: Unix
    interval: float
    state: StopState


def name_of(device: Device) -> str:
    """Return the name of a GPU, with its node."""
    entity = device.entity
    return f"{entity.node}/{entity.name}" if entity.node else entity.name


def stop_of(account: GpuAccount, state: StopState) -> Stop:
    """Return how a GPU stopped to work, by its own samples."""
    extremes = account.extremes
    return Stop(
        name_of(account.device),
        account.device.entity.node,
        extremes.last_work if extremes.worked >= WARM_UP_SECONDS else None,
        extremes.last_sample or EPOCH,
        account.observed / max(extremes.samples, 1),
        state,
    )


def stall_text(state: StallState, step: GpuStep, extremes: Extremes, seconds: float) -> str:
    """Return what one GPU of a job that hangs does."""
    minutes = f"for {seconds / 60.0:.0f} min"
    if state != "spins":
        return f"idle {minutes} while kernels of other GPUs of the job spin"
    watts = "" if step.watts is None else f", {step.watts:.0f} W"
    if watts and extremes.power_watts is not None and extremes.worked >= WARM_UP_SECONDS:
        watts += f" of {extremes.power_watts:.0f} W before"
    return (
        f"busy {minutes} without traffic or change: graphics engine {step.graphics_engine:.0%}, "
        f"DRAM {step.dram_active:.1%}{watts}"
    )


FIRST = "; "
"""Begins the part of a text that names the GPU or node that dropped out."""


def first_text(stops: Iterable[Stop]) -> str:
    """Return the end of the text about a hang: which GPU or node dropped out; empty if that is not known.

    That is the GPU that stopped before all others, otherwise the node that went silent first, otherwise the only idle
    GPU among those that spin.
    """
    stops = list(stops)
    if (first := _first_stopped(stops)) is not None:
        return f"{FIRST}GPU {first.gpu} stopped first, at {_time(first.last_work or EPOCH)}"
    if silent := [stop for stop in stops if stop.state == "silent"]:
        first = min(silent, key=lambda stop: stop.last_sample)
        answers = any(stop.node == first.node and stop.state != "silent" for stop in stops)
        what = f"GPU {first.gpu}" if answers or not first.node else f"node {first.node}"
        return f"{FIRST}{what} has been silent since {_time(first.last_sample)}"
    idle = [stop for stop in stops if stop.state == "idle"]
    if len(idle) != 1 or len(stops) < 2:
        return ""
    if idle[0].last_work is not None:
        return f"{FIRST}GPU {idle[0].gpu} stopped first, at {_time(idle[0].last_work)}"
    is_unused = any(stop.last_work is not None for stop in stops)
    return "" if is_unused else f"{FIRST}GPU {idle[0].gpu} alone is idle"


def _first_stopped(stops: Sequence[Stop]) -> Stop | None:
    """Return the GPU that had stopped, by its samples, before all others; the others may have worked on in silence."""
    worked = sorted([stop for stop in stops if stop.last_work is not None], key=lambda stop: stop.last_work or 0.0)
    if len(worked) < 2:
        return None
    first, second = worked[:2]
    is_seen = first.state != "silent" or _is_before(first.last_work, first.last_sample, first, first)
    return first if is_seen and _is_before(first.last_work, second.last_work, first, second) else None


def _is_before(earlier: Value, later: Value, first: Stop, second: Stop) -> bool:
    """Return whether more than some samples of two GPUs are between two moments."""
    return (later or 0.0) - (earlier or 0.0) > FIRST_SAMPLES * (first.interval + second.interval)


def _time(moment: Unix) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S} UTC"
