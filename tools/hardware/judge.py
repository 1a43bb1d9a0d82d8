"""Compare the samples of a known kernel with its expectations, and with the work that it counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from pulsed.compute.products import tensor_peak_of
from pulsed.compute.saturation import mfu_ratio, tensor_throughput_ratio
from pulsed.compute.settings import PRESETS
from pulsed.model.vocabulary import POSITION
from tools.hardware.cuda import GpuFacts
from tools.hardware.kernels import KERNELS, KnownKernel, Range
from tools.hardware.play import Played
from tools.hardware.readings import RECORD, Run, Sample, during, read_run, samples

PEAKS = {
    "8.0": (2048, 128, 64),  # A100: 312, 19.5 and 9.7 TFLOP/s with 108 SMs at 1,410 MHz
    "9.0": (4096, 256, 128),  # H100 SXM: 989 TFLOP/s with 132 SMs at 1,830 MHz; 67 and 34 at 1,980 MHz
    "10.0": (8192, 256, 128),  # B200: 2,250, 75 and 37 TFLOP/s with 148 SMs at 1,850 to 1,965 MHz
}
"""By compute capability, FLOP per clock and SM of tensor pipes with 16-bit numbers, FP32 and FP64; from data sheets."""

PIPES = ("tensor", "fp32", "fp64")

AGREEMENT: Mapping[str, Range] = {
    # dcgmproftester's tolerance is 10 %.
    "fp32": (0.9, 1.1),
    "fp64": (0.9, 1.1),
    # Device memory is also busy between transfers, and PCIe counts headers.
    "dram": (0.8, 1.1),
    "pcie": (0.8, 1.1),
}
"""Work that was counted over the reading of it; for tensor pipes, each kernel has its own."""

UTILIZATION_TOLERANCE = 0.1
"""Between real utilization and the same sum over counted work."""

INTEGRAL_TOLERANCE = 0.1
"""Of the integral of SM activity, relative to the schedule."""

POWER_CAP = 0x4
"""The bit of `clocks_event_reasons` (nvml.h: nvmlClocksEventReasonSwPowerCap)."""

CAPPED_CLOCK, CAPPED_TENSOR = 0.97, 0.1
"""Highest SM clock with the power limit lowered over that without, and the most that tensor activity differs."""


class Seen(NamedTuple):
    """What a run has of a kernel.

    Attributes:
        workload_class: the most frequent class of its samples; empty without samples.
        means: of canonical names and `real_utilization_ratio`, `tensor_throughput_ratio`, here over the highest clock;
            `mfu_ratio`, and `power_cap_ratio`, of samples; those that most samples have.
        counted: of `PIPES`, `dram` and `pcie` (bytes/s), what the kernel did over the peak at the highest clock; as
            `mfu` its FLOP/s over the data sheet's peak, where that is known.
        counted_utilization: real utilization of what was counted; None if a peak, or what SMs did, is not known.
        problems: what does not agree, a sentence each.
        library: that computed it, with its version; empty if none did.
    """

    workload_class: str
    means: Mapping[str, float]
    counted: Mapping[str, float]
    counted_utilization: float | None
    problems: tuple[str, ...]
    library: str = ""


def busy_share(kernel: KnownKernel, played: Played) -> float:
    """Return the share of time in which a kernel was scheduled to run."""
    return min(1.0, played.launches * kernel.busy / (played.ended - played.begun)) if kernel.entry else 0.0


def counted_work(
    kernel: KnownKernel, played: Played, gpu: GpuFacts, clock: float, memory_clock: float
) -> dict[str, float]:
    """Return what a kernel did over what the GPU could do, by pipe and memory; bytes/s over PCIe.

    Args:
        clock: highest SM clock in hertz.
        memory_clock: highest memory clock in hertz; two transfers per cycle.
    """
    seconds = played.ended - played.begun
    counted = {"pcie": played.copied_bytes / seconds}
    work = kernel.work()
    if work and clock and memory_clock:
        counted["dram"] = work.bytes * played.rounds / seconds / (memory_clock * 2 * gpu.bus_bits / 8)
        for pipe, peak in zip(PIPES, PEAKS.get(gpu.capability, ()), strict=False):
            counted[pipe] = getattr(work, pipe) * played.rounds / seconds / (gpu.sms * peak * clock)
        if data_sheet := tensor_peak_of(gpu.name):
            counted["mfu"] = work.tensor * played.rounds / seconds / data_sheet.flops
    return counted


def look(kernel: KnownKernel, played: Played, gpu: GpuFacts, found: Sequence[Sample]) -> Seen:
    """Compare one kernel's samples with its expectations."""
    if not found:
        return Seen("", {}, {}, None, ("no samples in its time",))
    means = _means(found)
    clock, memory_clock = means.get("sm_clock_max_hertz", 0.0), means.get("memory_clock_max_hertz", 0.0)
    counted = counted_work(kernel, played, gpu, clock, memory_clock)
    utilization = None
    if not kernel.gemm and ("tensor" in counted or not kernel.entry):
        weights, busy = PRESETS["ai"], busy_share(kernel, played)
        utilization = (
            weights.sm * busy * kernel.used_sms(gpu.sms) / gpu.sms
            + weights.tensor * counted.get("tensor", 0.0)
            + weights.dram * counted.get("dram", 0.0)
            + weights.graphics_engine * busy
        )
    (most, times), *_ = Counter(sample.result.workload.raw_class for sample in found).most_common()
    problems = [
        *_of_class(kernel, found, most, times),
        *_of_inputs(kernel, means),
        *_of_work(kernel, means, counted, utilization),
        *_of_integral(kernel, played, gpu, found),
    ]
    return Seen(most, means, counted, utilization, tuple(problems), played.library)


def _means(found: Sequence[Sample]) -> Mapping[str, float]:
    """Return the means of what most samples have."""
    columns = {name: [sample.reading[position] for sample in found] for name, position in POSITION.items()}
    columns["real_utilization_ratio"] = [sample.result.real_utilization.ratio for sample in found]
    columns["tensor_throughput_ratio"] = [tensor_throughput_ratio(sample.reading, None) for sample in found]
    reasons = [sample.reading.clocks_event_reasons for sample in found]
    columns["power_cap_ratio"] = [None if each is None else float(int(each) & POWER_CAP != 0) for each in reasons]
    columns["mfu_ratio"] = [mfu_ratio(sample.reading, sample.result) for sample in found]
    present = {name: [value for value in values if value is not None] for name, values in columns.items()}
    return {name: fmean(values) for name, values in present.items() if len(values) > len(found) / 2}


def _of_class(kernel: KnownKernel, found: Sequence[Sample], most: str, times: int) -> Iterator[str]:
    if not kernel.workload_class:
        return
    if most != kernel.workload_class:
        yield f"class {most} in {times} of {len(found)} samples"
    held = found[-1].result.held
    if (held.workload_class, held.bottleneck) != (kernel.workload_class, kernel.bottleneck):
        yield f"debounced class {held.workload_class}, bottleneck {held.bottleneck}"


def _of_inputs(kernel: KnownKernel, means: Mapping[str, float]) -> Iterator[str]:
    expected = {**kernel.ranges(), "real_utilization_ratio": kernel.real_utilization()}
    for name, (low, high) in expected.items():
        if name not in means:
            yield f"{name} is not measured"
        elif not low <= means[name] <= high:
            yield f"{name} {means[name]:.4g}, expected {low:.4g} to {high:.4g}"


def _of_work(
    kernel: KnownKernel, means: Mapping[str, float], counted: Mapping[str, float], utilization: float | None
) -> Iterator[str]:
    """Yield where readings differ from counted work; activity of pipes is scaled to the highest clock first."""
    clock = means.get("sm_clock_hertz", 0.0) / means.get("sm_clock_max_hertz", 1.0)
    read = {pipe: means.get(f"{pipe}_active_ratio", 0.0) * clock for pipe in PIPES}
    read |= {"tensor": means.get("tensor_throughput_ratio", 0.0), "dram": means.get("dram_active_ratio", 0.0)}
    read["mfu"] = means.get("mfu_ratio", 0.0)
    read["pcie"] = means.get("pcie_receive_bytes_per_second", 0.0)
    for name, work in counted.items():
        low, high = AGREEMENT.get(name, kernel.tensor_work)
        if work and not low * read[name] <= work <= high * read[name]:
            yield f"{name}: {work:.4g} counted, {read[name]:.4g} read"
    ratio = means.get("real_utilization_ratio")
    if utilization is not None and ratio is not None and abs(ratio - utilization) > UTILIZATION_TOLERANCE:
        yield f"real utilization {ratio:.3f}, {utilization:.3f} by counted work"


def _of_integral(kernel: KnownKernel, played: Played, gpu: GpuFacts, found: Sequence[Sample]) -> Iterator[str]:
    if not kernel.period:
        return
    schedule = busy_share(kernel, played) * kernel.used_sms(gpu.sms) / gpu.sms
    first, last = found[0].result.counters, found[-1].result.counters
    active, seconds = (
        (last.value(name) or 0.0) - (first.value(name) or 0.0) for name in ("sm_active_seconds", "observed_seconds")
    )
    if not seconds or abs(active / seconds / schedule - 1) > INTEGRAL_TOLERANCE:
        yield f"{active:.3f} s of SM activity in {seconds:.1f} s, {schedule * seconds:.3f} s by schedule"


def _of_cap(free: Mapping[str, float], capped: Mapping[str, float]) -> Iterator[str]:
    """Yield where the means with the power limit lowered are not as expected by those without."""
    clock, before = capped.get("sm_clock_hertz", 0.0), free.get("sm_clock_hertz", 0.0)
    if not clock <= CAPPED_CLOCK * before:
        yield f"SM clock {clock / 1e6:.0f} MHz, {before / 1e6:.0f} MHz with the usual power limit"
    tensor, before = capped.get("tensor_active_ratio", 0.0), free.get("tensor_active_ratio", 0.0)
    if abs(tensor - before) > CAPPED_TENSOR:
        yield f"tensor_active_ratio {tensor:.4g}, {before:.4g} with the usual power limit"


def evaluate(folder: Path) -> tuple[Run, Mapping[str, Seen]]:
    """Play a run through the pipeline; return it, and what it has of each kernel."""
    run = read_run(folder)
    found = samples(folder / RECORD, run.gpu.uuid)
    kernels = {kernel.name: kernel for kernel in KERNELS}
    seen = {
        played.kernel: look(kernels[played.kernel], played, run.gpu, during(found, played)) for played in run.played
    }
    for name, each in seen.items():
        if free := seen.get(kernels[name].uncapped):
            seen[name] = each._replace(problems=(*each.problems, *_of_cap(free.means, each.means)))
    return run, seen
