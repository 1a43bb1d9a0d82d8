"""Run as a program: becomes the given command, which the kernel kills as soon as pulsed is gone.

`python -I -S die_with_parent.py PARENT_PID COMMAND [ARGUMENT ...]`

Why a program and no `preexec_fn`: that runs Python between fork and exec, which can deadlock where threads are, and
Python 3.12 warns of it. This one costs some 15 ms a start, once, and leaves nothing behind: exec keeps the setting.
Imports nothing of pulsed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

CANNOT_RUN, NOT_FOUND = 126, 127
"""Exit codes of a shell for a command that is not a program, and for one that does not exist."""


def dying_with_parent(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line by which a command is run as long as this process lives."""
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *command)


def main(parent: int, command: list[str]) -> int:
    """Become the command; returns only if that fails, with an exit code."""
    # SIGKILL: what holds on to a GPU's counters must not outlive us, whatever it makes of other signals.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # pulsed died before the kernel knew what to do about it
        return 1
    # With the pipes' other ends handed on, the end of the command's output would go unnoticed.
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > sys.stderr.fileno():
            with contextlib.suppress(OSError):  # the listing's own
                os.close(descriptor)
    # Python ignores these two, and exec would hand that on.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
