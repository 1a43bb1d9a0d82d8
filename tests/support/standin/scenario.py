"""What the stand-in plays: a DCGM version, GPUs, their values, and what goes wrong. Written as JSON, read by the child.

A running child looks at the file before every tick, so a scenario that is written again steers it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from tests.support.standin.signals import Constant, Counter, Rate, Sequence, Signal, Square, Stream

FOREVER = float("inf")

_WORKING = Stream("steady")
_UPTIME = 86_400.0

Arch = Literal["pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "geforce"]

GPM_ARCHES = ("hopper", "blackwell")
"""Profile through NVML's GPM: all fields at once, but nothing in the first ticks."""

UNPROFILED_ARCHES = ("pascal", "geforce")
"""DCGM's profiling module does not load for these."""

PROFILING = range(1001, 1100)
"""The ids of profiling fields, 1080-1083 included."""


@dataclass(frozen=True)
class Instance:
    """A MIG GPU instance.

    Attributes:
        id: NVML's id of the instance on its GPU.
        profile: which DCGM nowhere prints.
        computes: NVML's ids of its compute instances.
        entity: DCGM's entity id, which its first compute instance has too; by default the GPU's place times seven plus
            the instance's place in its GPU's list, and compute instances are counted likewise.
    """

    id: int
    profile: str = "1g.10gb"
    computes: tuple[int, ...] = (0,)
    entity: int = -1


@dataclass(frozen=True)
class Gpu:
    """A GPU. What is empty is made up from its index.

    Attributes:
        state: `lost` GPUs have no rows any more, `blank` ones only `N/A`; discovery of 4.5 and newer hides both.
        load: how busy it is, 0 to 1; all values without an own signal follow from it. None is the scenario's load.
        xid: the last XID; None is none yet.
    """

    model: str = "NVIDIA H100 80GB HBM3"
    arch: Arch = "hopper"
    uuid: str = ""
    bus_id: str = ""
    instances: tuple[Instance, ...] = ()
    state: Literal["ok", "lost", "blank"] = "ok"
    load: Rate | None = None
    xid: int | None = None


@dataclass(frozen=True)
class Refusal:
    """A watch that the engine refuses.

    Attributes:
        failure: key of `tests.support.dmon_writer.FAILURES` with the moment `watch`.
        fields: asked for one of these, it refuses; empty means whatever is asked for.
        until: Unix time from which it no longer refuses.
        starts: refuse only so many first starts of `dmon`; 0 means all.
    """

    failure: str
    fields: tuple[int, ...] = ()
    until: float = FOREVER
    starts: int = 0


FaultKind = Literal[
    "hang", "engine_died", "no_data", "half_row", "close", "garbage", "exit", "crash", "binary", "stderr_flood"
]


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong in a running `dmon`.

    Attributes:
        kind: `hang`: prints nothing, lives. `engine_died`, `no_data`: the error of that name. `half_row`: half a line,
            then exit with `status`. `close`: closes stdout, lives. `garbage`, `binary`: lines (bytes) that are no rows
            instead of ticks. `exit`: exit with `status` after a tick, not a word. `crash`: SIGSEGV. `stderr_flood`:
            fills the pipe of stderr, then goes on.
        after: ticks printed before.
        lasts: seconds after which ticks come again, where that is possible.
        starts: happens only in so many first starts of `dmon`; 0 means in all.
        until: Unix time from which it happens no more.
    """

    kind: FaultKind
    after: int = 0
    lasts: float = FOREVER
    starts: int = 0
    until: float = FOREVER
    status: int = 1


@dataclass(frozen=True)
class Scenario:
    """All that the stand-in plays.

    Attributes:
        version: of DCGM; decides layout, options, fields, texts.
        gpus: in the order of their indexes.
        load: of every GPU that has none of its own.
        values: own signals, by entity (`GPU 0`, `GPU-I 3`, or `*` for all) and field id.
        driver: version of NVIDIA's driver.
        booted: Unix time at which energy was 0; a later one is a reloaded driver.
        groups: entities of groups for `-g`, besides the built-in 0 and 1.
        missing_fields: ids that this version does not know, besides those that it really does not know.
        blank_fields: ids that answer `N/A`.
        all_blank: every number is `N/A`, as with an engine under a service account.
        gpm_ticks: ticks in which Hopper's profiling fields have no value yet.
        refusals: the first that applies counts.
        faults: the first that applies counts.
        engine: whether the host engine runs. A child that loses it dies as dcgmi does.
        slow_start: seconds before anything is printed.
        update_every: seconds between updates of the engine's cache; faster reads see values again.
        burst: ticks that are held back and written together.
        ignored_signals: names without SIG, e.g. INT and TERM, that do nothing.
        log_ticks: whether to note when values are read, for `Standin.ticks`.
        switches: number of NvSwitches in discovery.
        cpus: number of Grace CPUs in discovery.
    """

    version: str = "4.4.1"
    gpus: tuple[Gpu, ...] = (Gpu(),)
    load: Rate = _WORKING
    values: Mapping[str, Mapping[int, Signal]] = field(default_factory=dict)
    driver: str = "570.124.06"
    booted: float = field(default_factory=lambda: time.time() - _UPTIME)
    groups: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    missing_fields: tuple[int, ...] = ()
    blank_fields: tuple[int, ...] = ()
    all_blank: bool = False
    gpm_ticks: int = 2
    refusals: tuple[Refusal, ...] = ()
    faults: tuple[Fault, ...] = ()
    engine: bool = True
    slow_start: float = 0.0
    update_every: float = 0.1
    burst: int = 1
    ignored_signals: tuple[str, ...] = ()
    log_ticks: bool = False
    switches: int = 0
    cpus: int = 0

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, to compare with."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def era(self) -> str:
        """The key of `tests.support.dmon_writer.ERAS`."""
        release = self.release
        return "A" if release < (2, 4) else "B" if release < (4, 0) else "C1" if release < (4, 5) else "C2"

    def to_json(self) -> str:
        """As the child reads it."""
        return json.dumps(_plain(self), indent=1)


_KINDS: Mapping[str, Callable[..., object]] = {
    kind.__name__: kind
    for kind in (Scenario, Gpu, Instance, Refusal, Fault, Constant, Square, Stream, Sequence, Counter)
}


def _plain(value: object) -> object:
    if type(value).__name__ in _KINDS:
        names = [item.name for item in fields(value) if item.init]  # type: ignore[arg-type]
        return {"kind_": type(value).__name__} | {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {"map_": [[key, _plain(item)] for key, item in value.items()]}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _rich(value: object) -> object:
    if isinstance(value, dict):
        if "map_" in value:
            return {key: _rich(item) for key, item in value["map_"]}
        return _KINDS[value["kind_"]](**{name: _rich(item) for name, item in value.items() if name != "kind_"})
    return tuple(_rich(item) for item in value) if isinstance(value, list) else value


def from_json(text: str) -> Scenario:
    """The scenario that `to_json` wrote."""
    scenario = _rich(json.loads(text))
    assert isinstance(scenario, Scenario)
    return scenario


MODELS: Mapping[Arch, str] = {
    "pascal": "Tesla P100-PCIE-16GB",
    "volta": "Tesla V100-SXM2-32GB",
    "turing": "Tesla T4",
    "ampere": "NVIDIA A100-SXM4-80GB",
    "ada": "NVIDIA RTX 6000 Ada Generation",
    "hopper": "NVIDIA H100 80GB HBM3",
    "blackwell": "NVIDIA B200",
    "geforce": "NVIDIA GeForce RTX 4090",
}


def gpus(arch: Arch, count: int, load: Rate | None = None) -> tuple[Gpu, ...]:
    """So many equal GPUs."""
    return tuple(Gpu(MODELS[arch], arch, load=load) for _ in range(count))


def with_mig(gpu: Gpu, *profiles: str) -> Gpu:
    """The GPU cut into instances of these profiles, each with one compute instance."""
    # NVML numbers instances by size: 7g 0, 4g and 3g from 1, 2g from 3, 1g from 7.
    first = {"7": 0, "4": 1, "3": 1, "2": 3, "1": 7}
    taken: set[int] = set()
    instances = []
    for profile in profiles:
        number = first[profile[0]]
        while number in taken:
            number += 1
        taken.add(number)
        instances.append(Instance(number, profile))
    return replace(gpu, instances=tuple(instances))
