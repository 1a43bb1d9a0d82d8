"""Play the known kernels on this machine's GPU while `pulsed record` reads the node's source."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.daemon import environment
from tests.support.waiting import SECONDS
from tools.hardware.cuda import GpuFacts
from tools.hardware.kernels import KERNELS, KnownKernel
from tools.hardware.play import Played
from tools.hardware.readings import RECORD, Run, samples, write_run


class NotPossible(Exception):
    """There is no GPU, or no source that reads it."""


class NotRestored(Exception):
    """The GPU is left with a lowered power limit."""


def find_gpu() -> GpuFacts:
    """Return the facts of the first GPU.

    Raises:
        NotPossible: there is none, with the reason.
    """
    return GpuFacts(**_child())


def usual_source() -> str:
    """Return the kind of source of this node: dcgmi where it is installed, else nvml."""
    return "dcgmi" if shutil.which("dcgmi") else "nvml"


def run(
    folder: Path,
    seconds: float,
    source: str,
    started: Callable[[KnownKernel], None],
    kernels: Sequence[KnownKernel] = KERNELS,
    options: Sequence[str] = (),
    power_limit: float | None = None,
) -> Path:
    """Play kernels one after the other, and keep the readings.

    Args:
        folder: where a folder for this run is made, named by model, driver and date.
        seconds: of each kernel.
        source: kind of the source.
        started: called before each kernel.
        options: more options of `pulsed record`.
        power_limit: in percent of the default, for kernels with the power limit lowered; None: they are skipped.

    Raises:
        NotPossible: there is no GPU, a kernel of our own fails, or the source does not read the GPU.
        NotRestored: the power limit stays lowered.
    """
    gpu = find_gpu()
    with tempfile.TemporaryDirectory() as work:
        record = Path(work, RECORD)
        played, skipped = [], {}
        with recording(record, source, options):
            for kernel in kernels:
                started(kernel)
                try:
                    with lowered_power_limit(gpu.uuid, power_limit) if kernel.uncapped else contextlib.nullcontext():
                        played.append(play_in_child(kernel, seconds))
                except NotPossible as error:
                    if not kernel.gemm:
                        raise
                    skipped[kernel.name] = " ".join(str(error).split())
        found = samples(record, gpu.uuid)
        if not found:
            raise NotPossible(f"source {source} has no whole GPU {gpu.uuid}; kernels are not played in MIG instances")
        date = time.strftime("%Y-%m-%d", time.gmtime(played[0].begun))
        done = Run(gpu, found[0].driver, date, source, played, skipped)
        kept = folder / re.sub(r"[^A-Za-z0-9.]+", "-", f"{gpu.name} {done.driver} {source} {date}")
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(record, kept / RECORD)
        write_run(kept, done)
    return kept


@contextlib.contextmanager
def recording(record: Path, source: str, options: Sequence[str] = ()) -> Iterator[None]:
    """Run `pulsed record` until the block ends, which begins with the first data.

    Raises:
        NotPossible: the source does not read the GPU; the log is added to one that the block raises.
    """
    command = [sys.executable, "-m", "pulsed", "record", str(record), "--source", source, *options]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment()) as recorder,
    ):
        try:
            _wait_for_data(record, recorder)
            yield
        except NotPossible as error:
            log.seek(0)
            raise NotPossible(f"{error}\n{log.read()}".strip()) from error
        finally:
            recorder.terminate()


@contextlib.contextmanager
def lowered_power_limit(uuid: str, percent: float | None) -> Iterator[None]:
    """Lower the power limit of a GPU until the block ends, or this process does, in whatever way.

    Raises:
        NotPossible: it cannot be lowered.
        NotRestored: it was, and cannot be restored.
    """
    if percent is None:
        raise NotPossible("no POWER_LIMIT is given")
    lowered = False
    command = [sys.executable, "-m", "tools.hardware.power", uuid, str(percent)]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment()) as holder:
            assert holder.stdout is not None
            line = holder.stdout.readline()
            lowered = line == "\n"
            if not lowered:
                raise NotPossible(line.strip() or "the power limit cannot be lowered")
            yield
    finally:
        if lowered and holder.returncode:
            raise NotRestored(f"the power limit of {uuid} is not restored")


def play_in_child(kernel: KnownKernel, seconds: float) -> Played:
    """Play a kernel in a process of its own; raises `NotPossible` if it fails."""
    return Played(**_child(kernel.name, str(seconds)))


def _child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tools.hardware.play", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * SECONDS, check=False, env=environment())
    if done.returncode:
        raise NotPossible(" ".join([*arguments[:1], done.stderr.strip() or f"exit code {done.returncode}"]))
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _wait_for_data(record: Path, recorder: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while not record.exists() or not record.stat().st_size:
        if recorder.poll() is not None or time.monotonic() > deadline:
            raise NotPossible("the source delivers nothing")
        time.sleep(0.1)
