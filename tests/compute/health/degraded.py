"""Random lives of a node, computed twice: from all inputs, and from inputs that are hidden, blank, frozen, repeated or
late. What the second run must not conclude is found by simpler means.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.plausibility_rules import DEFAULT_PLAUSIBILITY
from pulsed.compute.sample import FRESH_INTERVALS, FRESH_SECONDS, VITAL
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading
from tests.compute.health.sim import GPU, OTHER
from tests.compute.streams import DAY, NO_SERIES
from tests.support.ticks import results_of, tick_of

GPUS = (GPU, OTHER)
TICKS = 250
"""Of a life."""

FAULTS: tuple[dict[str, float], ...] = (
    {"xid_last_code": 63.0},
    {"xid_last_code": 48.0},
    {"row_remap_pending": 1.0},
    {"ecc_dbe_volatile_total": 2.0},
    {"temperature_celsius": 97.0},
)

Page = dict[str, float | None]


class _Board:
    """What is true of one GPU, and what is shown of it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.energy = 1e6 * rng.random()
        self.watts = rng.choice([110.0, 300.0, 650.0])
        self.faults: dict[str, float] = {}
        self.shown: Page = {}
        self.measured_at = self.shown_at = 0.0
        self.copies = 0
        self.blanks = 0
        self.mode, self.left = "full", 0
        self.hidden: set[str] = set()
        self.may_be_lost = False
        self.worst = 0

    def measure(self, seconds: float) -> Page:
        rng = self.rng
        self.energy += self.watts * seconds
        if rng.random() < 0.002:
            self.faults |= rng.choice(FAULTS)
        sm = rng.random()
        return {
            "temperature_celsius": 55.0 + round(5 * rng.random()),
            "power_watts": self.watts + rng.random(),
            "energy_joules_total": self.energy,
            "gpu_utilization_ratio": 1.0,
            "graphics_engine_active_ratio": 0.5 + sm / 2,
            "sm_active_ratio": sm,
            "tensor_active_ratio": sm / 2,
            "dram_active_ratio": rng.random() / 2,
            "sm_clock_hertz": 1.7e9,
            "memory_used_bytes": 4e10,
            "clocks_event_reasons": float(rng.choice([0x0, 0x4])),
            "slowdown_temperature_celsius": 92.0,
            "max_operating_temperature_celsius": 87.0,
            "xid_last_code": 0.0,
            "ecc_dbe_volatile_total": 0.0,
            "row_remap_failure": 0.0,
            "row_remap_pending": 0.0,
            "remapped_rows_uncorrectable_total": 1.0,
            "pcie_replays_total": 3.0,
            "recovery_action": 0.0,
            **self.faults,
        }

    def show(self, page: Page, now: float, has_live_peer: bool) -> Page:
        rng = self.rng
        if not self.left:
            self.mode = rng.choice(["full", "full", "hidden", "blank", "frozen", "repeated"])
            self.left = rng.randrange(1, {"repeated": 4, "blank": 30}.get(self.mode, 60))
            names = sorted(page.keys() - {"power_watts", "energy_joules_total"})
            self.hidden = set(rng.sample(names, rng.randrange(1, len(names))))
        self.left -= 1
        is_copy = self.mode in ("frozen", "repeated") and bool(self.shown)
        self.blanks = self.blanks + 1 if self.mode == "blank" else 0
        self.may_be_lost = self.may_be_lost or (self.blanks > 1 and has_live_peer)
        if self.mode != "blank":
            self.shown_at = now
        if is_copy:
            self.copies += 1
            return self.shown
        if self.mode == "blank":
            return {name: value for name, value in page.items() if name not in VITAL}
        hidden = self.hidden if self.mode == "hidden" else ()
        self.shown, self.measured_at, self.copies = dict(page), now, 1
        for name in hidden:
            self.shown[name] = None
        return self.shown

    def is_old(self, now: float, interval: float) -> bool:
        """Return whether the shown vital values are too old to rely on."""
        if self.mode == "blank":
            return now - self.shown_at > max(FRESH_SECONDS, FRESH_INTERVALS * interval)
        limits = DEFAULT_PLAUSIBILITY
        return self.copies >= limits.frozen_samples and now - self.measured_at >= limits.frozen_seconds


def broken_promises(seed: int, ticks: int = TICKS) -> Iterator[str]:
    """Yield what the run with degraded inputs concludes without reason."""
    rng = random.Random(seed)
    interval = rng.choice([1.0, 15.0, 30.0])
    full, degraded = ComputeLayer(GpuTable()), ComputeLayer(GpuTable())
    boards = [_Board(rng) for _ in GPUS]
    now, late = 0.0, 0
    for number in range(ticks):
        now += interval
        pages = [board.measure(interval) for board in boards]
        truth = full.compute(_tick(now, interval, pages))
        for board, result in zip(boards, results_of(truth), strict=True):
            board.worst = max(board.worst, result.health.severity)
        late = late - 1 if late else rng.choice([5, 20, 60]) if rng.random() < 0.01 else 0
        if late:
            continue
        before = [board.mode != "blank" or not board.left for board in boards]
        shown = [
            board.show(page, now, before[1 - at]) for at, (board, page) in enumerate(zip(boards, pages, strict=True))
        ]
        found = degraded.compute(_tick(now, interval, shown))
        for complaint in _complaints(boards, found, now, interval):
            yield f"seed {seed}, tick {number}: {complaint}"


def _complaints(boards: list[_Board], found: Tick, now: float, interval: float) -> Iterator[str]:
    for board, result in zip(boards, results_of(found), strict=True):
        health = result.health
        expected = {"telemetry", "gpu_lost"} if board.may_be_lost else {"telemetry"}
        for check in health.checks:
            if check.applies and check.severity > board.worst and check.id not in expected:
                yield f"{check.id} is {check.state}, which the full inputs never were"
        if health.state in ("ok", "info") and board.is_old(now, interval):
            yield f"{health.state} with {board.mode} inputs, {now - board.measured_at:g} s old"
        if board.mode == "full" and health.state == "unknown":
            yield "unknown with all inputs"


def _tick(now: float, interval: float, pages: list[Page]) -> Tick:
    return tick_of(
        RawTick("test", Unix(DAY + now), Monotonic(now), interval, NO_SERIES, ()),
        GPUS,
        tuple([Reading(**page) for page in pages]),
    )
