"""Play one known kernel in a process of its own: `python -m tools.hardware.play [KERNEL SECONDS]`.

Prints what was done as JSON; without a kernel, the facts of the GPU.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tools.hardware.cublas import GEMMS, Gemm
from tools.hardware.cuda import CudaFailed, Gpu, first_gpu
from tools.hardware.kernels import KERNELS, WHOLE, KnownKernel
from tools.hardware.ptx import PERIOD_NS, text

BUFFER_BYTES = 1 << 29
"""Of source and target: far more than any cache."""


class Played(NamedTuple):
    """What a kernel did.

    Attributes:
        begun: Unix time of the first launch.
        ended: Unix time of the end of the last one.
        launches: how many; of kernels of our own.
        rounds: of all warps, as the kernel counted them; of cuBLAS, its GEMMs.
        copied_bytes: from host to device.
        library: cuBLAS with its version, if it computed.
    """

    kernel: str
    begun: float
    ended: float
    launches: int
    rounds: int
    copied_bytes: int
    library: str = ""


def play(gpu: Gpu, kernel: KnownKernel, seconds: float) -> Played:
    """Run a kernel for some time.

    Raises:
        CudaFailed: a call fails.
    """
    step: Callable[[], object] = partial(time.sleep, min(WHOLE, seconds))
    library = ""
    if kernel.copies:
        host, device = gpu.host_memory(BUFFER_BYTES), gpu.memory(BUFFER_BYTES)
        step = partial(gpu.copy_in, device, host, BUFFER_BYTES)
    elif kernel.gemm:
        gemm = Gemm(gpu, kernel.gemm)
        step, library = gemm.multiply, gemm.library
    elif kernel.entry:
        facts = gpu.facts()
        function = gpu.kernel(text(kernel.entry), kernel.entry)
        blocks, threads = kernel.launch_shape(facts.sms, facts.threads_per_sm)
        counter, results = gpu.memory(8), gpu.memory(4 * blocks * threads)
        size = BUFFER_BYTES if kernel.entry in ("copy", "stream") else 16
        source, target = gpu.memory(size), gpu.memory(size)
        times = (round(kernel.busy * 1e9), round(kernel.on * PERIOD_NS))
        parameters = (counter, results, source, target, size // 16 - 1, *times)
        step = partial(gpu.launch, function, blocks, threads, parameters)
    steps = 0
    begun, start = time.time(), time.monotonic()
    while time.monotonic() - start < seconds:
        step()
        steps += 1
        if wait := kernel.period and max(0.0, steps * kernel.period - (time.monotonic() - start)):
            time.sleep(wait)
    ended = begun + time.monotonic() - start
    launches = steps if kernel.entry else 0
    rounds = gpu.number(counter) if kernel.entry else steps * GEMMS if kernel.gemm else 0
    return Played(kernel.name, begun, ended, launches, rounds, steps * BUFFER_BYTES if kernel.copies else 0, library)


def main() -> int:
    try:
        with first_gpu() as gpu:
            if len(sys.argv) == 1:
                print(json.dumps(gpu.facts()._asdict()))
            else:
                kernel = next(each for each in KERNELS if each.name == sys.argv[1])
                print(json.dumps(play(gpu, kernel, float(sys.argv[2]))._asdict()))
    except CudaFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
