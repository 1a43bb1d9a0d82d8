"""Play one known kernel in a process of its own: `python -m support.hardware.play [KERNEL SECONDS]`.

Prints what was done as JSON; without a kernel, the facts of the GPU.
"""

from __future__ import annotations

import json
import sys
import time
from typing import NamedTuple

from support.hardware.cuda import CudaFailed, Gpu, first_gpu
from support.hardware.kernels import KERNELS, WHOLE, KnownKernel
from support.hardware.ptx import PERIOD_NS, text

BUFFER_BYTES = 1 << 29
"""Of source and target: far more than any cache."""


class Played(NamedTuple):
    """What a kernel did.

    Attributes:
        begun: Unix time of the first launch.
        ended: Unix time of the end of the last one.
        launches: how many.
        rounds: of all warps, as the kernel counted them.
        copied_bytes: from host to device.
    """

    kernel: str
    begun: float
    ended: float
    launches: int
    rounds: int
    copied_bytes: int


def play(gpu: Gpu, kernel: KnownKernel, seconds: float) -> Played:
    """Run a kernel for some time.

    Raises:
        CudaFailed: a call fails.
    """
    launches = rounds = copied = 0
    if kernel.copies:
        host, device = gpu.host_memory(BUFFER_BYTES), gpu.memory(BUFFER_BYTES)
    elif kernel.entry:
        facts = gpu.facts()
        function = gpu.kernel(text(kernel.entry), kernel.entry)
        blocks, threads = kernel.launch_shape(facts.sms, facts.threads_per_sm)
        counter, results = gpu.memory(8), gpu.memory(4 * blocks * threads)
        size = BUFFER_BYTES if kernel.entry in ("copy", "stream") else 16
        source, target = gpu.memory(size), gpu.memory(size)
        times = (round(kernel.busy * 1e9), round(kernel.on * PERIOD_NS))
        parameters = (counter, results, source, target, size // 16 - 1, *times)
    begun, start = time.time(), time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        if kernel.copies:
            gpu.copy_in(device, host, BUFFER_BYTES)
            copied += BUFFER_BYTES
        elif kernel.entry:
            gpu.launch(function, blocks, threads, parameters)
            launches += 1
        if wait := kernel.period and max(0.0, launches * kernel.period - (time.monotonic() - start)):
            time.sleep(wait)
        elif not kernel.copies and not kernel.entry:
            time.sleep(min(WHOLE, seconds - elapsed))
    ended = begun + time.monotonic() - start
    if kernel.entry:
        rounds = gpu.number(counter)
    return Played(kernel.name, begun, ended, launches, rounds, copied)


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
