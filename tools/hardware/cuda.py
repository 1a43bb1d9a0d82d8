"""A GPU through the CUDA driver API: libcuda.so.1 of the driver, by ctypes; no toolkit is needed."""

from __future__ import annotations

import contextlib
import ctypes
import uuid
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import NamedTuple

LIBRARY = "libcuda.so.1"

_SIGNATURES = {
    "cuInit": [c_uint],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetUuid_v2": [c_char_p, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuDevicePrimaryCtxRelease_v2": [c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxSynchronize": [],
    "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuModuleUnload": [c_void_p],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemsetD8_v2": [c_uint64, ctypes.c_ubyte, c_size_t],
    "cuMemAllocHost_v2": [POINTER(c_void_p), c_size_t],
    "cuMemFreeHost": [c_void_p],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), c_void_p],
}
"""Parameters as in cuda.h; all return a CUresult."""

_SMS, _BUS_WIDTH, _THREADS_PER_SM, _MAJOR, _MINOR = 16, 37, 39, 75, 76  # CUdevice_attribute


class CudaFailed(Exception):
    """A call of the driver failed, or there is no driver."""


class GpuFacts(NamedTuple):
    """What a kernel's launch and its peaks depend on.

    Attributes:
        uuid: as NVML has it.
        bus_bits: width of the memory bus.
        capability: compute capability, such as `9.0`.
    """

    uuid: str
    name: str
    sms: int
    threads_per_sm: int
    bus_bits: int
    capability: str


class Gpu:
    """A GPU with a context that is current in this thread.

    Args:
        stack: frees what is allocated, in reverse order. Errors of that are ignored: after a failed launch every call
            fails with its error.
    """

    def __init__(self, library: ctypes.CDLL, device: c_int, stack: contextlib.ExitStack) -> None:
        self._library, self._device, self._stack = library, device, stack
        context = c_void_p()
        _call(library, "cuDevicePrimaryCtxRetain", byref(context), device)
        stack.callback(library.cuDevicePrimaryCtxRelease_v2, device)
        _call(library, "cuCtxSetCurrent", context)

    def facts(self) -> GpuFacts:
        name, identity = ctypes.create_string_buffer(96), ctypes.create_string_buffer(16)
        _call(self._library, "cuDeviceGetName", name, len(name), self._device)
        _call(self._library, "cuDeviceGetUuid_v2", identity, self._device)
        sms, threads, bits, major, minor = map(self._attribute, (_SMS, _THREADS_PER_SM, _BUS_WIDTH, _MAJOR, _MINOR))
        return GpuFacts(
            f"GPU-{uuid.UUID(bytes=identity.raw)}", name.value.decode(), sms, threads, bits, f"{major}.{minor}"
        )

    def at_end(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function that frees something before everything that was allocated earlier is freed."""
        self._stack.callback(function, *arguments)

    def wait(self) -> None:
        """Wait for the end of what was launched."""
        _call(self._library, "cuCtxSynchronize")

    def kernel(self, module: str, name: str) -> c_void_p:
        """Compile a PTX module and return one of its kernels."""
        loaded, function = c_void_p(), c_void_p()
        _call(self._library, "cuModuleLoadData", byref(loaded), module.encode())
        self.at_end(self._library.cuModuleUnload, loaded)
        _call(self._library, "cuModuleGetFunction", byref(function), loaded, name.encode())
        return function

    def memory(self, size: int) -> int:
        """Return the address of so many bytes of device memory, all 0."""
        address = c_uint64()
        _call(self._library, "cuMemAlloc_v2", byref(address), size)
        self.at_end(self._library.cuMemFree_v2, address)
        _call(self._library, "cuMemsetD8_v2", address, 0, size)
        return address.value

    def host_memory(self, size: int) -> c_void_p:
        """Return so many bytes of pinned host memory, which copies read at the speed of the link."""
        pointer = c_void_p()
        _call(self._library, "cuMemAllocHost_v2", byref(pointer), size)
        self.at_end(self._library.cuMemFreeHost, pointer)
        return pointer

    def launch(self, kernel: c_void_p, blocks: int, threads: int, parameters: Sequence[int]) -> None:
        """Run a kernel with 64-bit parameters, and wait for its end."""
        values = [c_uint64(value) for value in parameters]
        pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        _call(self._library, "cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
        self.wait()

    def copy_in(self, address: int, host: c_void_p, size: int) -> None:
        """Copy host memory to the device, and wait for the end."""
        _call(self._library, "cuMemcpyHtoD_v2", address, host, size)
        self.wait()

    def number(self, address: int) -> int:
        """Return a 64-bit number of device memory."""
        value = c_uint64()
        _call(self._library, "cuMemcpyDtoH_v2", byref(value), address, 8)
        return value.value

    def _attribute(self, number: int) -> int:
        value = c_int()
        _call(self._library, "cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value


@contextlib.contextmanager
def first_gpu() -> Iterator[Gpu]:
    """Open the first GPU that CUDA shows; free everything at the end.

    Raises:
        CudaFailed: there is no driver or no GPU, or a call fails.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise CudaFailed(f"{LIBRARY} cannot be loaded, no NVIDIA driver is here: {error}") from error
    try:
        for name, parameters in _SIGNATURES.items():
            getattr(library, name).argtypes = parameters
    except AttributeError as error:
        raise CudaFailed(f"the driver is too old: {error}") from error
    _call(library, "cuInit", 0)
    device = c_int()
    _call(library, "cuDeviceGet", byref(device), 0)
    with contextlib.ExitStack() as stack:
        yield Gpu(library, device, stack)


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    code = getattr(library, name)(*arguments)
    if code:
        text = c_char_p()
        library.cuGetErrorString(code, byref(text))
        raise CudaFailed(f"{name}: error {code}, {(text.value or b'unknown').decode()}")
