"""List the GPUs and MIG instances of this machine, with their labels as on a dcgm-exporter's page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from pulsed.model.raw_tick import Labels
from pulsed.reader.nvml.library import ENDED, GONE, NOT_FOUND, Handle, is_refused, optional, source_error

_MIG_PROFILE = re.compile(r"MIG (?:\d+c\.)?(\S+)$")


@dataclass(frozen=True, slots=True)
class NvmlDevice:
    """A GPU or a MIG instance. Equal if all but the handles is the same.

    Attributes:
        handle: of the GPU, or of the instance's first compute instance.
        board: handle of the GPU.
        uuid: of the GPU.
        instance: id of the GPU instance; None for a GPU.
    """

    index: int
    uuid: str
    labels: Labels
    instance: int | None = None
    handle: Handle = field(default=None, compare=False)
    board: Handle = field(default=None, compare=False)

    @property
    def is_board(self) -> bool:
        """Whether it is a GPU, and not an instance of one."""
        return self.instance is None


def list_devices(nvml: ModuleType, known: Sequence[NvmlDevice]) -> tuple[list[NvmlDevice], bool]:
    """Return the GPUs and MIG instances, and whether any GPU did not answer.

    A GPU that does not answer is listed as it was in `known`, or left out.

    Raises:
        NVMLError: the driver is gone.
        SourceError: there are GPUs, and none answers.
    """
    driver = optional(nvml, "nvmlSystemGetDriverVersion")
    devices: list[NvmlDevice] = []
    codes: list[int] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            devices += list(_of_gpu(nvml, index, driver, known))
        except nvml.NVMLError as error:  # noqa: PERF203 - of one GPU
            if error.value in ENDED:
                raise
            codes.append(error.value)
            if error.value in GONE:
                devices += [device for device in known if device.index == index]
    if codes and not devices:
        raise source_error(codes[-1])
    return devices, not GONE.isdisjoint(codes)


def _of_gpu(nvml: ModuleType, index: int, driver: str | None, known: Sequence[NvmlDevice]) -> Iterator[NvmlDevice]:
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
    )
    gpu = NvmlDevice(index, uuid, tuple((name, text) for name, text in facts if text), handle=board, board=board)
    yield gpu
    instances = [device for device in known if device.uuid == uuid and not device.is_board]
    try:
        instances = list(_instances(nvml, gpu))
    except nvml.NVMLError as error:  # they stay, unless it cannot have any
        if is_refused(error):
            instances = []
    yield from instances


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
        yield NvmlDevice(gpu.index, gpu.uuid, (*gpu.labels, *own), instance, handle, gpu.board)
