"""Random relays between an exporter and pulsed, next to the exporter's own pages: what must not change.

Whatever a relay makes of a page (renames metrics and labels, rewrites models, converts units, drops fields, reorders
rows, adds Prometheus' labels), the verdicts of the checks, classes and owners are those of the good page, or unknown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import GpuKey
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import GpuRow, Tick
from pulsed.reader.exposition.parser import PageParser

INTERVAL, DAY = 15.0, 1767225600.0

SETTLED = 6
"""Pages before the first that is compared: units are proven, and the checks have their inputs."""

PAGES = 12

COUNTERS = frozenset(
    f"DCGM_FI_DEV_{name}"
    for name in ("TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER", "ECC_DBE_VOL_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS")
)
PERCENT = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL")
MEMORY = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE")

PROFILED = tuple(
    f"DCGM_FI_PROF_{name}" for name in ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")
)

NOISE = 0.02
"""Difference of the engine's activity between the profiler and the driver, which are not of the same moment."""

Row = tuple[str, dict[str, str], float]
Change = Callable[[list[Row]], list[Row]]

GENERATION = ("DCGM_FI_DEV_PCIE_LINK_GEN", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN")
WIDTH = ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH")

MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA GeForce RTX 5090")


class RelayedNode:
    """A node with GPUs of different loads and faults, and its exporter's pages."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._gpus = [
            {
                "load": rng.choice(("busy", "idle", "copy")),
                "fault": rng.choice(("", "", "ecc", "remap", "link", "xid")),
                "pod": rng.choice(("", f"train-{gpu}")),
                "instances": rng.choice((0, 0, 2)),
                "model": rng.choice(MODELS),
            }
            for gpu in range(rng.randint(1, 3))
        ]

    def page(self, at: int) -> list[Row]:
        """Return the rows of a page."""
        rows: list[Row] = []
        for gpu, facts in enumerate(self._gpus):
            labels = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "device": f"nvidia{gpu}", "modelName": str(facts["model"])}
            labels["Hostname"] = "node"
            instances = int(facts["instances"]) if "100" in str(facts["model"]) else 0
            pod = {"namespace": "ml", "pod": str(facts["pod"]), "container": "main"} if facts["pod"] else {}
            values = self._board(str(facts["load"]), str(facts["fault"]), at)
            profiled = self._profiled(str(facts["load"]))
            if not instances:
                rows += [(name, labels | pod, value) for name, value in {**values, **profiled}.items()]
                continue
            rows += [(name, labels, value) for name, value in values.items()]
            for number in range(instances):
                own = {"GPU_I_ID": str(number + 1), "GPU_I_PROFILE": "3g.40gb"}
                rows += [(name, labels | own | pod, value) for name, value in profiled.items()]
        return rows

    def _board(self, load: str, fault: str, at: int) -> Mapping[str, float]:
        is_late, is_idle = at >= 2, load == "idle"
        watts = 72.0 + self._rng.random() if is_idle else 480.0 + 20.0 * self._rng.random()
        values = {
            "SM_CLOCK": 345.0 if is_idle else 1755.0,
            "GPU_TEMP": 55.0 + self._rng.randrange(3),
            "POWER_USAGE": round(watts, 3),
            "TOTAL_ENERGY_CONSUMPTION": 1e9 + (1.1e6 if is_idle else 7.5e6) * at,
            "GPU_UTIL": 0.0 if is_idle else 95.0 + self._rng.randrange(5),
            "MEM_COPY_UTIL": 0.0 if is_idle else 40.0 + self._rng.randrange(5),
            "FB_USED": 600.0 if is_idle else 60_000.0,
            "FB_FREE": 80_000.0 if is_idle else 20_600.0,
            "FB_RESERVED": 400.0,
            "PCIE_REPLAY_COUNTER": 0.0,
            "ECC_DBE_VOL_TOTAL": 3.0 if fault == "ecc" and is_late else 0.0,
            "UNCORRECTABLE_REMAPPED_ROWS": 2.0 if fault == "remap" and is_late else 0.0,
            "ROW_REMAP_FAILURE": 0.0,
            "XID_ERRORS": 48.0 if fault == "xid" and is_late else 0.0,
            "PSTATE": 8.0 if is_idle else 0.0,
            "PCIE_LINK_WIDTH": 16.0,
            "PCIE_MAX_LINK_WIDTH": 16.0,
            "PCIE_LINK_GEN": 2.0 if fault == "link" else 4.0,
            "PCIE_MAX_LINK_GEN": 4.0,
        }
        return {f"DCGM_FI_DEV_{name}": value for name, value in values.items()}

    def _profiled(self, load: str) -> Mapping[str, float]:
        levels = {"busy": (0.95, 0.8, 0.5, 0.4), "idle": (0.0,) * 4, "copy": (0.3, 0.05, 0.0, 0.2)}[load]
        names = ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")
        noisy = [level and round(level + 0.02 * self._rng.random(), 6) for level in levels]
        activity = {f"DCGM_FI_PROF_{name}": value for name, value in zip(names, noisy, strict=True)}
        rate = {"busy": 1e8, "idle": 3e4, "copy": 2e10}[load]
        return {**activity, "DCGM_FI_PROF_PCIE_TX_BYTES": rate, "DCGM_FI_PROF_PCIE_RX_BYTES": rate}


def _renamed(change: Callable[[str], str]) -> Change:
    return lambda rows: [(change(name), labels, value) for name, labels, value in rows]


def _labels(change: Callable[[str], str]) -> Change:
    return lambda rows: [(name, {change(each): text for each, text in of.items()}, value) for name, of, value in rows]


def _models(change: Callable[[str], str]) -> Change:
    return lambda rows: [(name, of | {"modelName": change(of["modelName"])}, value) for name, of, value in rows]


def _scaled(names: Sequence[str], factor: float) -> Change:
    return lambda rows: [(name, of, value * factor if name in names else value) for name, of, value in rows]


OWN = {
    "instance": "10.0.0.7:9400",
    "job": "gpu",
    "namespace": "kube-system",
    "pod": "gpu-manager-x7kq2",
    "container": "e",
}
"""Labels of Prometheus: the scraped pod is the exporter's."""


def _scraped(rows: list[Row]) -> list[Row]:
    moved = ("namespace", "pod", "container")
    return [
        (name, {(f"exported_{each}" if each in moved else each): text for each, text in of.items()} | OWN, value)
        for name, of, value in rows
    ]


def _honoured(rows: list[Row]) -> list[Row]:
    return [(name, OWN | of, value) for name, of, value in rows]


CHANGES: Mapping[str, Change] = {
    "scraped": _scraped,
    "honoured": _honoured,
    "models with hyphens": _models(lambda model: model.replace(" ", "-")),
    "models with underscores": _models(lambda model: model.replace(" ", "_")),
    "models in lower case": _models(str.lower),
    "ratios": _scaled(PERCENT, 0.01),
    "kibibytes": _scaled((*MEMORY, "DCGM_FI_DEV_FB_RESERVED"), 2.0**10),
    "joules": _scaled(("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",), 0.001),
    "profiled percentages": _scaled(PROFILED, 100.0),
    "fahrenheit": lambda rows: [
        (name, of, value * 1.8 + 32.0 if name == "DCGM_FI_DEV_GPU_TEMP" else value) for name, of, value in rows
    ],
    "bytes": _scaled((*MEMORY, "DCGM_FI_DEV_FB_RESERVED"), 2.0**20),
    "total": _renamed(lambda name: f"{name}_total" if name in COUNTERS else name),
    "names in lower case": _renamed(str.lower),
    "names with dots": _renamed(lambda name: name.lower().replace("_", ".")),
    "labels in lower case": _labels(str.lower),
    "labels with dots": _labels(lambda name: name.replace("_", ".")),
}
"""In the order in which a relay applies them: names last, by which the others find their rows."""

EXCLUSIVE = (("kibibytes", "bytes"), ("scraped", "honoured"), ("names in lower case", "names with dots"))


@dataclass(frozen=True, slots=True)
class Relay:
    """The changes of one relay, in order, and the fields that it drops."""

    changes: tuple[str, ...]
    dropped: frozenset[str]

    def text(self, rows: list[Row], rng: random.Random) -> str:
        """Return a page as the relay serves it, in an order of its own."""
        rows = [row for row in rows if row[0] not in self.dropped]
        rng.shuffle(rows)
        for name in self.changes:
            rows = CHANGES[name](rows)
        return page_text(rows)


def random_relay(rng: random.Random, names: Sequence[str]) -> Relay:
    """Return a relay that changes some things, and drops some of the fields."""
    chosen = {name for name in CHANGES if rng.random() < 0.35}
    for one, other in EXCLUSIVE:
        if {one, other} <= chosen:
            chosen.discard(one)
    dropped = frozenset(name for name in names if rng.random() < 0.15) if rng.random() < 0.5 else frozenset[str]()
    if dropped.issuperset(GENERATION):  # without any input the rule is not part of its check
        dropped = dropped.union(WIDTH)
    return Relay(tuple(name for name in CHANGES if name in chosen), dropped)


def page_text(rows: Sequence[Row]) -> str:
    """Return rows in the text format, with quotes around names that need them."""
    return "".join(_line(*row) for row in rows)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{_quoted(each)}="{text}"' for each, text in labels.items())
    return f"{{{_quoted(name)},{pairs}}} {value!r}\n" if "." in name else f"{name}{{{pairs}}} {value!r}\n"


def _quoted(name: str) -> str:
    return f'"{name}"' if "." in name else name


class _Reader:
    """The layers behind one address."""

    def __init__(self) -> None:
        self._pipeline, self._parser, self._at = Pipeline(GpuTable(), "node"), PageParser(), 0

    def read(self, text: str) -> Mapping[GpuKey, GpuRow]:
        parsed, clock = self._parser.parse(text.encode()), INTERVAL * self._at
        self._at += 1
        tick: Tick = self._pipeline.process(
            RawTick("t", Unix(DAY + clock), Monotonic(clock), INTERVAL, parsed.layout, parsed.values)
        )
        return {row.device.entity.key: row for row in tick.gpus}


def false_statements(seed: object, changes: tuple[str, ...] | None = None) -> Iterator[str]:
    """Yield the statements about relayed pages that the exporter's own pages refute.

    Args:
        seed: of the node and the relay.
        changes: of the relay; None: random ones.
    """
    rng = random.Random(f"relays {seed}")
    node = RelayedNode(rng)
    relay = random_relay(rng, sorted({name for name, _, _ in node.page(0)}))
    if changes is not None:
        relay = Relay(changes, frozenset())
    good_reader, relayed_reader = _Reader(), _Reader()
    for at in range(PAGES):
        rows = node.page(at)
        good = good_reader.read(page_text(rows))
        relayed = relayed_reader.read(relay.text(list(rows), rng))
        if at < SETTLED:
            continue
        if good.keys() != relayed.keys():
            yield f"{relay}: GPUs {sorted(relayed)} instead of {sorted(good)}"
            return
        for key, row in good.items():
            yield from (f"{relay}, page {at}, {key}: {each}" for each in _differences(row, relayed[key]))


def _differences(good: GpuRow, relayed: GpuRow) -> Iterator[str]:
    verdicts = {check.id: check.state for check in good.result.health.checks}
    for check in relayed.result.health.checks:
        if check.state not in ("unknown", verdicts[check.id]):
            yield f"{check.id} is {check.state}, not {verdicts[check.id]}"
    classes = [row.result.workload.raw_class for row in (relayed, good)]
    if classes[0] not in ("unknown", classes[1]):
        yield f"the class is {classes[0]}, not {classes[1]}"
    owners, expected = (set(row.owners or ()) for row in (relayed, good))
    if not owners <= expected:
        yield f"the owners are {owners}, not {expected}"
    found, true = relayed.result.real_utilization.ratio, good.result.real_utilization.ratio
    if found.low > true.high + NOISE or found.high < true.low - NOISE:
        yield f"the real utilization is {found.low}..{found.high}, not {true.low}..{true.high}"
