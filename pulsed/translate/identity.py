"""Map series to devices by their labels: by UUID first, then by index.

All three dialects produce `SeriesEntity`: the labels of dcgm-exporter's eras, with Prometheus' renaming on top,
dmon's entity rows, and pulsed's own names. This module depends on labels and entities, and on no field besides dmon's
text columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pulsed.model.gpu import NOT_A_GPU, PLATFORM, Device, Entity, EntityKind, GpuKey, is_product
from pulsed.model.label_names import with_known_names
from pulsed.model.owner import Owners
from pulsed.model.raw_tick import Labels, Layout
from pulsed.owners.attribution.scraped_pods import PodName
from pulsed.owners.attribution.source import SHARES, is_relabelled, owners_of
from pulsed.translate.fields import TEXT_NAMES, spelling
from pulsed.translate.units import BLANK_TEXTS

# Spellings, the likelier first: `Hostname` until dcgm-exporter 4.8.2, then `hostname` (#655); `exported_` and the rest
# from Prometheus.
NODE_LABELS = ("Hostname", "hostname", "exported_Hostname", "exported_hostname", "kubernetes_node", "node", "instance")
_LOOPBACK = re.compile(r"(localhost|127\.[\d.]+|\[?::1\]?)(:\d+)?")
"""Names that no other host may use for a node: dcgm-exporter calls it `localhost` with `-r localhost` (#572)."""

_UUID = ("UUID", "uuid")
_GPU = ("gpu",)
_MIG_ID = ("GPU_I_ID",)
_MIG_PROFILE = ("GPU_I_PROFILE", "dra_mig_profile")
_MIG_UUID = ("dra_mig_device_uuid", *TEXT_NAMES["uuid"])
_TEXTS: Mapping[str, tuple[str, ...]] = {
    **{name: names for name, names in TEXT_NAMES.items() if name != "uuid"},
    "model": ("modelName", "model_name", *TEXT_NAMES["model"]),
    "pci_bus_id": ("pci_bus_id", *TEXT_NAMES["pci_bus_id"]),
    "device": ("device",),
    "cluster": ("DCGM_FI_DEV_FABRIC_CLUSTER_UUID",),
    "clique": ("DCGM_FI_DEV_FABRIC_CLIQUE_ID",),
    "chassis_serial": ("DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER",),
    "slot_number": ("DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER",),
    "tray_index": ("DCGM_FI_DEV_PLATFORM_TRAY_INDEX",),
    "host_id": ("DCGM_FI_DEV_PLATFORM_HOST_ID",),
    "module_id": ("DCGM_FI_DEV_PLATFORM_MODULE_ID",),
}

# GRID A100-8C, NVIDIA H100-20C, NVIDIA A40-48Q, GRID M60-0B4, NVIDIA A100-1-5CME: vGPU types end in framebuffer GB and
# series. Boards end in things like -40GB.
VGPU_TYPE = " ([0-9]+ )?[0-9]+[ABCQ][0-9]?(ME)?$"
"""Found in the `product_name` inside a vGPU guest."""

_PCI_ADDRESS = re.compile(r"([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")

_FACTS = frozenset({"uuid", "model", "pci_bus_id"})

_DMON_KINDS: Mapping[str, EntityKind] = {"GPU": "gpu", "GPU-I": "mig", "GPU-CI": "mig", "vGPU": "vgpu"}

_COLLECTORS, _FIELDS = "DCGM_EXP_", "DCGM_FI_"
"""Beginnings of names: of metrics that dcgm-exporter makes itself, and of DCGM's fields."""

_CUT = "..."
"""dmon's mark of a text that did not fit into its column."""


@dataclass(slots=True)
class SeriesEntity:
    """A device while its rows are being gathered.

    Attributes:
        texts: known values of `model`, `pci_bus_id`, `driver_version`, `device`, `mig_uuid`.
        series: positions of its series in the layout, each with its rank: rank 0 comes before rank 1.
        parent: the board, of a MIG instance whose board is known.
        is_dropped: whether DCGM no longer reads it, while it reads others of its host.
    """

    entity: Entity
    texts: dict[str, str] = field(default_factory=dict)
    rows: list[Mapping[str, str]] = field(default_factory=list)
    series: list[tuple[int, int]] = field(default_factory=list)
    parent: SeriesEntity | None = None
    is_dropped: bool = False

    def learn(self, texts: Iterable[tuple[str, str]]) -> None:
        """Keep the first known value of each."""
        for name, text in texts:
            if text:
                self.texts.setdefault(name, text)


def blocks_of(layout: Layout) -> dict[Labels, list[int]]:
    """Return the positions of a layout grouped by the labels of their series."""
    blocks: dict[Labels, list[int]] = {}
    for position, series in enumerate(layout.series):
        blocks.setdefault(series.labels, []).append(position)
    return blocks


def exporter_entities(
    layout: Layout, blocks: Mapping[Labels, Sequence[int]], node: str, texts: dict[GpuKey, dict[str, str]]
) -> list[SeriesEntity]:
    """Group the rows of an exporter's page by device; add boards that have only MIG instances on it.

    Rows of links, switches and processors are left out. A GPU that DCGM has dropped has rows of the exporter's own
    collectors only, whose labels from DCGM's fields name another GPU (dcgm-exporter 4.8).

    Args:
        layout: the page.
        blocks: the rows that are present.
        node: the host of rows that do not name one.
        texts: of each device, from rows of DCGM's fields of this page and earlier ones; updated.
    """
    entities: dict[GpuKey, SeriesEntity] = {}
    read: set[GpuKey] = set()
    for labels, positions in blocks.items():
        is_read = not all(spelling(layout.series[position].name).startswith(_COLLECTORS) for position in positions)
        row = clean_labels(labels)
        if not is_read:
            row = {name: value for name, value in row.items() if not name.startswith(_FIELDS)}
        if place := _place(row, node, entities):
            subject, rank = place
            subject.series += [(position, rank) for position in positions]
            if is_read:
                read |= {each.entity.key for each in (subject, subject.parent) if each is not None}
    read_hosts = {subject.entity.node for key, subject in entities.items() if key in read}
    for key, subject in entities.items():
        board = subject.parent or subject
        subject.is_dropped = board.entity.key not in read and subject.entity.node in read_hosts
        if subject.entity.kind == "gpu":  # also before it is dropped DCGM may have blanks
            subject.learn(texts.get(key, {}).items())
            texts[key] = dict(subject.texts)
    return sorted(entities.values(), key=_order)


def _place(
    labels: Mapping[str, str], node: str, entities: dict[GpuKey, SeriesEntity]
) -> tuple[SeriesEntity, int] | None:
    uuid, gpu = _first(labels, _UUID), _first(labels, _GPU)
    # A row with a UUID belongs to a GPU; further labels of it may belong to a pod.
    if not uuid and (not gpu or "gpu_uuid" in labels or not NOT_A_GPU.isdisjoint(labels)):
        return None
    node = host_of(labels) or node
    mig_id, profile = _first(labels, _MIG_ID), _first(labels, _MIG_PROFILE).lower()
    texts = [(name, _first(labels, spellings)) for name, spellings in _TEXTS.items()]
    board = _get(entities, Entity("gpu", gpu, uuid, node=node))
    subject = board
    if mig_id:
        subject = _get(entities, Entity("mig", gpu, uuid, mig_id, profile, node))
        subject.parent = board
        board.learn(texts)
        mig_uuids = (labels[name] for name in _MIG_UUID if labels.get(name, "").startswith("MIG-"))
        subject.learn([("mig_uuid", next(mig_uuids, ""))])
    subject.learn(texts)
    subject.rows.append(labels)
    return subject, int(not SHARES.isdisjoint(labels))


def _get(entities: dict[GpuKey, SeriesEntity], entity: Entity) -> SeriesEntity:
    return entities.setdefault(entity.key, SeriesEntity(entity))


def dmon_entities(
    blocks: Mapping[Labels, Sequence[int]], node: str, texts: Mapping[Labels, Mapping[str, str]]
) -> list[SeriesEntity]:
    """Group dmon's rows by device; `texts` are the values of the text columns.

    dmon does not print the GPU of a MIG instance or vGPU: a live source adds it as labels, and where there is only
    one GPU, it is that. Compute instances stand for their GPU instances only where dmon shows none of these.
    """
    entities: list[SeriesEntity] = []
    places: dict[str, str] = {}
    instances = any(dict(labels).get("entity") == "GPU-I" for labels in blocks)
    for labels, positions in blocks.items():
        row = dict(labels)
        kind = _DMON_KINDS.get(row.get("entity", ""))
        if kind is None or (row["entity"] == "GPU-CI" and instances):
            continue
        facts: dict[str, str] = {name: row[name] for name in row.keys() & _FACTS}
        facts |= texts.get(labels, {})
        uuid = facts.pop("uuid", "")
        if kind == "gpu":
            entity = Entity("gpu", row.get("id", ""), uuid, node=node)
        else:
            entity = Entity(kind, row.get("gpu", ""), "", row.get("instance_id", row.get("id", "")), node=node)
            if row.get("uuid") and "gpu" in row:
                places[row["gpu"]] = row["uuid"]
        if kind == "mig" and uuid != row.get("uuid"):
            facts["mig_uuid"] = uuid
        subject = SeriesEntity(entity, series=[(position, 0) for position in positions])
        subject.learn(facts.items())
        entities.append(subject)
    boards = {subject.entity.gpu: subject for subject in entities if subject.entity.kind == "gpu"}
    for subject in list(entities):
        gpu = subject.entity.gpu
        if subject.entity.kind == "mig" and gpu and gpu not in boards:
            boards[gpu] = SeriesEntity(Entity("gpu", gpu, places.get(gpu, ""), node=node))
            boards[gpu].learn((name, text) for name, text in subject.texts.items() if name != "mig_uuid")
            entities.append(boards[gpu])
    for subject in entities:
        if board := boards.get(subject.entity.gpu) if subject.entity.gpu else _only(boards):
            _adopt(subject, board)
    return sorted(entities, key=_order)


def _only(boards: Mapping[str, SeriesEntity]) -> SeriesEntity | None:
    return next(iter(boards.values())) if len(boards) == 1 else None


def _adopt(subject: SeriesEntity, board: SeriesEntity) -> None:
    entity = subject.entity
    if entity.kind == "gpu":
        return
    subject.entity = Entity(entity.kind, board.entity.gpu, board.entity.uuid, entity.mig_id, node=entity.node)
    subject.learn((name, text) for name, text in board.texts.items() if name != "mig_uuid")
    if entity.kind == "mig":
        subject.parent = board


def host_of(labels: Mapping[str, str]) -> str:
    """Return the host that a row of an exporter's page names; empty if it names none."""
    return next((name for each in NODE_LABELS if (name := labels.get(each)) and not is_loopback(name)), "")


def is_same_host(name: str, other: str) -> bool:
    """Return whether two host names are equal, where one or both may be without the domain."""
    name, other = name.casefold(), other.casefold()
    return name == other or name.startswith(f"{other}.") or other.startswith(f"{name}.")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address, with or without a port, denotes the machine itself."""
    return _LOOPBACK.fullmatch(host) is not None


def clean_text(value: object) -> str:
    """Return the text of an identifying dmon cell; empty for blanks and truncated cells."""
    return value if isinstance(value, str) and value not in BLANK_TEXTS and not value.endswith(_CUT) else ""


def devices(
    entities: Sequence[SeriesEntity], licensed: Iterable[int] = (), target_labels: Labels = ()
) -> tuple[Device, ...]:
    """Return the devices of these entities, in their order.

    `licensed` are the positions of entities that show a vGPU licence and nothing that only a board has.
    """
    unnamed_guests = set(licensed)
    return tuple(
        Device(
            entity=replace(subject.entity, is_guest=True) if is_guest else subject.entity,
            model=model,
            pci_bus_id=_pci_bus_id(subject.texts.get("pci_bus_id", "")),
            driver_version=subject.texts.get("driver_version", ""),
            device=subject.texts.get("device", ""),
            serial=subject.texts.get("serial", ""),
            vbios_version=subject.texts.get("vbios_version", ""),
            mig_uuid=subject.texts.get("mig_uuid", ""),
            target_labels=target_labels,
            fabric=_fabric(subject.texts),
            platform=tuple([subject.texts.get(name, "") for name in PLATFORM])
            if subject.texts.keys() & PLATFORM
            else (),
        )
        for position, subject in enumerate(entities)
        for model in [subject.texts.get("model", "")]
        for is_guest in [is_product(VGPU_TYPE, model) if model else position in unnamed_guests]
    )


def labelled_owners(entities: Sequence[SeriesEntity], scraped: Container[PodName] = ()) -> list[Owners | None]:
    """Return the owners that the labels of each entity name. A board also has the owners of its instances."""
    relabelled = is_relabelled(row for subject in entities for row in subject.rows)
    rows: dict[int, list[Mapping[str, str]]] = {}
    for subject in entities:
        for owner in (subject, subject.parent):
            if owner is not None:
                rows.setdefault(id(owner), []).extend(subject.rows)
    return [owners_of(rows[id(subject)], relabelled, scraped) for subject in entities]


def _fabric(texts: Mapping[str, str]) -> str:
    """Return cluster and clique of a GPU; empty without a cluster, whose UUID is all zeros then."""
    cluster = texts.get("cluster", "")
    return f"{cluster}/{texts.get('clique', '')}" if cluster.strip("0-") else ""


def _pci_bus_id(text: str) -> str:
    """Return a PCI address in DCGM's form: eight digits of domain, upper case."""
    if not (match := _PCI_ADDRESS.fullmatch(text)):
        return text
    domain, bus, slot, function = match.groups()
    return f"{domain.zfill(8)}:{bus}:{slot}.{function}".upper()


def clean_labels(labels: Labels) -> Mapping[str, str]:
    """Return the labels of a row by dcgm-exporter's names, without blank ones."""
    return {name: value for name, value in with_known_names(labels) if value not in BLANK_TEXTS}


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def _order(subject: SeriesEntity) -> tuple[str, float, str, str, float, str]:
    entity = subject.entity
    return (entity.node, _number(entity.gpu), entity.gpu, entity.uuid, _number(entity.mig_id or "-1"), entity.mig_id)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return math.inf
