"""List the GPUs and MIG instances of this machine, with their labels as on a dcgm-exporter's page."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from uuid import UUID

from pulsed.model.raw_tick import Labels
from pulsed.reader.nvml.calls import structure
from pulsed.reader.nvml.library import ENDED, GONE, NOT_FOUND, Handle, is_refused, optional, source_error

_raw = object.__getattribute__
"""Return a member of a structure; nvidia-ml-py converts bytes to a text, which not all are."""

_MIG_PROFILE = re.compile(r"MIG (?:\d+c\.)?(\S+)$")


@dataclass(frozen=True, slots=True)
class NvmlDevice:
    """A GPU or a MIG instance. Equality ignores the handles.

    Attributes:
        handle: of the GPU, or of the instance's first compute instance.
        board: handle of the GPU.
        uuid: of the GPU.
        places: the labels of its place in fabric and rack, which are among the others.
        instance: id of the GPU instance; None for a GPU.
    """

    index: int
    uuid: str
    labels: Labels
    places: Labels = ()
    instance: int | None = None
    handle: Handle = field(default=None, compare=False)
    board: Handle = field(default=None, compare=False)

    @property
    def is_board(self) -> bool:
        """Whether it is a GPU, and not an instance of one."""
        return self.instance is None


def list_devices(
    nvml: ModuleType, open_devices: Sequence[NvmlDevice], *, rereads_place: bool = False
) -> tuple[list[NvmlDevice], bool]:
    """Return the GPUs and MIG instances, and whether any GPU did not answer.

    A GPU that does not answer is listed as it was in `open_devices`, or left out. The place of an open device in fabric
    and rack is read again only if `rereads_place`.

    Raises:
        NVMLError: the driver is gone.
        SourceError: there are GPUs, and none answers.
    """
    driver = optional(nvml, "nvmlSystemGetDriverVersion")
    devices: list[NvmlDevice] = []
    codes: list[int] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            devices += list(_of_gpu(nvml, index, driver, open_devices, rereads_place=rereads_place))
        except nvml.NVMLError as error:
            if error.value in ENDED:
                raise
            codes.append(error.value)
            if error.value in GONE:
                devices += [device for device in open_devices if device.index == index]
    if codes and not devices:
        raise source_error(codes[-1])
    return devices, not GONE.isdisjoint(codes)


def _of_gpu(
    nvml: ModuleType, index: int, driver: str | None, open_devices: Sequence[NvmlDevice], *, rereads_place: bool
) -> Iterator[NvmlDevice]:
    board = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid = nvml.nvmlDeviceGetUUID(board)
    pci, minor = optional(nvml, "nvmlDeviceGetPciInfo", board), optional(nvml, "nvmlDeviceGetMinorNumber", board)
    facts = (
        ("gpu", str(index)),
        ("UUID", uuid),
        ("pci_bus_id", pci and pci.busId),
        ("device", None if minor is None else f"nvidia{minor}"),
        ("modelName", optional(nvml, "nvmlDeviceGetName", board)),
        ("DCGM_FI_DRIVER_VERSION", driver),
        ("DCGM_FI_DEV_SERIAL", optional(nvml, "nvmlDeviceGetSerial", board)),
        ("DCGM_FI_DEV_VBIOS_VERSION", optional(nvml, "nvmlDeviceGetVbiosVersion", board)),
    )
    places = next((device.places for device in open_devices if device.uuid == uuid and device.is_board), None)
    places = tuple(_places(nvml, board)) if places is None or rereads_place else places
    labels = (*((name, text) for name, text in facts if text), *places)
    gpu = NvmlDevice(index, uuid, labels, places, handle=board, board=board)
    yield gpu
    instances = [device for device in open_devices if device.uuid == uuid and not device.is_board]
    try:
        instances = list(_instances(nvml, gpu))
    except nvml.NVMLError as error:  # they stay, unless it cannot have any
        if is_refused(error):
            instances = []
    yield from instances


def _places(nvml: ModuleType, board: Handle) -> Iterator[tuple[str, str]]:
    """Yield fabric and platform of a GPU as labels of a dcgm-exporter's page; nothing where the driver has none."""
    with _unless_refused(nvml):
        fabric = structure(nvml, "nvmlGpuFabricInfo_v2")
        nvml.nvmlDeviceGetGpuFabricInfoV(board, ctypes.byref(fabric))
        if fabric.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED and any(fabric.clusterUuid):
            yield "DCGM_FI_DEV_FABRIC_CLUSTER_UUID", str(UUID(bytes=bytes(fabric.clusterUuid)))
            yield "DCGM_FI_DEV_FABRIC_CLIQUE_ID", str(fabric.cliqueId)
    with _unless_refused(nvml):
        platform = structure(nvml, "nvmlPlatformInfo_v2")
        nvml.nvmlDeviceGetPlatformInfo(board, ctypes.byref(platform))
        if serial := _raw(platform, "chassisSerialNumber").decode("ascii", "replace").strip():
            yield "DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER", serial
            for name, part in _PLATFORM.items():
                yield f"DCGM_FI_DEV_PLATFORM_{name}", str(ord(_raw(platform, part)))


_PLATFORM = {
    "CHASSIS_SLOT_NUMBER": "slotNumber",
    "TRAY_INDEX": "trayIndex",
    "HOST_ID": "hostId",
    "MODULE_ID": "moduleId",
}


@contextlib.contextmanager
def _unless_refused(nvml: ModuleType) -> Iterator[None]:
    """Suppress errors of a call that does not exist for a GPU or driver."""
    try:
        yield
    except nvml.NVMLError as error:
        is_refused(error)


def _instances(nvml: ModuleType, gpu: NvmlDevice) -> Iterator[NvmlDevice]:
    """Yield the GPU instances that have a compute instance; positions in NVML's list may be empty."""
    if not nvml.nvmlDeviceGetMigMode(gpu.board)[0]:
        return
    listed: set[int] = set()
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu.board)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.board, position)
        except nvml.NVMLError as error:
            if error.value != NOT_FOUND:
                raise
            continue
        instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
        if instance in listed:  # a further compute instance of it
            continue
        listed.add(instance)
        name = _MIG_PROFILE.search(optional(nvml, "nvmlDeviceGetName", handle) or "")
        profile = (("GPU_I_PROFILE", name[1]),) if name else ()
        own = (("GPU_I_ID", str(instance)), *profile, ("DCGM_FI_DEV_UUID", nvml.nvmlDeviceGetUUID(handle)))
        yield NvmlDevice(gpu.index, gpu.uuid, (*gpu.labels, *own), gpu.places, instance, handle, gpu.board)
