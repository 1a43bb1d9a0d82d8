"""A random node: its GPUs, their owners, and the exporters that show them, each with its faults.

What is generated does not depend on the wall clock: a sequence can be replayed at any time of day.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import Epoch, Labels, Layout, RawTick, Series
from pulsed.model.vocabulary import Value

INTERVALS = (1.0, 15.0, 30.0)
MEBIBYTE = 2.0**20

XID = "DCGM_FI_DEV_XID_ERRORS"
CRITICAL_XIDS = (48, 79, 95)
FALLEN_OFF = 79
APPLICATION_XIDS = (13, 31, 43)

Owners = tuple[tuple[str, str], ...]
"""Pods as pairs of name and UID."""

WORK: Mapping[str, Mapping[str, float]] = {
    "idle": {},
    "tensor": {"sm": 0.9, "tensor": 0.7, "dram": 0.5, "graphics": 0.98},
    "memory": {"sm": 0.4, "dram": 0.8, "graphics": 0.9},
    "copy": {"dram": 0.1, "pcie": 2e10},
    "transcode": {"dram": 0.03, "encoder": 85.0, "decoder": 60.0},
    "tiny": {"sm": 0.01, "graphics": 1.0},
}
"""What a GPU can do: shares of its engines, percent of its media engines, bytes a second."""


@dataclass(slots=True)
class Gpu:
    """What is true of one GPU.

    Attributes:
        index: which its source gives it.
        owners: that have it.
        xids: the codes that happened, in their order.
        resets: how often it was reset.
        faults: the checks that something which happened to it may raise.
    """

    uuid: str
    index: int
    work: str = "idle"
    owners: Owners = ()
    joules: float = 1e5
    watts: float = 90.0
    temperature: float = 40.0
    memory: float = 1e9
    xids: tuple[int, ...] = ()
    volatile_dbe: int = 0
    aggregate_dbe: int = 3
    is_remap_pending: bool = False
    resets: int = 0
    faults: frozenset[str] = frozenset()

    def measure(self, rng: random.Random) -> dict[str, float]:
        """Return what an exporter reads of it now."""
        work = WORK[self.work]
        noise = 0.9 + 0.1 * rng.random()
        return {
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": round(work.get("graphics", 0.0) * noise, 6),
            "DCGM_FI_PROF_SM_ACTIVE": round(work.get("sm", 0.0) * noise, 6),
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": round(work.get("tensor", 0.0) * noise, 6),
            "DCGM_FI_PROF_DRAM_ACTIVE": round(work.get("dram", 0.0) * noise, 6),
            "DCGM_FI_PROF_PIPE_FP64_ACTIVE": 0.0,
            "DCGM_FI_PROF_PCIE_TX_BYTES": float(int(work.get("pcie", 0.0) * noise)),
            "DCGM_FI_PROF_PCIE_RX_BYTES": float(int(work.get("pcie", 0.0) * noise)),
            "DCGM_FI_DEV_ENC_UTIL": work.get("encoder", 0.0),
            "DCGM_FI_DEV_DEC_UTIL": work.get("decoder", 0.0),
            "DCGM_FI_DEV_GPU_UTIL": float(round(100.0 * work.get("graphics", 0.0) * noise)),
            "DCGM_FI_DEV_POWER_USAGE": round(self.watts + 5.0 * rng.random(), 3),
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": float(int(self.joules * 1e3)),
            "DCGM_FI_DEV_GPU_TEMP": self.temperature + rng.randrange(3),
            "DCGM_FI_DEV_FB_USED": float(int(self.memory / MEBIBYTE)),
            "DCGM_FI_DEV_SM_CLOCK": 1980.0 if self.work != "idle" else 345.0,
            XID: float(self.xids[-1] if self.xids else 0),
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": float(self.volatile_dbe),
            "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": float(self.aggregate_dbe),
            "DCGM_FI_DEV_ROW_REMAP_PENDING": float(self.is_remap_pending),
            "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0,
        }


VITALS = (
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
)
"""Metrics that a GPU which answers has."""

NAMES = tuple(Gpu("", 0).measure(random.Random(0)))
"""All metrics of a page."""

HIDEABLE = tuple(name for name in NAMES if name != "DCGM_FI_DEV_FB_USED")
"""Metrics that may be blank; a GPU without any is not on the page."""

Page = dict[str, dict[str, Value]]
"""Values of a page by UUID and metric."""


@dataclass(slots=True)
class Exporter:
    """An exporter with its faults.

    Attributes:
        target: its URL.
        fault: what it does at present: `none`, `dead`, `repeat`, `blank`, `no_labels`.
        left: ticks until the fault ends.
        xids_at_start: by UUID, how many XIDs had happened when its host engine was started: the gauge is absent
            until the next one.
        page: as shown last; `totals`: of XIDs, by GPU and code.
    """

    target: str
    fault: str = "none"
    left: int = 0
    hidden: frozenset[str] = frozenset()
    xids_at_start: dict[str, int] = field(default_factory=dict)
    starts: int = 1
    page: Page = field(default_factory=dict)
    totals: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Shown:
    """What one exporter delivers in a step.

    Attributes:
        is_repeated: whether its values are those of the step before.
        fresh: UUIDs of GPUs whose vital values are newly measured.
        start: of the exporter's process.
    """

    layout: Layout
    values: tuple[Value, ...]
    is_repeated: bool
    fresh: frozenset[str]
    start: str


@dataclass(frozen=True, slots=True)
class Step:
    """A moment of a sequence.

    Attributes:
        clock: seconds of a clock that never steps.
        shown: by target; a target that is down delivers nothing.
        gpus: by UUID, copies of what is true of the GPUs of the node.
    """

    clock: float
    shown: Mapping[str, Shown]
    gpus: Mapping[str, Gpu]


def raw_tick(target: str, shown: Shown, clock: float, time: float, interval: float) -> RawTick:
    """Return what the source of a target delivers."""
    return RawTick(
        target, Unix(time), Monotonic(clock), interval, shown.layout, shown.values, epoch=Epoch(exporter=shown.start)
    )


class World:
    """The random life of a node with one to three GPUs and one or two exporters.

    Args:
        seed: all randomness.
        exporters: how many show the same GPUs; by default random.

    Attributes:
        interval: seconds between two steps.
        has_totals: whether pages have exact totals of XIDs.
    """

    def __init__(self, seed: int, exporters: int | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.interval = rng.choice(INTERVALS)
        self.has_totals = rng.random() < 0.5
        self.clock = 1000.0 * rng.random()
        self._made = 0
        self._pods = 0
        self._layouts: dict[tuple[object, ...], Layout] = {}
        self.gpus = [self._new_gpu(index) for index in range(rng.choice((1, 1, 2, 3)))]
        count = exporters or rng.choice((1, 1, 2))
        self.exporters = [Exporter(f"http://exporter-{number}:9400/metrics") for number in range(count)]

    def steps(self, count: int) -> Iterator[Step]:
        """Yield the moments of a life."""
        for _ in range(count):
            self.clock += self.interval * (self.rng.choice((2.0, 10.0, 4000.0)) if self.rng.random() < 0.02 else 1.0)
            self._live()
            pages = {gpu.uuid: gpu.measure(self.rng) for gpu in self.gpus}
            shown = {one.target: made for one in self.exporters if (made := self._show(one, pages)) is not None}
            yield Step(self.clock, shown, {gpu.uuid: replace(gpu) for gpu in self.gpus})

    def _new_gpu(self, index: int) -> Gpu:
        self._made += 1
        return Gpu(f"GPU-{self._made:08d}-0000-0000-0000-000000000000", index, joules=self.rng.randrange(1, 10**6))

    def _live(self) -> None:
        rng = self.rng
        for gpu in self.gpus:
            gpu.joules += gpu.watts * self.interval
            if rng.random() < 0.08:
                gpu.work = rng.choice(list(WORK))
                gpu.watts = 90.0 if gpu.work == "idle" else 300.0 + 300.0 * rng.random()
                gpu.memory = rng.choice((1e9, 40e9))
            if rng.random() < 0.06:
                self._change_owners(gpu)
            self._fail(gpu)
        if len(self.gpus) > 1 and rng.random() < 0.01:
            first, second = rng.sample(self.gpus, 2)
            first.index, second.index = second.index, first.index
        if rng.random() < 0.005:
            position = rng.randrange(len(self.gpus))
            self.gpus[position] = self._new_gpu(self.gpus[position].index)

    def _fail(self, gpu: Gpu) -> None:
        chance = self.rng.random()
        if chance < 0.01:
            gpu.xids += (self.rng.choice(APPLICATION_XIDS),) * self.rng.choice((1, 1, 5))
            gpu.faults |= {"xid_warning", "xid_repeat"}
        elif chance < 0.015:
            gpu.xids += (self.rng.choice(CRITICAL_XIDS),)
            gpu.faults |= {"xid_critical", "xid_warning", "xid_repeat"} | (
                {"gpu_lost"} if FALLEN_OFF in gpu.xids else set()
            )
        elif chance < 0.02:
            gpu.volatile_dbe += 1
            gpu.aggregate_dbe += 1
            gpu.faults |= {"ecc_uncorrectable"}
        elif chance < 0.025:
            gpu.is_remap_pending = True
            gpu.faults |= {"row_remap_pending"}
        elif chance < 0.03:
            gpu.resets += 1
            gpu.volatile_dbe, gpu.is_remap_pending, gpu.joules = 0, False, 0.0

    def _change_owners(self, gpu: Gpu) -> None:
        rng = self.rng
        kept = tuple(owner for owner in gpu.owners if rng.random() < 0.5)
        new: Owners = ()
        if rng.random() < 0.6:
            name = f"pod-{rng.randrange(3)}"
            uids = {uid for one in self.gpus for other, uid in one.owners if other == name}
            if not uids:  # a name is used again, and has one UID at a time
                self._pods += 1
            new = ((name, min(uids, default=f"uid-{self._pods}")),)
        gpu.owners = tuple(dict.fromkeys(kept + new))

    def _show(self, exporter: Exporter, pages: Mapping[str, Mapping[str, float]]) -> Shown | None:
        rng = self.rng
        if not exporter.left:
            if exporter.fault == "dead" and rng.random() < 0.5:  # a host engine that was started anew
                exporter.starts, exporter.page = exporter.starts + 1, {}
                exporter.xids_at_start = {gpu.uuid: len(gpu.xids) for gpu in self.gpus}
            was_blank = exporter.fault == "blank"
            exporter.fault, exporter.left = "none", rng.randrange(1, 20)
            if rng.random() < 0.5:
                exporter.fault = rng.choice(("dead", "repeat", "blank", "no_labels"))
                exporter.left = rng.choice((1, 2, 3, 8))
                hidden = frozenset(rng.sample(HIDEABLE, rng.randrange(1, len(HIDEABLE))))
                # A last XID that alone is absent, or that appears where nothing else does, is an event: a host engine
                # was started anew, or a GPU fails.
                if hidden == {XID} or (was_blank and XID in exporter.hidden):
                    hidden |= {XID, "DCGM_FI_DEV_GPU_TEMP"}
                exporter.hidden = hidden
        exporter.left -= 1
        if exporter.fault == "dead":
            return None
        is_repeated = exporter.fault == "repeat" and exporter.page.keys() == pages.keys()
        if not is_repeated:
            exporter.page = {uuid: self._page(exporter, uuid, page) for uuid, page in pages.items()}
        fresh = frozenset(
            uuid
            for uuid, page in exporter.page.items()
            if not is_repeated and any(page[name] is not None for name in VITALS)
        )
        has_owners = exporter.fault != "no_labels"
        layout = self._layout(has_owners)
        rows = [gpu.uuid for gpu in self.gpus for _ in range(len(gpu.owners) if has_owners and gpu.owners else 1)]
        values = [exporter.page[uuid][name] for uuid in rows for name in NAMES]
        if self.has_totals:
            if not is_repeated:
                exporter.totals = [self._totals(exporter, gpu) for gpu in self.gpus]
            values += [total for totals in exporter.totals for total in totals]
        return Shown(layout, tuple(values), is_repeated, fresh, str(exporter.starts))

    def _page(self, exporter: Exporter, uuid: str, page: Mapping[str, float]) -> dict[str, Value]:
        hidden = exporter.hidden if exporter.fault == "blank" else frozenset[str]()
        shown: dict[str, Value] = {name: None if name in hidden else value for name, value in page.items()}
        gpu = next(one for one in self.gpus if one.uuid == uuid)
        if exporter.starts > 1 and len(gpu.xids) == exporter.xids_at_start.get(uuid, 0):
            shown[XID] = None
        return shown

    def _totals(self, exporter: Exporter, gpu: Gpu) -> list[float]:
        counted = gpu.xids[exporter.xids_at_start.get(gpu.uuid, 0) :]
        return [float(counted.count(code)) for code in (*APPLICATION_XIDS, *CRITICAL_XIDS)]

    def _layout(self, has_owners: bool) -> Layout:
        key = tuple([(gpu.uuid, gpu.index, gpu.owners if has_owners else ()) for gpu in self.gpus])
        if (layout := self._layouts.get(key)) is None:
            series = tuple([Series(name, labels) for one in key for labels in _rows(*one) for name in NAMES])
            if self.has_totals:
                codes = (*APPLICATION_XIDS, *CRITICAL_XIDS)
                series += tuple(
                    [
                        Series("DCGM_EXP_XID_ERRORS_TOTAL", (*next(_rows(*one[:2], ())), ("xid", str(code))))
                        for one in key
                        for code in codes
                    ]
                )
            layout = self._layouts[key] = Layout("exporter", series)
        return layout


def _rows(uuid: str, index: int, owners: Owners) -> Iterator[Labels]:
    """Yield the labels of a GPU's rows: a row for each of its pods."""
    labels = (
        ("gpu", str(index)),
        ("UUID", uuid),
        ("device", f"nvidia{index}"),
        ("modelName", "NVIDIA H100 80GB HBM3"),
        ("Hostname", "node-1"),
    )
    for name, uid in owners:
        yield (*labels, ("namespace", "ml"), ("pod", name), ("container", "main"), ("pod_uid", uid))
    if not owners:
        yield labels
