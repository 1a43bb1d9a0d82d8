"""The identity of a GPU: its entity and properties, and the keys and names under which sources and outputs have it.

Attribution sources name devices by UUIDs, indexes, device files and PCI addresses, in the forms that the kubelet,
Slurm's prolog scripts and dcgm-exporter write; a key is the one spelling under which a source stores its claims, and
which is looked up for a GPU. Two targets may report the same GPU (an exporter under two names, or in a node's and in a
cluster's list). It is shown once, for the target that comes first in the configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

EntityKind = Literal["gpu", "mig", "vgpu"]

Presence = Literal["listed", "unlisted", "lost"]
"""Whether the source lists a GPU now, and, if not, whether something shows that it is lost."""

BoardKey = tuple[str, str]
"""Identifies a board: its UUID with an empty text before it; without a UUID, and in a vGPU guest, its node comes first.

The node, the index and the PCI address are properties of a GPU, which may change.
"""

GpuKey = tuple[str, str, str]
"""Identifies a GPU or MIG instance: the key of its board, and the MIG id."""

DEMO_MARK = "(demo)"
"""Part of the product names of simulated GPUs, wherever these are shown."""

_LABELS_OF_FAMILIES = (
    "account age bottleneck bound cause chassis_serial check class container device driver_version fabric gpu host_id "
    "job_id kind le link mig_id mig_profile mig_uuid model module_id name namespace node origin partition "
    "pci_bus_id pod problem quantity reading reason remedy resource serial severity slot_number source state "
    "target tray_index user uuid vbios_version workload workload_kind xid"
)
LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
"""Regular expression of the name of a Prometheus label."""

_SEPARATORS = re.compile(r"[-_\s]+")
_RESOURCE_SUFFIX = re.compile(r"( MIG [0-9]+g\.[0-9]+gb.*| SHARED)$", re.IGNORECASE)
"""What `nvidia.com/gpu.product` adds to the name of a product."""

RESERVED_LABELS = frozenset(_LABELS_OF_FAMILIES.split())
"""Labels of the families of GPUs and sources, which a target cannot set."""

NOT_A_GPU = frozenset({"nvlink", "nvswitch", "cpu", "cpucore"})
"""Labels of dcgm-exporter's rows about links, switches and processors; a link's row also names its GPU (`gpu_uuid`)."""

EntityLocation = tuple[EntityKind, str, str, str, str]
"""Kind, node, index, MIG id and MIG profile."""


@dataclass(frozen=True, slots=True)
class Entity:
    """The GPU, MIG instance or vGPU of a reading. Readings of the same device have equal entities.

    Attributes:
        kind: a whole GPU (also a board that is split, and what a vGPU guest sees), a MIG instance of one, or a vGPU as
            its host sees it.
        gpu: the index that the source gives the GPU; empty when unknown (a dmon row of a MIG instance).
        uuid: the UUID of the GPU; a MIG instance has its GPU's UUID here; empty when unknown.
        mig_id: number of the MIG instance, or of the vGPU, on its board; empty for a whole GPU.
        mig_profile: such as `1g.10gb`; empty for a whole GPU or when unknown.
        node: the host that the GPU is in.
        is_guest: whether it is a virtual machine's view of a board (a vGPU guest), with the UUID of its profile.
    """

    kind: EntityKind
    gpu: str
    uuid: str = ""
    mig_id: str = ""
    mig_profile: str = ""
    node: str = ""
    is_guest: bool = False

    @property
    def board(self) -> BoardKey:
        """The key of the GPU, also of a MIG instance of it."""
        return ("" if self.uuid and not self.is_guest else self.node, self.uuid or self.gpu)

    @property
    def key(self) -> GpuKey:
        """The key of the device: the key of its board, and its MIG id."""
        return (*self.board, self.mig_id)

    @property
    def location(self) -> EntityLocation:
        """Where the device is, whatever its UUID."""
        return (self.kind, self.node, self.gpu, self.mig_id, self.mig_profile)

    @property
    def saved_keys(self) -> tuple[str, ...]:
        """The key of the device in saved state, then others under which it may have been saved."""
        key = f"{self.board[0]}|{self.uuid or f'gpu {self.gpu}'}"
        if self.kind == "gpu":
            return (key,)
        key = f"{key}|{self.kind}|{self.mig_id}"
        return (f"{key}|{self.mig_profile}", key) if self.mig_profile else (key,)

    @property
    def name(self) -> str:
        """The name in the API, as in `3` or `3:7`: its index or else its UUID, then the MIG id."""
        gpu = self.gpu or self.uuid
        return f"{gpu}:{self.mig_id}" if self.mig_id else gpu


@lru_cache(maxsize=1024)
def product_name(model: str) -> str:
    """Return the name of a product as the patterns of tables have it: with blanks only, without a resource's suffix.

    Exporters and labels of nodes have hyphens for blanks, and relays underscores.

    >>> product_name("NVIDIA-A100-SXM4-80GB-SHARED")
    'NVIDIA A100 SXM4 80GB'
    """
    return _RESOURCE_SUFFIX.sub("", _SEPARATORS.sub(" ", model).strip())


def is_product(pattern: str, model: str) -> bool:
    """Return whether a pattern of a table of products is found in a product's name, in any case."""
    return re.search(pattern, product_name(model), re.IGNORECASE) is not None


PLATFORM = ("chassis_serial", "slot_number", "tray_index", "host_id", "module_id")
"""Where a GPU is in its rack, as NVML's platform information has it."""


@dataclass(frozen=True, slots=True)
class Device:
    """An entity with its properties besides numbers.

    Attributes:
        model: product name, such as `NVIDIA H100 80GB HBM3`; empty when unknown, like the other texts.
        pci_bus_id: PCI address in the form `00000000:1B:00.0`.
        driver_version: kernel driver, such as `535.129.03`.
        device: the device file's name, such as `nvidia0`.
        mig_uuid: UUID of the MIG instance itself.
        target_labels: of its target in the configuration; of its series.
        fabric: the NVLink fabric that it is in, as its cluster's UUID and clique; empty if unknown.
        platform: where it is in its rack, by `PLATFORM`; empty if unknown.
        serial: of the board, as its vendor wants it.
        vbios_version: firmware, such as `96.00.89.00.01`.
    """

    entity: Entity
    model: str = ""
    pci_bus_id: str = ""
    driver_version: str = ""
    device: str = ""
    mig_uuid: str = ""
    target_labels: tuple[tuple[str, str], ...] = ()
    fabric: str = ""
    platform: tuple[str, ...] = ()
    serial: str = ""
    vbios_version: str = ""

    @property
    def guest(self) -> bool:
        """Whether this is inside a virtual machine that sees a share of a board."""
        return self.entity.is_guest

    @property
    def whole(self) -> bool:
        """Whether this is a whole physical GPU: below one, PCIe and C2C traffic do not exist (not: is not measured)."""
        return self.entity.kind == "gpu" and not self.guest


def node_of(device: Device, here: str) -> str:
    """Return the node of a device; `here`, this process's own, if the source does not name it."""
    return device.entity.node or here


def key_of(device: Device, here: str) -> GpuKey:
    """Return the unique key of a device among all targets."""
    scope, board, mig_id = device.entity.key
    return (scope or ("" if device.entity.uuid else here), board, mig_id)


def gpu_labels(device: Device, here: str) -> list[tuple[str, str]]:
    """Return the labels of every series of a device, as pairs."""
    entity = device.entity
    labels = [("node", entity.node or here), ("gpu", entity.gpu), ("uuid", entity.uuid)]
    if entity.mig_id:
        labels.append(("mig_id", entity.mig_id))
    if entity.mig_profile:
        labels.append(("mig_profile", entity.mig_profile))
    labels += device.target_labels
    return labels


def board_names(device: Device) -> tuple[str, ...]:
    """Return the names of the GPU that a device is, or is a MIG instance of: index and UUID."""
    return tuple(filter(None, (device.entity.gpu, device.entity.uuid)))


def names_of(device: Device) -> tuple[str, ...]:
    """Return all names of a device: index, UUID, for an instance both with its MIG id as in `0:7`, and its MIG UUID."""
    entity, boards = device.entity, board_names(device)
    if not entity.mig_id:
        return boards
    return (*[f"{board}:{entity.mig_id}" for board in boards], *filter(None, (device.mig_uuid,)))


_REPLICA = re.compile(r"(?:::|/vgpu)[0-9]+$")
_LEGACY_MIG = re.compile(r"mig-(gpu-[0-9a-f-]+)/([0-9]+)/[0-9]+")
_UUID = re.compile(r"(?:gpu|mig)-[0-9a-z-]+")
_INDEX = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_DEVICE_FILE = re.compile(r"(nvidia[0-9]{1,4})(?:/gi([0-9]{1,4}))?")
_PCI = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@lru_cache(maxsize=4096)
def device_key(name: str) -> str | None:
    """Return the key of a device by a name of it; None if it is not one.

    Forms: `GPU-<uuid>`, `MIG-<uuid>`, `MIG-GPU-<uuid>/<gi>/<ci>`, `3` (index), `3.7` (index and GPU instance),
    `nvidia3`, `nvidia3/gi7`, a PCI address. A replica of a device that is advertised several times (time slicing, MPS)
    has the device's key: `::<number>` or, after a device file, `/vgpu<number>` is ignored. The key of a MIG instance
    without a UUID of its own is the board's key, a slash and the number of the GPU instance.
    """
    name = _REPLICA.sub("", name.strip().lower())
    if match := _LEGACY_MIG.fullmatch(name):
        return f"{match[1]}/{match[2]}"
    if match := _INDEX.fullmatch(name) or _DEVICE_FILE.fullmatch(name):
        board = match[1].lstrip("0") or "0" if match[1].isdecimal() else match[1]
        return f"{board}/{int(match[2])}" if match[2] else board
    if match := _PCI.fullmatch(name):
        return f"{match[1].zfill(8)}:{match[2]}"
    return name if _UUID.fullmatch(name) else None


def is_replica(name: str) -> bool:
    """Return whether a name denotes a device that is advertised several times."""
    return _REPLICA.search(name) is not None


def profile_key(board: str, profile: str) -> str:
    """Return the key of the only instance of a MIG profile on a board.

    >>> profile_key("gpu-aa", "1g.5gb+me")
    'gpu-aa/1g5gb-me'
    """
    return f"{board}/{profile.lower().replace('.', '').replace('+', '-')}"


def board_keys(uuid: str, pci_bus_id: str, device_file: str, index: str, *, is_local: bool) -> tuple[str, ...]:
    """Return the keys of a board, the most certain first.

    Args:
        uuid: of the board; empty if unknown, like the others.
        pci_bus_id: in any of its spellings.
        device_file: such as `nvidia3`. Unknown, it is derived from the index: they differ only where the driver
            numbers GPUs in another order than their PCI addresses.
        index: of the board.
        is_local: whether the board is in this host; keys that other hosts also use are left out if it is not.
    """
    keys = [uuid.lower()]
    if is_local:
        address = _PCI.fullmatch(pci_bus_id.lower())
        file = device_file.lower() or (f"nvidia{index}" if index else "")
        keys += [f"{address[1].zfill(8)}:{address[2]}" if address else "", file, index]
    return tuple(filter(None, keys))
