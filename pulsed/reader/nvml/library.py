"""Load nvidia-ml-py, call it, and translate NVML's errors.

The module is passed on as an argument, so that nothing else imports it: without the source it is never loaded. A
function that the driver or this release of nvidia-ml-py lacks fails with FUNCTION_NOT_FOUND.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from pulsed.errors import (
    DriverMismatch,
    DriverUnavailable,
    GpuLost,
    NotPermitted,
    NvmlError,
    NvmlMissing,
    NvmlRefused,
    ProfilingHeld,
    SourceError,
    WatchRefused,
)

Handle = Any
"""A device handle of NVML, opaque."""

UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT = 1, 3, 4, 6, 9, 10
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, CORRUPTED_INFOROM, GPU_IS_LOST, RESET_REQUIRED = 12, 13, 14, 15, 16
LIB_RM_VERSION_MISMATCH, IN_USE, VERSION_MISMATCH, GPU_NOT_FOUND = 18, 19, 25, 28
"""Return values of `nvml.h`."""

REFUSALS = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, VERSION_MISMATCH})
"""A call with one of these is not repeated until the list of GPUs changes."""

GONE = frozenset({GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND})
"""The GPU answers no call; others may."""

ENDED = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH})
"""The driver was unloaded or replaced: NVML must be initialized again."""


def load_nvml() -> ModuleType:
    """Import nvidia-ml-py. Raises `NvmlMissing`."""
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise NvmlMissing(
            "the Python package nvidia-ml-py is not installed", "Install it with pip install 'pulsed[nvml]'"
        ) from error


def call(nvml: ModuleType, function: str, *arguments: object) -> Any:
    """Return what a function of nvidia-ml-py returns. Raises `NVMLError`."""
    callee = getattr(nvml, function, None)
    if callee is None:
        raise nvml.NVMLError(FUNCTION_NOT_FOUND)
    return callee(*arguments)


def optional(nvml: ModuleType, function: str, *arguments: object) -> Any:
    """Return what a function of nvidia-ml-py returns, or None if it fails.

    Raises:
        NVMLError: the GPU or the driver is gone.
    """
    try:
        return call(nvml, function, *arguments)
    except nvml.NVMLError as error:
        is_refused(error)
        return None


def is_refused(error: Exception) -> bool:
    """Return whether a call need not be repeated. Raises the error if the GPU or the driver is gone."""
    code: int = error.value  # type: ignore[attr-defined]  # of NVMLError, whose module has no types
    if code in GONE or code in ENDED:
        raise error
    return code in REFUSALS


def source_error(code: int) -> SourceError:
    """Return the error of the source for a return value of NVML's initialization or of all calls."""
    if code == LIBRARY_NOT_FOUND:
        return NvmlMissing(
            "the driver library libnvidia-ml.so.1 is not found",
            "Install NVIDIA's driver; in a container, request the GPUs (docker run --gpus all, or runtimeClassName: "
            "nvidia)",
        )
    if code == DRIVER_NOT_LOADED:
        return DriverUnavailable(
            "NVIDIA's kernel driver is not loaded", "Load it (modprobe nvidia); nvidia-smi must work"
        )
    if code == LIB_RM_VERSION_MISMATCH:
        return DriverMismatch(
            "NVIDIA's kernel driver and libnvidia-ml.so.1 have different versions",
            "After an upgrade of the driver: reload the kernel modules or reboot, then restart pulsed",
        )
    if code == NO_PERMISSION:
        return NvmlRefused(
            "the driver refuses access to the GPUs",
            "Give pulsed's user access to /dev/nvidiactl and /dev/nvidia0 to nvidiaN",
        )
    if code in GONE:
        what = "the GPU requires a reset" if code == RESET_REQUIRED else "the GPU is lost"
        return GpuLost(f"NVML reports: {what}", "Reset it (nvidia-smi --gpu-reset) or reboot; see dmesg")
    return NvmlError(f"NVML failed with error {code}", "Check nvidia-smi and dmesg")


def profiling_error(code: int) -> WatchRefused | None:
    """Return why there are no profiling counters, by the return value of a call for them; None if it means less."""
    if code == IN_USE:
        return ProfilingHeld(
            "the profiling counters of the driver are in use by another process",
            "End the profiler (Nsight, CUPTI), or read the DCGM that holds them (source.kind: auto)",
        )
    if code == NO_PERMISSION:
        return NotPermitted(
            "the driver refuses profiling counters",
            "Run pulsed with CAP_PERFMON, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    return None
