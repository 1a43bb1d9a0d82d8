"""`make hardware`: known work on this machine's first GPU, by PyTorch, against the class and ranges of the documents.

Each workload runs in a process of its own, while `pulsed record` reads the node's source. The expectations follow from
the rules of the classes (docs/metrics.md) and from what the work is, not from measurements. MFU is compared with the
operations that were done over the peak of the data sheet. Needs an NVIDIA GPU without other work or MIG instances,
profiling counters (`pulsed doctor`), and PyTorch. Exit codes: 0 everything agrees, 1 something differs, 2 not possible.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pulsed.apps.ticks import collect
from pulsed.compute.products import tensor_peak_of
from pulsed.compute.saturation import mfu_ratio
from pulsed.config.configuration import load
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import POSITION

Range = tuple[float, float]
Step = Callable[[], object]
Means = Mapping[str, float]

GR, SM, TENSOR, FP64, FP32, DRAM = (
    f"{name}_active_ratio" for name in ("graphics_engine", "sm", "tensor", "fp64", "fp32", "dram")
)
PCIE, RU, MFU, MFU_OVER_WORK = (
    "pcie_receive_bytes_per_second",
    "real_utilization_ratio",
    "mfu_ratio",
    "mfu_over_work_ratio",
)

SETTLING_SECONDS = 3.0
"""After the begin of a workload: clocks rise, and samples are up to a second late."""

START_SECONDS = 120.0
"""Time in which the source delivers data, and PyTorch starts."""

HELD_BYTES = 4 << 30
ELEMENTS = 1 << 28
"""Of the buffers that are copied and reduced: far more than any cache."""


class Workload(NamedTuple):
    """Known work.

    Attributes:
        start: returns a function that does some of it, from the module torch.
        classes: of which its samples must have one.
        ranges: of means of its samples, by canonical name.
        operations: floating-point operations of a step.
        capability: lowest compute capability.
    """

    name: str
    start: Callable[[Any], Step]
    classes: tuple[str, ...]
    ranges: Mapping[str, Range]
    operations: float = 0.0
    capability: tuple[int, int] = (7, 0)


N, N_FP64 = 8192, 4096


def _gemm(dtype: str, size: int = N, *, tf32: bool = False) -> Callable[[Any], Step]:
    def start(torch: Any) -> Step:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(size, size, device="cuda", dtype=getattr(torch, dtype)) for _ in range(2))
        out = torch.empty_like(a)
        return lambda: torch.matmul(a, b, out=out)

    return start


def _gemm_fp8(torch: Any) -> Step:
    a = torch.randn(N, N, device="cuda").to(torch.float8_e4m3fn)
    b, one = a.t(), torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _copy(torch: Any) -> Step:
    source = torch.ones(ELEMENTS, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _reduction(torch: Any) -> Step:
    source = torch.ones(ELEMENTS, device="cuda")
    return lambda: source.sum()


def _small_kernel(torch: Any) -> Step:
    number = torch.zeros(32, device="cuda")
    return lambda: number.add_(1.0)


def _idle(torch: Any) -> Step:
    held = torch.empty(HELD_BYTES, dtype=torch.uint8, device="cuda")

    def wait() -> object:
        time.sleep(0.5)
        return held

    return wait


def _to_device(torch: Any) -> Step:
    host = torch.ones(ELEMENTS // 4).pin_memory()
    device = torch.empty_like(host, device="cuda")
    return lambda: device.copy_(host, non_blocking=True)


_BUSY: Mapping[str, Range] = {GR: (0.9, 1.0), SM: (0.6, 1.0)}
_TENSOR = ("tensor_heavy_compute",)

WORKLOADS: tuple[Workload, ...] = (
    # From compute capability 8.0 on, FP64 GEMMs of data-centre GPUs run on tensor pipes.
    Workload(
        "gemm_fp64", _gemm("float64", N_FP64), ("fp64_hpc_compute", *_TENSOR), {**_BUSY, RU: (0.4, 1.0)},
        2.0 * N_FP64**3,
    ),
    Workload(
        "gemm_fp32", _gemm("float32"), ("compute_heavy", "compute_active"),
        {**_BUSY, FP32: (0.3, 1.0), TENSOR: (0.0, 0.05)}, 2.0 * N**3,
    ),
    Workload(
        "gemm_tf32", _gemm("float32", tf32=True), _TENSOR, {**_BUSY, TENSOR: (0.5, 1.0)}, 2.0 * N**3, (8, 0)
    ),
    # mma reaches less than the peak of the data sheet, and padding of tiles counts as work of the pipes.
    Workload(
        "gemm_bf16", _gemm("bfloat16"), _TENSOR, {**_BUSY, TENSOR: (0.5, 1.0), MFU_OVER_WORK: (0.9, 1.1)}, 2.0 * N**3,
        (8, 0),
    ),
    Workload("gemm_fp8", _gemm_fp8, _TENSOR, {**_BUSY, TENSOR: (0.5, 1.0)}, 2.0 * N**3, (8, 9)),
    Workload("copy", _copy, ("memory_bound",), {GR: (0.9, 1.0), DRAM: (0.65, 1.0), TENSOR: (0.0, 0.04)}),
    Workload("reduction", _reduction, ("memory_bound",), {GR: (0.9, 1.0), DRAM: (0.65, 1.0), TENSOR: (0.0, 0.04)}),
    Workload(
        "small_kernel", _small_kernel, ("busy_low_sm_use", "low_utilization", "mixed_or_moderate"),
        {SM: (0.0, 0.25), TENSOR: (0.0, 0.04), DRAM: (0.0, 0.1)},
    ),
    Workload("idle_held", _idle, ("idle",), {GR: (0.0, 0.04), SM: (0.0, 0.04), RU: (0.0, 0.04)}),
    Workload("pcie_copy", _to_device, ("io_or_data_loading",), {SM: (0.0, 0.3), PCIE: (1e9, 130e9)}),
)  # fmt: skip


class Played(NamedTuple):
    """What a workload did: Unix times of begin and end, and the number of steps; or why it was skipped."""

    begun: float = 0.0
    ended: float = 0.0
    steps: int = 0
    skipped: str = ""


class NotPossible(Exception):
    """Something that the run needs is missing; the text names it and the remedy."""


def play(workload: Workload, seconds: float) -> Played:
    """Run a workload in this process."""
    import torch  # type: ignore[import-not-found,unused-ignore]  # not a dependency

    if torch.cuda.get_device_capability() < workload.capability:
        return Played(skipped="needs compute capability {}.{}".format(*workload.capability))
    step, steps = workload.start(torch), 0
    torch.cuda.synchronize()
    begun, start = time.time(), time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        step()
        steps += 1
        if steps % 16 == 0:  # a queue of launches, but not an endless one
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return Played(begun, begun + max(elapsed, time.monotonic() - start), steps)


def missing_parts(source: str) -> list[str]:
    """Return what this machine lacks for a run, with the remedies."""
    parts = []
    if not Path("/proc/driver/nvidia/version").exists():
        parts.append("no NVIDIA driver is loaded: run this on a node with a GPU")
    if importlib.util.find_spec("torch") is None:
        parts.append(f"PyTorch is missing: {sys.executable} -m pip install torch")
    if source == "dcgmi" and shutil.which("dcgmi") is None:
        parts.append("dcgmi is missing: install datacenter-gpu-manager, or use --source nvml")
    return parts


def run(workloads: Sequence[Workload], seconds: float, source: str, record: Path) -> dict[str, Played]:
    """Play workloads one after the other while a source is recorded. Raises `NotPossible`."""
    played = {}
    with _recording(record, source):
        for workload in workloads:
            print(f"{workload.name}: {seconds:g} s", flush=True)
            command = [sys.executable, "-m", "tools.hardware", "--play", workload.name, "--seconds", f"{seconds:g}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + START_SECONDS, check=False)
            if done.returncode:
                raise NotPossible(f"{workload.name} failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
            played[workload.name] = Played(**json.loads(done.stdout.splitlines()[-1]))
    return played


@contextlib.contextmanager
def _recording(record: Path, source: str) -> Iterator[None]:
    command = [sys.executable, "-m", "pulsed", "record", str(record), "--source", source]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as recorder:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not record.exists() or not record.stat().st_size:
                if recorder.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise NotPossible(f"the source {source} delivers nothing; `pulsed doctor` names why\n{log.read()}")
                time.sleep(0.1)
            yield
        finally:
            recorder.terminate()


class Sample(NamedTuple):
    """The first whole GPU of a tick: Unix times of the begin and end, class, and numbers by name."""

    begun: float
    ended: float
    workload_class: str
    numbers: Mapping[str, float | None]
    model: str


def samples(record: Path) -> list[Sample]:
    """Play a record through the pipeline with default settings; return what it has of the first whole GPU."""
    found: list[Sample] = []

    def keep(tick: Tick) -> None:
        for device, reading, result in [(row.device, row.reading, row.result) for row in tick.gpus]:
            if device.whole and device.entity.gpu == "0":
                numbers = {name: reading[position] for name, position in POSITION.items()}
                numbers |= {RU: result.real_utilization.ratio.value, MFU: mfu_ratio(reading, result)}
                begun = tick.time - tick.interval
                found.append(Sample(begun, tick.time, result.workload.raw_class, numbers, device.model))

    config = load(None, ("source.kind=replay", f"source.replay.path={record}", "source.replay.speed=0"), {})
    asyncio.run(collect(config, config.compute_settings(), lambda target: False, keep, is_logged=False))
    return found


def judge(workload: Workload, played: Played, found: Sequence[Sample]) -> tuple[str, list[str]]:
    """Return the class and means of a workload in one line, and what differs from the expectations."""
    if played.skipped:
        return f"skipped: {played.skipped}", []
    within = [each for each in found if played.begun + SETTLING_SECONDS <= each.begun and each.ended <= played.ended]
    if not within:
        return "no samples", [f"no samples of GPU 0 in its {played.ended - played.begun:.0f} s"]
    means = _means(within)
    peak = tensor_peak_of(within[0].model)
    if workload.operations and peak is not None and means.get(MFU):
        per_second = workload.operations * played.steps / (played.ended - played.begun)
        means[MFU_OVER_WORK] = means[MFU] * peak.flops / per_second
    (most, times), *_ = Counter(each.workload_class for each in within).most_common()
    problems = [] if most in workload.classes else [f"class {most} in {times} of {len(within)} samples"]
    for name, (low, high) in workload.ranges.items():
        if name not in means:
            problems.append(f"{name} is not measured")
        elif not low <= means[name] <= high:
            problems.append(f"{name} is {means[name]:.3g}, expected {low:.3g} to {high:.3g}")
    shown = ", ".join(f"{name} {means[name]:.3g}" for name in dict.fromkeys((*workload.ranges, RU)) if name in means)
    return f"{most}: {shown}", problems


def _means(found: Sequence[Sample]) -> dict[str, float]:
    """Return the means of what most samples have."""
    present = {
        name: [value for each in found if (value := each.numbers[name]) is not None] for name in found[0].numbers
    }
    return {name: fmean(values) for name, values in present.items() if 2 * len(values) > len(found)}


def report(workloads: Sequence[Workload], played: Mapping[str, Played], found: Sequence[Sample]) -> tuple[str, bool]:
    """Return the lines about all workloads, and whether everything agrees."""
    lines, agrees = [], True
    for workload in workloads:
        seen, problems = judge(workload, played[workload.name], found)
        lines += [f"{workload.name:<13}{seen}", *(f"{'':<13}DIFFERS: {each}" for each in problems)]
        agrees = agrees and not problems
    return "\n".join(lines), agrees


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make hardware", description=__doc__)
    usual = "dcgmi" if shutil.which("dcgmi") else "nvml"
    parser.add_argument("--source", default=usual, help="dcgmi or nvml; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each workload; default: %(default)s")
    parser.add_argument("--record", type=Path, help="keeps the recorded samples in this file")
    parser.add_argument("--play", choices=[each.name for each in WORKLOADS], help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.play is not None:
        workload = next(each for each in WORKLOADS if each.name == given.play)
        print(json.dumps(play(workload, given.seconds)._asdict()))
        return 0
    try:
        if parts := missing_parts(given.source):
            raise NotPossible("\n".join(parts))
        with tempfile.TemporaryDirectory() as folder:
            record = given.record or Path(folder, "record.ndjson.gz")
            played = run(WORKLOADS, given.seconds, given.source, record)
            text, agrees = report(WORKLOADS, played, samples(record))
    except NotPossible as error:
        print(f"not possible here:\n{error}", file=sys.stderr)
        return 2
    print(text)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
