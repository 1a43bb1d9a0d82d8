"""Lower the power limit of a GPU and restore it: `python -m tools.hardware.power UUID PERCENT`.

The first line of standard output is empty when the limit is lowered, else it has the reason why not. The limit is
restored when standard input ends, which it also does when the process at its other end is killed; signals to this one
are ignored.
"""

from __future__ import annotations

import signal
import sys

import pynvml


def main() -> int:
    uuid, percent = sys.argv[1], float(sys.argv[2])
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        before = pynvml.nvmlDeviceGetPowerManagementLimit(gpu)
        wanted = round(pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu) * percent / 100)
        lowest, _ = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)
        pynvml.nvmlDeviceSetPowerManagementLimit(gpu, max(lowest, min(before, wanted)))
    except pynvml.NVMLError as error:
        print(f"the power limit cannot be lowered, which needs root: {error}")
        return 1
    try:
        print(flush=True)
        sys.stdin.read()
    finally:
        try:
            pynvml.nvmlDeviceSetPowerManagementLimit(gpu, before)
        except pynvml.NVMLError as error:
            restore = f"nvidia-smi --id={uuid} --power-limit={before / 1000:g}"
            print(f"the power limit is not restored: {error}; use {restore}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
