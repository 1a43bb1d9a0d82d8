"""The model of what several daemons have answered."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence

from pulsed.commands.top.feed import Answers, Gpu
from pulsed.terminal.model import DaemonState, Document, GpuHistory, GpuState, Model
from pulsed.terminal.summary import gpu_states, means, seconds_of


def model_of(
    all_answers: Sequence[Answers], now: float, wall_time: float, cost: tuple[float, int] | None = None
) -> Model:
    """Return the model at `now` monotonic seconds, which is `wall_time`."""
    gpus: list[GpuState] = []
    details: dict[str, Document] = {}
    history: dict[str, GpuHistory] = {}
    processes: dict[int, tuple[Document, ...] | None] = {}
    reasons: dict[str, Document] = {}
    events: list[Document] = []
    jobs: list[Document] = []
    for number, answers in enumerate(all_answers):
        mine = _gpus(number, answers, now)
        gpus += mine
        by_name = {Gpu(gpu.node, gpu.name): gpu.key for gpu in mine}
        details |= {by_name[gpu]: document for gpu, document in answers.details.items() if gpu in by_name}
        reasons |= {by_name[gpu]: document for gpu, document in answers.class_reasons.items() if gpu in by_name}
        history |= _history(answers, mine)
        processes[number] = answers.processes
        events += [{**each, "source": number} for each in answers.events]
        jobs += [{**each, "source": number} for each in answers.jobs]
    if len(all_answers) > 1:
        events.sort(key=lambda event: -seconds_of(event["time"]))
    sources = [_source(answers, now) for answers in all_answers]
    return Model(
        wall_time, tuple(gpus), tuple(sources), details, history, tuple(events), tuple(jobs), processes, reasons, cost
    )


def _gpus(number: int, answers: Answers, now: float) -> list[GpuState]:
    if answers.summary is None or answers.arrived is None:
        return []
    return gpu_states(number, answers.summary, max(now - answers.arrived, 0.0), answers.before)


def _history(answers: Answers, gpus: Sequence[GpuState]) -> dict[str, GpuHistory]:
    if answers.history is None:
        return {}
    keys = {(gpu.node, gpu.gpu, gpu.mig_id): gpu.key for gpu in gpus}
    times = tuple(answers.history["time"])
    found = {}
    for each in answers.history["gpus"]:
        key = keys.get((each["node"], each["gpu"], each["mig_id"] or ""))
        if key is not None:
            found[key] = GpuHistory(times, means(each))
    return found


def _source(answers: Answers, now: float) -> DaemonState:
    summary = answers.summary or {}
    return DaemonState(
        answers.label,
        answers.error,
        None if answers.arrived is None else max(now - answers.arrived, 0.0),
        summary.get("node", ""),
        answers.version,
        tuple(summary.get("sources", ())),
        answers.host,
        answers.seconds,
    )


class OwnCost:
    """CPU and memory of this process, since the measurement before."""

    def __init__(self) -> None:
        self._before = time.monotonic(), time.process_time()
        self._share = 0.0

    def measure(self) -> tuple[float, int]:
        """Return the share of a core over the last seconds, and resident bytes."""
        now, used = time.monotonic(), time.process_time()
        elapsed = now - self._before[0]
        if elapsed >= 2.0:
            self._share, self._before = (used - self._before[1]) / elapsed, (now, used)
        return self._share, _resident_bytes()


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
