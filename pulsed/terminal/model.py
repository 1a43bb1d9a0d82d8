"""The state that is shown: GPUs of one or several daemons, and what was read besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pulsed.terminal.numbers import Number

Document = Mapping[str, Any]

LOST_SECONDS = 5.0
"""Without an answer of the daemon for so long its GPUs are stale."""

SUMMARY_FIELDS = (
    "workload_class", "bottleneck", "health_state", "limiting_resource",
    "real_utilization_ratio", "real_utilization_lower_ratio", "real_utilization_upper_ratio", "saturation_ratio",
    "gpu_utilization_ratio", "graphics_engine_active_ratio", "sm_active_ratio", "sm_occupancy_ratio",
    "tensor_active_ratio", "dram_active_ratio", "memory_utilization_ratio", "memory_bytes", "memory_used_bytes",
    "power_watts", "power_limit_watts", "temperature_celsius", "memory_temperature_celsius",
    "pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second", "nvlink_transmit_bytes_per_second", "nvlink_bandwidth_bytes_per_second",
    "pcie_replays_total", "sm_clock_hertz", "memory_clock_hertz", "energy_joules_total",
    "pcie_link_generation", "pcie_link_width",
)  # fmt: skip
"""Fields of `/gpus?view=summary` that the views need."""

_LANE_BYTES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""PCIe: bytes per second of a lane in one direction, by generation (PCI-SIG)."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU or MIG instance.

    Attributes:
        source: index of its daemon.
        values: by field, numbers and states.
        age: of the sample in seconds.
        owners: as `kind:id`; empty if it is free, None if they are not known.
        class_since: Unix time.
        replays_per_second: from the two last samples.
    """

    source: int
    node: str
    gpu: str
    uuid: str
    mig_id: str
    mig_profile: str
    model: str
    values: Mapping[str, Any]
    stale: bool
    age: float
    owners: tuple[str, ...] | None = None
    class_since: float | None = None
    candidates: tuple[str, ...] = ()
    problem: str = ""
    replays_per_second: Number = None

    @property
    def key(self) -> str:
        """An identity that outlives other samples."""
        return f"{self.source}/{self.node}/{self.uuid or self.gpu}/{self.mig_id}"

    @property
    def name(self) -> str:
        """The name in paths of the API: index, or `index:MIG id`."""
        return (self.gpu or self.uuid) + (f":{self.mig_id}" if self.mig_id else "")

    def number(self, field_name: str) -> Number:
        """Return a number; None if it is missing or the GPU is stale."""
        return None if self.stale else self.last(field_name)

    def last(self, field_name: str) -> Number:
        """Return a number of the last sample, also of a stale GPU."""
        value = self.values.get(field_name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def state(self, field_name: str) -> str:
        """Return a state; `unknown` if it is missing."""
        value = self.values.get(field_name)
        return value if isinstance(value, str) else "unknown"

    @property
    def health(self) -> str:
        """The state of its health."""
        return self.state("health_state")

    @property
    def real(self) -> Number:
        """Real utilization, 0..1."""
        return self.number("real_utilization_ratio")

    @property
    def bounds(self) -> tuple[Number, Number]:
        """The bounds of real utilization; both None for a stale GPU."""
        return self.number("real_utilization_lower_ratio"), self.number("real_utilization_upper_ratio")

    @property
    def memory_ratio(self) -> Number:
        """Memory in use, 0..1."""
        return ratio(self.number("memory_used_bytes"), self.number("memory_bytes"))

    @property
    def power_ratio(self) -> Number:
        """Power over its limit."""
        return ratio(self.number("power_watts"), self.number("power_limit_watts"))

    @property
    def nvlink_bytes_per_second(self) -> Number:
        """Rate over all NVLinks in both directions."""
        both = total([self.number(f"nvlink_{way}_bytes_per_second") for way in ("receive", "transmit")])
        return self.number("nvlink_bandwidth_bytes_per_second") if both is None else both

    @property
    def link_bytes_per_second(self) -> Number:
        """Capacity of the PCIe link in both directions together."""
        generation, width = self.last("pcie_link_generation"), self.last("pcie_link_width")
        lane = None if generation is None else _LANE_BYTES.get(int(generation))
        return None if lane is None or width is None else 2 * lane * width

    @property
    def use(self) -> str:
        """What a GPU is used for: `busy`, `held` (idle with an owner), `free`, `idle` (owners unknown), `unknown`."""
        workload = self.state("workload_class")
        if self.stale or workload == "unknown":
            return "unknown"
        if workload != "idle":
            return "busy"
        return "idle" if self.owners is None else "held" if self.owners else "free"

    @property
    def is_active(self) -> bool:
        """Whether real utilization or memory is 20 % or more (as in KempnerPulse)."""
        return max(self.real or 0.0, self.memory_ratio or 0.0) >= 0.2


def ratio(part: Number, whole: Number) -> Number:
    """Return a share; None unless both are known and the whole is not 0."""
    return None if part is None or not whole else part / whole


def total(values: Sequence[Number]) -> Number:
    """Return the sum; None unless all are known."""
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


@dataclass(frozen=True, slots=True)
class DaemonState:
    """One daemon.

    Attributes:
        label: its address, or that it is pulsed's own.
        error: of the last request; empty while it answers.
        age: seconds since its last answer; None before the first.
        sources: what it reads, as in `/gpus`.
        seconds: duration of the last request.
    """

    label: str
    error: str = ""
    age: float | None = None
    node: str = ""
    version: str = ""
    sources: tuple[Document, ...] = ()
    host: Document | None = None
    seconds: float | None = None

    @property
    def is_demo(self) -> bool:
        """Whether its GPUs are simulated."""
        return any(source.get("demo") for source in self.sources)

    @property
    def is_lost(self) -> bool:
        """Whether it has not answered for a while."""
        return self.age is None or self.age > LOST_SECONDS


@dataclass(frozen=True, slots=True)
class GpuHistory:
    """The history of one GPU: by field the mean of each point, None in gaps; of states the state."""

    times: tuple[float, ...]
    fields: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that can be shown.

    Attributes:
        time: Unix seconds.
        details: by key, the document of `/gpus/{gpu}` of a GPU in Focus.
        history: by key.
        events: changes, the newest first, each with `source`.
        jobs: accounts of owners, each with `source`.
        processes: by daemon; None if they are not published.
        class_reasons: by key, the document of `/gpus/{gpu}/class` of a GPU in Focus; empty if the daemon has none.
        cost: share of a core, and bytes of memory of this program.
    """

    time: float
    gpus: tuple[GpuState, ...] = ()
    sources: tuple[DaemonState, ...] = ()
    details: Mapping[str, Document] = field(default_factory=dict)
    history: Mapping[str, GpuHistory] = field(default_factory=dict)
    events: tuple[Document, ...] = ()
    jobs: tuple[Document, ...] = ()
    processes: Mapping[int, tuple[Document, ...] | None] = field(default_factory=dict)
    class_reasons: Mapping[str, Document] = field(default_factory=dict)
    cost: tuple[float, int] | None = None

    @property
    def has_several_nodes(self) -> bool:
        """Whether GPUs are of more than one node."""
        return len({gpu.node for gpu in self.gpus}) > 1

    def find(self, wanted: str) -> GpuState | None:
        """Return the first GPU with a key, UUID, name, or `node:name`."""
        for gpu in self.gpus:
            names = (gpu.key, gpu.name, f"{gpu.node}:{gpu.name}", f"{gpu.node}/{gpu.name}", *filter(None, (gpu.uuid,)))
            if wanted in names:
                return gpu
        return None


def gpu_states(source: int, summary: Document, waited: float, before: Document | None = None) -> list[GpuState]:
    """Return the GPUs of a summary.

    Args:
        source: index of the daemon.
        waited: seconds since the summary arrived.
        before: the summary before it, for rates.
    """
    gpus, fields = summary["gpus"], summary["fields"]
    now = seconds_of(summary["time"])
    size = len(gpus["gpu"])
    nothing: list[Any] = [None] * size
    replays = _rates(summary, before) if before is not None else nothing
    stale = [bool(each) or waited > LOST_SECONDS for each in summary["stale"]]
    names = list(fields)
    rows = zip(*fields.values(), strict=True) if names else iter([()] * size)
    return [
        GpuState(
            source,
            gpus["node"][at] or "",
            gpus["gpu"][at] or "",
            gpus["uuid"][at] or "",
            gpus["mig_id"][at] or "",
            gpus["mig_profile"][at] or "",
            short_model(gpus["model"][at] or ""),
            dict(zip(names, row, strict=True)),
            stale[at],
            max(0.0, now - summary["sample_time"][at]) + waited,
            None if summary["owners"][at] is None else tuple(owner for owner in summary["owners"][at]),
            (summary.get("class_since") or nothing)[at],
            tuple((summary.get("candidates") or nothing)[at] or ()),
            (summary.get("problem") or nothing)[at] or "",
            None if stale[at] else replays[at],
        )
        for at, row in enumerate(rows)
    ]


def seconds_of(text: str) -> float:
    """Return the Unix time of a time of the API."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def short_model(model: str) -> str:
    """Return a model without its maker: `H100 80GB HBM3`."""
    return model.removeprefix("NVIDIA ")


def _rates(summary: Document, before: Document) -> Sequence[float | None]:
    """Return the PCIe replays per second of each GPU since the sample before; None if it is the same sample."""
    new, old = summary["fields"].get("pcie_replays_total"), before["fields"].get("pcie_replays_total")
    if new is None or old is None or summary["roster"] != before["roster"]:
        return [None] * len(summary["stale"])
    return [
        None if a is None or b is None or later <= earlier or a < b else (a - b) / (later - earlier)
        for a, b, later, earlier in zip(new, old, summary["sample_time"], before["sample_time"], strict=True)
    ]


def means(points: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the means and states of the fields of a GPU in `/history`."""
    return {
        name: tuple(values["mean"] if isinstance(values, dict) else values) for name, values in points["fields"].items()
    }
