"""List the GPUs and MIG instances of this machine, with their labels as on a dcgm-exporter's page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

from pulsed.reader.nvml.library import ENDED, GONE, NOT_FOUND, REFUSALS, source_error
from pulsed.reader.nvml.native_call import Handle

_MIG_PROFILE = re.compile(r"MIG (?:\d+c\.)?(\S+)$")

Labels = tuple[tuple[str, str], ...]


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


def list_devices(nvml: ModuleType, known: Sequence[NvmlDevice]) -> tuple[list[NvmlDevice], bool]:
    """Return the GPUs and MIG instances, and whether any GPU did not answer.

    A GPU that does not answer is listed as it was in `known`, or left out.

    Raises:
        NVMLError: the driver is gone.
        SourceError: there are GPUs, and none answers.
    """
    driver = _text(nvml, nvml.nvmlSystemGetDriverVersion)
    found: list[NvmlDevice] = []
    codes: list[int] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            found += list(_of_gpu(nvml, index, driver, known))
        except nvml.NVMLError as error:  # noqa: PERF203 - of one GPU
            if error.value in ENDED:
                raise
            codes.append(error.value)
            if error.value in GONE:
                found += [device for device in known if device.index == index]
    if codes and not found:
        raise source_error(codes[-1])
    return found, not GONE.isdisjoint(codes)


def _of_gpu(nvml: ModuleType, index: int, driver: str, known: Sequence[NvmlDevice]) -> Iterator[NvmlDevice]:
    board = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid = nvml.nvmlDeviceGetUUID(board)
    model = _text(nvml, lambda: nvml.nvmlDeviceGetName(board))
    facts = (
        ("gpu", str(index)),
        ("UUID", uuid),
        ("pci_bus_id", _text(nvml, lambda: nvml.nvmlDeviceGetPciInfo(board).busId)),
        ("device", _text(nvml, lambda: f"nvidia{nvml.nvmlDeviceGetMinorNumber(board)}")),
        ("modelName", model),
        ("DCGM_FI_DRIVER_VERSION", driver),
    )
    labels = tuple((name, text) for name, text in facts if text)
    yield NvmlDevice(index, uuid, labels, handle=board, board=board)
    instances = [device for device in known if device.uuid == uuid and device.instance is not None]
    try:
        instances = list(_instances(nvml, board, index, uuid, labels))
    except nvml.NVMLError as error:  # they stay, unless it cannot have any
        _raise_if_serious(error)
        if error.value in REFUSALS:
            instances = []
    yield from instances


def _instances(nvml: ModuleType, board: Handle, index: int, uuid: str, labels: Labels) -> Iterator[NvmlDevice]:
    """Yield the GPU instances that have a compute instance; positions in NVML's list may be empty."""
    if not nvml.nvmlDeviceGetMigMode(board)[0]:
        return
    found: set[int] = set()
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(board)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, position)
        except nvml.NVMLError as error:
            if error.value != NOT_FOUND:
                raise
            continue
        instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
        if instance in found:  # a further compute instance of it
            continue
        found.add(instance)
        name = _MIG_PROFILE.search(_text(nvml, partial(nvml.nvmlDeviceGetName, handle)))
        profile = (("GPU_I_PROFILE", name[1]),) if name else ()
        own = (("GPU_I_ID", str(instance)), *profile, ("DCGM_FI_DEV_UUID", nvml.nvmlDeviceGetUUID(handle)))
        yield NvmlDevice(index, uuid, (*labels, *own), instance, handle, board)


def _text(nvml: ModuleType, read: Callable[[], str | bytes]) -> str:
    try:
        text = read()
    except nvml.NVMLError as error:
        _raise_if_serious(error)
        return ""
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def _raise_if_serious(error: Exception) -> None:
    code: int = error.value  # type: ignore[attr-defined]  # of NVMLError, whose module has no types
    if code in ENDED or code in GONE:
        raise error
