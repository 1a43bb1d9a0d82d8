"""BF16 GEMMs by cuBLAS, through ctypes: the library of CUDA's toolkit, or of a Python package as PyTorch needs it."""

from __future__ import annotations

import ctypes
import glob
import os
import random
import sys
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_uint64, c_void_p

from tools.hardware.cuda import CudaFailed, Gpu

VARIABLE = "CUBLAS"
"""Of the environment: the path of the library, if it is not to be searched for."""

NAMES = ("libcublas.so.13", "libcublas.so.12")
FOLDERS = (*(f"{glob.escape(path)}/nvidia/cu*/lib" for path in sys.path if path), "/usr/local/cuda*/lib64")

_MATRIX = [c_uint64, c_int, c_int]  # address, type, leading dimension
_SIGNATURES = {
    "cublasCreate_v2": [POINTER(c_void_p)],
    "cublasDestroy_v2": [c_void_p],
    "cublasGetVersion_v2": [c_void_p, POINTER(c_int)],
    "cublasGemmEx": [
        *(c_void_p, *[c_int] * 5, POINTER(c_float)),
        *(*_MATRIX, *_MATRIX, POINTER(c_float), *_MATRIX, c_int, c_int),
    ],
}
"""Parameters as in cublas_api.h; all return a cublasStatus_t."""

_NO_TRANSPOSE, _BF16, _ACCUMULATE_FP32, _DEFAULT_ALGORITHM = 0, 14, 68, -1
"""CUBLAS_OP_N, CUDA_R_16BF, CUBLAS_COMPUTE_32F and CUBLAS_GEMM_DEFAULT."""

GEMMS = 128
"""Between two waits for the GPU: 0.2 s of N = 8192 on an H100."""

_FILL_BYTES = 1 << 24
"""Of random numbers, which a matrix repeats."""


class Gemm:
    """Products of two matrices of N x N BF16 numbers, accumulated in FP32; the first ones are computed already.

    Attributes:
        library: name and version of the library.

    Raises:
        CudaFailed: there is no cuBLAS that works with this driver, or a call fails.
    """

    def __init__(self, gpu: Gpu, n: int) -> None:
        self._gpu, self._n = gpu, n
        self._library, self._handle = _open()
        gpu.at_end(self._library.cublasDestroy_v2, self._handle)
        version = c_int()
        _call(self._library, "cublasGetVersion_v2", self._handle, byref(version))
        self.library = f"cuBLAS {version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"
        size = 2 * n * n
        self._left, self._right, self._product = (gpu.memory(size) for _ in range(3))
        numbers = random_bf16(min(size, _FILL_BYTES))
        host = gpu.host_memory(len(numbers))
        ctypes.memmove(host, numbers, len(numbers))
        for offset in range(0, size, len(numbers)):
            gpu.copy_in(self._left + offset, host, len(numbers))
            gpu.copy_in(self._right + offset, host, len(numbers))
        self.multiply()  # loads its kernels and raises the clock

    def multiply(self) -> None:
        """Compute `GEMMS` products, and wait for the end."""
        left, right, product = ((address, _BF16, self._n) for address in (self._left, self._right, self._product))
        shape = (_NO_TRANSPOSE, _NO_TRANSPOSE, self._n, self._n, self._n)
        one, zero = byref(c_float(1.0)), byref(c_float(0.0))
        kind = (_ACCUMULATE_FP32, _DEFAULT_ALGORITHM)
        for _ in range(GEMMS):
            _call(self._library, "cublasGemmEx", self._handle, *shape, one, *left, *right, zero, *product, *kind)
        self._gpu.wait()


def random_bf16(size: int) -> bytes:
    """Return so many bytes of BF16 numbers from 0.5 to 1 with random signs: of zeros a GEMM takes less power."""
    sign_and_mantissa, exponent = (int.from_bytes(mask * (size // 2), "little") for mask in (b"\x7f\x80", b"\x00\x3f"))
    return (random.Random(0).getrandbits(8 * size) & sign_and_mantissa | exponent).to_bytes(size, "little")


def _candidates() -> Iterator[str]:
    if named := os.environ.get(VARIABLE):
        yield named
        return
    yield from NAMES
    for folder in FOLDERS:
        for name in NAMES:
            yield from sorted(glob.glob(f"{folder}/{name}"), reverse=True)


def _open() -> tuple[ctypes.CDLL, c_void_p]:
    """Return the first library that works with this driver, and its handle."""
    reasons = []
    for path in _candidates():
        try:
            library, handle = ctypes.CDLL(path), c_void_p()
            for name, parameters in _SIGNATURES.items():
                getattr(library, name).argtypes = parameters
            _call(library, "cublasCreate_v2", byref(handle))
            return library, handle
        except (OSError, AttributeError, CudaFailed) as error:
            reasons.append(str(error) if path in str(error) else f"{path}: {error}")
    raise CudaFailed(f"no cuBLAS can be used; {VARIABLE}=PATH sets its path; tried {'; '.join(reasons)}")


def _call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    code = getattr(library, name)(*arguments)
    if code:
        library.cublasGetStatusString.restype = c_char_p
        raise CudaFailed(f"{name}: error {code}, {library.cublasGetStatusString(code).decode()}")
