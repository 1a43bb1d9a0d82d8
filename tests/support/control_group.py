"""Control groups of Linux, with limits as those of the chart and of the systemd unit."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from tests.support.tools import missing

ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def control_group(memory_bytes: int, tasks: int) -> Iterator[Sequence[str]]:
    """Make a control group for the time of the context; yield the beginning of a command that runs in it.

    Skips the test where none can be made. Version 2 where the controllers are there, else version 1.
    """
    name = f"pulsed-test-{uuid4().hex[:8]}"
    is_new = (ROOT / "cgroup.controllers").exists()
    limits = (
        [(ROOT, "memory.max", memory_bytes), (ROOT, "memory.swap.max", 0), (ROOT, "pids.max", tasks)]
        if is_new
        else [(ROOT / "memory", "memory.limit_in_bytes", memory_bytes), (ROOT / "pids", "pids.max", tasks)]
    )
    folders = list(dict.fromkeys(folder / name for folder, _, _ in limits))
    made: list[Path] = []
    try:
        for folder in folders:
            folder.mkdir()
            made.append(folder)
        for parent, file, limit in limits:
            if (parent / name / file).exists() or "swap" not in file:
                (parent / name / file).write_text(str(limit))
    except OSError as error:
        _remove(made)
        missing(f"no control group can be made ({error}): run as root, with the controllers memory and pids delegated")
    try:
        join = "".join(f"echo $$ >{folder}/cgroup.procs && " for folder in folders)
        yield ["sh", "-c", f'{join}exec "$@"', "sh"]
    finally:
        _remove(made)


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        for _ in range(100):
            try:
                folder.rmdir()
                break
            except OSError:  # processes that are still ending
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.05)
