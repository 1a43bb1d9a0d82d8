"""Random pages that leave something out, next to the same pages whole: what must not change.

Whatever a page leaves out, for one tick or for twenty, in any order (rows of GPUs and of MIG instances, labels of
owners, single fields, whole pages), changes no owner, no counter backwards, and no health but `telemetry` and
`gpu_lost`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import NoGpus
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import GpuKey
from pulsed.model.raw_tick import RawTick
from pulsed.model.tick import Tick
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.reader.exposition.parser import PageParser

TICKS, INTERVAL, DAY = 60, 15.0, 1767225600.0

LONGEST = 20
"""Ticks that an omission lasts at most, as do several of the same row in a row."""

LONGEST_UNNAMED = 39
"""Ticks without the owner of a row, whatever omits it: after 600 s an owner has ended."""

SETTLED = 8
"""Ticks before the first omission: faults and owners are there, and the checks have their inputs."""

Labels = tuple[tuple[str, str], ...]

FAULTS: Sequence[Mapping[str, float]] = (
    {},
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE": 1.0},
    {"DCGM_FI_DEV_ROW_REMAP_PENDING": 1.0},
    {"DCGM_FI_DEV_XID_ERRORS": 48.0},
    {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": 4.0},
)
"""Values from the third tick on."""

HEALTHY: Mapping[str, float] = {
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0,
    "DCGM_FI_DEV_ROW_REMAP_PENDING": 0.0,
    "DCGM_FI_DEV_XID_ERRORS": 0.0,
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": 3.0,
}

EXEMPT = ("telemetry", "gpu_lost")


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU or a MIG instance of the node: its own labels, its owner's, and its fault."""

    labels: Labels
    owner: Labels
    fault: Mapping[str, float] = field(default_factory=dict)
    is_instance: bool = False

    def values(self, rng: random.Random, at: int) -> dict[str, float]:
        """Return what the exporter has of it in a tick; it works all the time."""
        activity = {
            f"DCGM_FI_PROF_{name}": round(rng.uniform(0.4, 0.9), 6)
            for name in ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")
        }
        memory = {"DCGM_FI_DEV_FB_USED": 20_000.0}
        if self.is_instance:
            return activity | memory
        board = {
            "DCGM_FI_DEV_GPU_TEMP": 55.0 + rng.randrange(3),
            "DCGM_FI_DEV_POWER_USAGE": round(rng.uniform(400.0, 600.0), 3),
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1e9 + 7_500_000.0 * at + rng.randrange(1000),
        }
        return {**activity, **memory, **board, **HEALTHY, **(self.fault if at >= 2 else {})}


@dataclass(frozen=True, slots=True)
class Omission:
    """What some consecutive pages lack: `rows` of parts, `owners` of parts, `fields`, or the whole `page`."""

    kind: str
    begin: int
    end: int
    parts: frozenset[int]
    fields: frozenset[str]


class OmittingNode:
    """A node whose exporter leaves things out, with the truth about it."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = random.Random(f"omissions {seed}")
        boards = rng.randint(1, 3)
        self.parts: list[Part] = []
        for gpu in range(boards):
            model, host = ("modelName", "NVIDIA H100 80GB HBM3"), ("Hostname", "node")
            labels: Labels = (("gpu", str(gpu)), ("UUID", f"GPU-{seed}-{gpu}"), model, host)
            instances = rng.choice([0, 0, 2, 3])
            fault = rng.choice(FAULTS)
            self.parts.append(Part(labels, () if instances else _owner(f"pod-{gpu}"), fault))
            for number in range(instances):
                own = (("GPU_I_ID", str(number + 1)), ("GPU_I_PROFILE", "2g.20gb"))
                self.parts.append(Part(labels + own, _owner(f"pod-{gpu}-{number}"), is_instance=True))
        self.omissions = [self._omission() for _ in range(rng.randint(1, 4))]
        while self._longest_absence("page", "rows") > LONGEST or (
            self._longest_absence("page", "rows", "owners") > LONGEST_UNNAMED
        ):
            self.omissions.pop()
        self._values = [[part.values(rng, at) for part in self.parts] for at in range(TICKS)]

    def _longest_absence(self, *kinds: str) -> int:
        """Return the most consecutive ticks in which a part is omitted by these kinds of omissions."""
        longest = 0
        for part in range(len(self.parts)):
            of_part = [
                each for each in self.omissions if each.kind in kinds and (each.kind == "page" or part in each.parts)
            ]
            absent = 0
            for at in range(TICKS):
                absent = absent + 1 if any(each.begin <= at < each.end for each in of_part) else 0
                longest = max(longest, absent)
        return longest

    def _omission(self) -> Omission:
        rng = self._rng
        begin = rng.randrange(SETTLED, TICKS - 6)
        end = min(begin + rng.choice([1, 1, 2, 5, LONGEST]), TICKS - 3)
        some = frozenset(at for at in range(len(self.parts)) if rng.random() < 0.5)
        fields = frozenset(rng.sample(sorted(self.parts[0].values(rng, 0)), rng.randint(1, 5)))
        return Omission(rng.choice(["rows", "owners", "fields", "page"]), begin, end, some, fields)

    def page(self, at: int, *, is_whole: bool) -> str | None:
        """Return the page of a tick; None for none, as an exporter's source refuses an empty one."""
        omissions = [] if is_whole else [each for each in self.omissions if each.begin <= at < each.end]
        if any(each.kind == "page" for each in omissions):
            return None
        lines = []
        for number, (part, values) in enumerate(zip(self.parts, self._values[at], strict=True)):
            kinds = {each.kind for each in omissions if number in each.parts}
            if "rows" in kinds:
                continue
            labels = part.labels + (() if "owners" in kinds else part.owner)
            text = ",".join(f'{name}="{value}"' for name, value in labels)
            of_fields = [each.fields for each in omissions if each.kind == "fields" and number in each.parts]
            gone = frozenset[str]().union(*of_fields)
            lines += [f"{name}{{{text}}} {value!r}\n" for name, value in values.items() if name not in gone]
        return "".join(lines) or None


def _owner(name: str) -> Labels:
    return (("pod", name), ("namespace", "ml"), ("container", "main"))


@dataclass(slots=True)
class Outcome:
    """What came of the pages: a tick each, None for one without, and the accounts."""

    ticks: list[Tick | None] = field(default_factory=list)
    accounts: list[OwnerAccount] = field(default_factory=list)


def outcome(node: OmittingNode, *, is_whole: bool) -> Outcome:
    """Return what comes of the pages of a node, with or without its omissions."""
    done, ended = Outcome(), list[OwnerAccount]()
    pipeline, parser, accounting = Pipeline(GpuTable(), "node"), PageParser(), OwnerAccounting(on_end=ended.append)
    for at in range(TICKS):
        page = node.page(at, is_whole=is_whole)
        tick: Tick | None = None
        if page is not None:
            parsed = parser.parse(page.encode())
            raw = RawTick(
                "t", Unix(DAY + INTERVAL * at), Monotonic(INTERVAL * at), INTERVAL, parsed.layout, parsed.values
            )
            try:
                tick = pipeline.process(raw, ())
                accounting.add(tick)
            except NoGpus:
                tick = None
        done.ticks.append(tick)
    done.accounts = [*ended, *accounting.unfinished]
    return done


def changed_by_omissions(seed: int) -> Iterator[str]:
    """Yield what the omissions of a random node change that they must not."""
    node = OmittingNode(seed)
    whole, partial = outcome(node, is_whole=True), outcome(node, is_whole=False)
    before: dict[GpuKey, CounterSnapshot] = {}
    states: dict[tuple[GpuKey, str], set[str]] = {}
    for at, (expected, got) in enumerate(zip(whole.ticks, partial.ticks, strict=True)):
        assert expected is not None
        for row in expected.gpus:
            for check in row.result.health.checks:
                states.setdefault((row.device.entity.key, check.id), set()).add(check.state)
        if got is None:
            continue
        shown = {row.device.entity.key for row in got.gpus}
        missing = {row.device.entity.key for row in expected.gpus} - shown
        if at > SETTLED and missing:
            yield f"seed {seed}, tick {at}: {sorted(missing)} are not shown"
        for row in got.gpus:
            key, counters = row.device.entity.key, row.result.counters
            if key in before and any(
                new is None or new < old - 1e-9
                for new, old in zip(counters.values, before[key].values, strict=True)
                if old is not None
            ):
                yield f"seed {seed}, tick {at}: counters of {key} fall"
            before[key] = counters
            for check in row.result.health.checks:
                allowed = states.get((key, check.id), {"unknown"}) | {"unknown"}
                if at > SETTLED and check.id not in EXEMPT and check.state not in allowed:
                    yield f"seed {seed}, tick {at}: {check.id} of {key} is {check.state}, not {sorted(allowed)}"
    for complaint in _changed_owners(whole, partial):
        yield f"seed {seed}: {complaint}"


def _changed_owners(whole: Outcome, partial: Outcome) -> Iterator[str]:
    expected = {account.owner.key: account for account in whole.accounts}
    for key, account in expected.items():
        found = [each for each in partial.accounts if each.owner.key == key]
        if len(found) != 1 or found[0].end is not None:
            yield f"{key} has {len(found)} accounts, ended: {[each.end for each in found]}"
        elif found[0].gpus.keys() != account.gpus.keys():
            yield f"{key} has the GPUs {sorted(found[0].gpus)}, not {sorted(account.gpus)}"
        elif abs(found[0].begin - account.begin) > 1e-6 or found[0].elapsed > account.elapsed + 1e-6:
            yield f"{key} began at {found[0].begin - DAY:g} and has {found[0].elapsed:g} s, not {account.elapsed:g}"
    for account in partial.accounts:
        if account.owner.key not in expected and account.owner.is_known:
            yield f"{account.owner.key} is nobody's owner"
