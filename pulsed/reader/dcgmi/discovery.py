"""Identity of the GPUs, versions of DCGM and the epoch of its host engine.

`dcgmi discovery -l` has the GPUs with name, PCI address and UUID, `-c` the tree of MIG instances: which entity id of
dmon is which NVML instance of which GPU; it names neither profiles nor the UUIDs of instances (Query.cpp, DCGM 2.1 to
4.7). The epoch is the start of the engine's process, if visible.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pulsed.errors import SourceError, StreamBroke, StreamHung
from pulsed.model.raw_tick import Labels, Layout, Series
from pulsed.reader.dcgmi.child import Child
from pulsed.reader.dcgmi.failures import failure_of
from pulsed.reader.dmon.rows import read_text

_MAX_BYTES = 2**20
_GPU_ID = re.compile(r"(?:GPU\s+)?(\d+)")
_FACT_LABELS = {"Name": "model", "PCI Bus ID": "pci_bus_id", "Device UUID": "uuid"}
_FACT_ORDER = ("uuid", "model", "pci_bus_id")
_BRANCH = re.compile(r"(?:->\s*)?(GPU|I|CI) ([\d/]+)")
_UUID = re.compile(r"GPU-[0-9A-Fa-f-]+")
_ENTITY = re.compile(r"\(EntityID:\s*(\d+)\)$")
_VERSION = re.compile(r"^Version\s*:\s*(\d[\w.+-]*)", re.MULTILINE)
_ENGINE = "Hostengine build info"


@dataclass(frozen=True, slots=True)
class Topology:
    """Labels of the entities in dmon's rows, as far as known.

    Attributes:
        labels: by `entity` and `id` of a row. A GPU has `uuid`, `model`, `pci_bus_id`; a MIG instance has `gpu` (the id
            of its GPU's row), `instance_id` (NVML's), a compute instance also `compute_instance_id`, and both have the
            texts of their GPU. Unknown labels are left out.
    """

    labels: Mapping[tuple[str, str], Labels] = field(default_factory=dict)

    @property
    def has_instances(self) -> bool:
        """Whether any GPU is split by MIG."""
        return any(entity == "GPU-I" for entity, _ in self.labels)

    @property
    def models(self) -> frozenset[str]:
        """The product names."""
        return frozenset(text for labels in self.labels.values() for name, text in labels if name == "model")


NOTHING_KNOWN = Topology()


def is_outdated(before: Topology, now: Topology) -> bool:
    """Return whether a dmon started with `before` lacks entities of `now`: it keeps the entities of its start.

    GPUs that are gone do not count: their rows are blank or left out, which marks them as gone.
    """
    changed = before.labels.keys() ^ now.labels.keys()
    if any(entity != "GPU" for entity, _ in changed):
        return True
    return bool(before.labels) and not changed.isdisjoint(now.labels)


def parse_listing(text: str) -> dict[str, dict[str, str]]:
    """Read `dcgmi discovery -l`: by GPU id `uuid`, `model`, `pci_bus_id`, as far as they are known."""
    gpus: dict[str, dict[str, str]] = {}
    about_gpus, current = False, None
    for line in text.splitlines():
        cells = _cells(line)
        if cells is None:
            if not line.startswith("+"):  # `8 GPUs found.`, `0 NvSwitches found.`: another table begins
                about_gpus, current = False, None
            continue
        left, right = cells
        if right == "Device Information":
            about_gpus, current = left == "GPU ID", None
            continue
        if about_gpus and left and (number := _GPU_ID.fullmatch(left)):
            current = gpus.setdefault(number[1], {})
        fact, _, text = right.partition(":")
        label = _FACT_LABELS.get(fact)
        cleaned = read_text(text.strip().removesuffix("(last known)").rstrip()) if label else None
        if about_gpus and current is not None and label and cleaned:
            current[label] = cleaned
    return gpus


def parse_hierarchy(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """Read `dcgmi discovery -c`: by entity and id of MIG instances `gpu`, `instance_id` and so on, and GPUs' `uuid`."""
    entities: dict[tuple[str, str], dict[str, str]] = {}
    gpu = ""
    for line in text.splitlines():
        left, right = _cells(line) or ("", "")
        branch, entity = _BRANCH.fullmatch(left), _ENTITY.search(right)
        if branch is None or entity is None:
            continue
        uuid, id_ = _UUID.search(right), entity[1]
        place = branch[2].split("/")
        if branch[1] == "GPU":
            # This number of the GPU is NVML's and may differ from its row in dmon: the row has the entity id.
            gpu = id_
            entities["GPU", id_] = {"uuid": uuid[0]} if uuid else {}
        elif branch[1] == "I" and len(place) == 2:
            entities["GPU-I", id_] = {"gpu": gpu, "instance_id": place[1]}
        elif branch[1] == "CI" and len(place) == 3:
            entities["GPU-CI", id_] = {"gpu": gpu, "instance_id": place[1], "compute_instance_id": place[2]}
    return entities


def _cells(line: str) -> tuple[str, str] | None:
    """Return the two cells of a line of a table; None for another line."""
    line = line.strip()
    left, separator, right = line[1:-1].partition("|")
    is_row = separator and line.startswith("|") and line.endswith("|")
    return (left.strip(), right.strip()) if is_row else None


def topology_of(listing: str, hierarchy: str) -> Topology:
    """Return the topology of both printouts; either may be empty."""
    gpus = parse_listing(listing)
    labels: dict[tuple[str, str], Labels] = {("GPU", id_): _in_order(facts) for id_, facts in gpus.items()}
    for (entity, id_), facts in parse_hierarchy(hierarchy).items():
        if entity == "GPU":
            labels.setdefault((entity, id_), _in_order(facts))
            gpus.setdefault(id_, facts)
        else:
            labels[entity, id_] = (*facts.items(), *_in_order(gpus.get(facts["gpu"], {})))
    return Topology(labels)


def _in_order(facts: Mapping[str, str]) -> Labels:
    return tuple((name, facts[name]) for name in _FACT_ORDER if name in facts)


async def discover(command: Sequence[str], patience: float) -> Topology:
    """Return the identity of the GPUs from `dcgmi discovery`; `patience` is seconds for each of two runs.

    Raises:
        SourceError: the list of GPUs is unavailable. A missing MIG hierarchy is not an error.
    """
    path, *options = command
    hierarchy = asyncio.ensure_future(_output((path, "discovery", *options, "-c"), patience))
    try:
        listing, failure = await _output((path, "discovery", *options, "-l"), patience)
        # Without the module for switches the list of GPUs is complete, and an error follows it.
        if failure is not None and not parse_listing(listing):
            raise failure
        try:
            return topology_of(listing, (await hierarchy)[0])
        except SourceError:
            return topology_of(listing, "")
    finally:
        hierarchy.cancel()
        await asyncio.gather(hierarchy, return_exceptions=True)


async def printed(command: Sequence[str], patience: float) -> str:
    """Return what a command prints. Raises `SourceError` if it fails or takes longer than `patience` seconds."""
    text, failure = await _output(command, patience)
    if failure is not None:
        raise failure
    return text


async def _output(command: Sequence[str], patience: float) -> tuple[str, SourceError | None]:
    """Return what a command prints, and its error if it fails. Raises `SourceError` if it does not end."""
    name = " ".join(command)
    output, over = bytearray(), asyncio.Event()

    def receive(data: bytes) -> None:
        output.extend(data)
        if len(output) > _MAX_BYTES:
            over.set()

    child = await Child.start(command, receive, over.set)
    try:
        async with asyncio.timeout(patience):
            await over.wait()
        if len(output) > _MAX_BYTES:
            raise StreamBroke(f"{name} prints endlessly")
        text = output.decode("utf-8", "replace")
        failed = child.status != 0
        return text, failure_of(name, child.status, [*text.splitlines()[-3:], *child.stderr]) if failed else None
    except TimeoutError:
        raise StreamHung(f"{name} did not answer for {patience:g} s", "Restart the host engine") from None
    finally:
        await child.end_now()


def parse_versions(text: str) -> tuple[str, str]:
    """Read `dcgmi -v`: the versions of dcgmi and of the host engine, empty where they are missing."""
    own, _, engine = text.partition(_ENGINE)
    versions = [_VERSION.search(part) for part in (own, engine)]
    return versions[0][1] if versions[0] else "", versions[1][1] if versions[1] else ""


async def versions(path: str, patience: float) -> tuple[str, str]:
    """Return the versions of dcgmi and of this machine's host engine, from `dcgmi -v`; empty on failure."""
    try:
        return parse_versions(await printed((path, "-v"), patience))
    except SourceError:
        return "", ""


def described(versions: Sequence[str]) -> str:
    """Return both in words for a person; empty if nothing is known."""
    names = ("dcgmi", "host engine")
    return ", ".join(f"{name} {version}" for name, version in zip(names, versions, strict=True) if version)


def merged_layout(fast: Layout, slow: Layout | None, topology: Topology) -> Layout:
    """Return the series of both layouts, fast ones first, with what is known of their entities as labels."""
    series = (*fast.series, *(slow.series if slow else ()))
    merged: dict[Labels, Labels] = {}
    for labels in {each.labels for each in series}:
        pairs = dict(labels)
        merged[labels] = (*labels, *topology.labels.get((pairs["entity"], pairs["id"]), ()))
    return Layout(fast.dialect, tuple(Series(each.name, merged[each.labels]) for each in series))


PROC = Path("/proc")

_NAME = b"nv-hostengine"

_START = 19
"""Field 22 of `/proc/PID/stat`, start in clock ticks since boot, as an index behind the name of the program."""


CONNECT_SECONDS = 2.0
PORT = 5555
"""Of a host engine by default."""


async def accepts_connections(host: str) -> bool:
    """Return whether something accepts connections at the address of a host engine, as dcgmi's `--host` takes it."""
    try:
        if host.startswith("unix://"):
            connecting = asyncio.open_unix_connection(host.removeprefix("unix://"))
        else:
            address = urlsplit(f"//{host}")
            connecting = asyncio.open_connection(address.hostname, address.port or PORT)
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await connecting
    except (OSError, ValueError):
        return False
    writer.close()
    return True


def engine_epoch(proc: Path = PROC) -> str:
    """Return an opaque text of the running host engine, another one after each start.

    Empty unless exactly one is visible: in a container it is not, and an exporter may have an engine of its own.
    """
    starts = [start for folder in proc.glob("[0-9]*") if (start := _start(folder))]
    return starts[0] if len(starts) == 1 else ""


def _start(folder: Path) -> str:
    """Return process id and start of a host engine; empty for another process, or one that has ended."""
    try:
        if (folder / "comm").read_bytes().strip() != _NAME:
            return ""
        status = (folder / "stat").read_bytes()
        return f"{folder.name}/{status.rpartition(b')')[2].split()[_START].decode()}"
    except (OSError, IndexError):
        return ""
