"""The state that is shown: GPUs of one or several daemons, and what was read in addition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import zip_longest
from typing import Any
from urllib.parse import quote, urlencode

from pulsed.number_text import Number, field_text

Document = Mapping[str, Any]
Identity = tuple[str, str, str, str]
"""Node, index, UUID and MIG id of a GPU; empty ones are not known."""

LOST_SECONDS = 5.0
"""Without an answer of the daemon for this time its GPUs are stale."""

SUMMARY_FIELDS = (
    "workload_class", "use", "bottleneck", "health_state", "limiting_resource",
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
class FleetRow:
    """One GPU or MIG instance.

    Attributes:
        source: index of its daemon.
        values: numbers and states by field, including `derived` and, in Focus, the GPU's document.
        age: of the sample in seconds.
        owners: as `kind:id`; empty if it is free, None if they are not known.
        class_age: seconds since its class began.
        detail: the document of `/gpus/{gpu}`, if it is in Focus.
        class_reason: the document of `/gpus/{gpu}/class`; empty if the daemon has none.
        history: `time` of each point, and by field its mean, None in gaps; of states the state.
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
    class_age: Number = None
    candidates: tuple[str, ...] = ()
    problem: str = ""
    detail: Document = field(default_factory=dict)
    class_reason: Document = field(default_factory=dict)
    history: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """An identity that outlives other samples."""
        return f"{self.source}/{self.node}/{self.uuid or self.gpu}/{self.mig_id}"

    @property
    def name(self) -> str:
        """The name in paths of the API: index, or `index:MIG id`."""
        return gpu_name(self.gpu or self.uuid, self.mig_id)

    def path(self, route: str = "") -> str:
        """Return the path of a route of this GPU."""
        return f"/gpus/{quote(self.name, safe='')}{route}?{urlencode({'node': self.node})}"

    def number(self, name: str) -> Number:
        """Return a field or derived number; None if it is missing or the GPU is stale."""
        return None if self.stale else self.last(name)

    def last(self, name: str) -> Number:
        """Return a number of the last sample, also of a stale GPU."""
        value = self.values.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def text(self, name: str) -> str:
        """Return a number as text without its unit; `--` if it is missing or the GPU is stale."""
        return field_text(name, self.number(name))

    def state(self, name: str) -> str:
        """Return a state; `unknown` if it is missing."""
        value = self.values.get(name)
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
    def use(self) -> str:
        """Whether it is used, as reported by the daemon: `busy`, `held`, `free`, `idle`, `unknown`."""
        return "unknown" if self.stale else self.state("use")


def gpu_name(gpu: str, mig_id: str | None) -> str:
    """Return the name of a GPU or MIG instance: `3` or `3:7`."""
    return f"{gpu}:{mig_id}" if mig_id else gpu


def ratio(part: Number, whole: Number) -> Number:
    """Return a share; None unless both are known and the whole is not 0."""
    return None if part is None or not whole else part / whole


def total(values: Sequence[Number]) -> Number:
    """Return the sum; None unless all are known."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if values and len(numbers) == len(values) else None


def derived(values: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Number]:
    """Return numbers from several fields, and those from the sample before: of PCIe the capacity in one direction."""
    get = values.get
    lane, width = _LANE_BYTES.get(int(get("pcie_link_generation") or 0)), get("pcie_link_width")
    both = total([get(f"nvlink_{way}_bytes_per_second") for way in ("receive", "transmit")])
    replays, seconds = (
        total([get(name), -old]) if before and (old := before.get(name)) is not None else None
        for name in ("pcie_replays_total", "sample_time")
    )
    return {
        "memory_ratio": ratio(get("memory_used_bytes"), get("memory_bytes")),
        "power_ratio": ratio(get("power_watts"), get("power_limit_watts")),
        "nvlink_bytes_per_second": get("nvlink_bandwidth_bytes_per_second") if both is None else both,
        "pcie_link_bytes_per_second": None if lane is None or width is None else lane * width,
        "pcie_replays_per_second": ratio(replays, seconds) if (replays or 0) >= 0 and (seconds or 0) > 0 else None,
    }


@dataclass(frozen=True)
class Answers:
    """The last answers of a daemon.

    Attributes:
        label: its address, or that it is pulsed's own.
        error: of the last request; empty while it answers.
        documents: by the name of the request; empty for one that the daemon does not have.
        before: the summary of the sample before.
        arrived: monotonic seconds of the summary.
        seconds: duration of its request.
    """

    label: str
    error: str = ""
    documents: Mapping[str, Document] = field(default_factory=dict)
    before: Document | None = None
    arrived: float = 0.0
    seconds: float = 0.0

    @property
    def node(self) -> str:
        """The name of its node; empty before the first answer."""
        return str(self.get("summary", "node", ""))

    def get(self, document: str, key: str, default: Any = None) -> Any:
        """Return an entry of a document; the default if it is absent or null."""
        found = self.documents.get(document, {}).get(key)
        return default if found is None else found


@dataclass(frozen=True)
class Model:
    """Everything that can be shown.

    Attributes:
        time: Unix seconds.
        now: the same moment in monotonic seconds.
        cost: mean share of a core, and most bytes of memory of this program.
    """

    time: float
    now: float = 0.0
    daemons: tuple[Answers, ...] = ()
    gpus: tuple[FleetRow, ...] = ()
    cost: tuple[float, int] | None = None

    def age(self, daemon: Answers) -> Number:
        """Return the seconds since the last answer of a daemon; None before the first."""
        return max(self.now - daemon.arrived, 0.0) if "summary" in daemon.documents else None

    def is_lost(self, daemon: Answers) -> bool:
        """Return whether a daemon has not answered for a while."""
        age = self.age(daemon)
        return age is None or age > LOST_SECONDS

    @property
    def sources(self) -> list[Document]:
        """The sources of all daemons."""
        return [source for daemon in self.daemons for source in daemon.get("summary", "sources", ())]

    @cached_property
    def has_several_nodes(self) -> bool:
        """Whether GPUs are of more than one node."""
        return len({gpu.node for gpu in self.gpus}) > 1

    def label(self, gpu: FleetRow) -> str:
        """Return the name of a GPU, with its node if there are several."""
        return f"{gpu.node}/{gpu.name}" if self.has_several_nodes else gpu.name

    def find(self, name: str) -> FleetRow | None:
        """Return the first GPU with a key, UUID, name, or `node:name`."""
        for gpu in self.gpus:
            if name in (gpu.key, gpu.name, f"{gpu.node}:{gpu.name}", f"{gpu.node}/{gpu.name}", gpu.uuid or gpu.key):
                return gpu
        return None


def model_of(daemons: Sequence[Answers], now: float, wall_time: float, cost: tuple[float, int] | None = None) -> Model:
    """Return the model at `now` monotonic seconds, which is `wall_time`."""
    gpus = [gpu for number, daemon in enumerate(daemons) for gpu in _gpus(number, daemon, now, wall_time)]
    return Model(wall_time, now, tuple(daemons), tuple(gpus), cost)


def _gpus(source: int, daemon: Answers, now: float, wall_time: float) -> Iterator[FleetRow]:
    if (summary := daemon.documents.get("summary")) is None:
        return
    waited, time = max(now - daemon.arrived, 0.0), seconds_of(summary["time"])
    is_silent, rows = waited > LOST_SECONDS, _rows(summary)
    before = _rows(daemon.before) if daemon.before and daemon.before["roster"] == summary["roster"] else ()
    histories = {_identity(each): each["fields"] for each in daemon.get("history", "gpus", ())}
    for row, old in zip_longest(rows, before):
        identity = _identity(row)
        detail, reason = (_of(identity, daemon.documents.get(name)) for name in ("detail", "class"))
        metrics = {**detail.get("metrics", {}), **{name: value for name, value in row.items() if value is not None}}
        past = {name: each["mean"] if isinstance(each, dict) else each
                for name, each in histories.get(identity, {}).items()}  # fmt: skip
        since, owners = row.get("class_since"), row.get("owners")
        yield FleetRow(
            *(source, *identity, row["mig_profile"] or "", (row["model"] or "").removeprefix("NVIDIA ")),
            {**metrics, **derived(metrics, old), **({"health_state": "unknown"} if is_silent else {})},
            stale=row["stale"] or is_silent,
            age=max(0.0, time - row["sample_time"]) + waited,
            owners=None if owners is None else tuple(owners),
            class_age=None if since is None else max(wall_time - since, 0.0),
            candidates=tuple(row.get("candidates") or ()),
            problem="" if is_silent else row.get("problem") or "",
            detail=detail,
            class_reason=reason,
            history={"time": daemon.get("history", "time", ()), **past} if past else {},
        )


def _rows(summary: Document) -> list[dict[str, Any]]:
    """Return the columns of a summary as a mapping for each GPU."""
    others = {name: column for name, column in summary.items() if isinstance(column, list) and name != "sources"}
    columns = {**others, **summary["gpus"], **summary["fields"]}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _identity(document: Document) -> Identity:
    node, gpu, uuid, mig_id = (str(document.get(name) or "") for name in ("node", "gpu", "uuid", "mig_id"))
    return node, gpu, uuid, mig_id


def _of(identity: Identity, document: Document | None) -> Document:
    """Return a document about this GPU, or an empty one."""
    return document if document and _identity(document) == identity else {}


def seconds_of(text: str) -> float:
    """Return the Unix time of a time of the API."""
    return datetime.fromisoformat(text).timestamp()
