"""The table of known kernels, expected and seen, as Markdown: README.md of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from support.hardware.judge import Seen, evaluate
from support.hardware.kernels import KERNELS, NEVER, KnownKernel, Range
from support.hardware.readings import Run, kept_runs

_SHORT = {
    "dram_active_ratio": "DRAM",
    "fp32_active_ratio": "FP32",
    "fp64_active_ratio": "FP64",
    "graphics_engine_active_ratio": "GR",
    "pcie_receive_bytes_per_second": "PCIe",
    "sm_active_ratio": "SM",
    "sm_occupancy_ratio": "occupancy",
}


RATIOS = (("tensor", "tensor_throughput_ratio"), ("mfu", "mfu_ratio"))
"""What is read of counted work, by the name of the work."""

HEAD = """\
# Known kernels

`make hardware` plays twelve small kernels on the first GPU of a node, 10 s each, and compares class, inputs and counted
work with what the documented meaning of the counters requires, also the estimate of model FLOP utilization. Then it
measures the throughput that sampling every second and every 100 ms costs. A GEMM by cuBLAS and a power limit, for which
that estimate is published, are not part of it. It needs profiling counters, compute capability 8.0, and
a GPU without other work and MIG instances.

Commit the folder that it writes to `readings/` here, then run `make docs`: tests replay it. Where it differs from the
table, correct rules or peaks with that evidence, not the expectations.
"""


def page() -> str:
    """Return the text of README.md in this folder, with all runs that are kept."""
    runs = [evaluate(folder) for folder in kept_runs()]
    note = "" if runs else "\nIt has not run on hardware yet.\n"
    end = f"GR: graphics engine. Tensor, FP64 and DRAM activity that are not named: at most {NEVER[1] * 100:g} %."
    return f"{HEAD}{note}\n{document(runs)}\n\n{end}\n"


def document(runs: Sequence[tuple[Run, Mapping[str, Seen]]]) -> str:
    """Return the table with a column for each run."""
    heads = [f"{run.gpu.name}, driver {run.driver}, {run.source}, {run.date}" for run, _ in runs]
    lines = [
        f"| {' | '.join(('kernel', 'what it does', 'class', 'expected', *heads))} |",
        f"|{'---|' * (4 + len(runs))}",
    ]
    for kernel in KERNELS:
        columns = [_seen(kernel, seen[kernel.name]) if kernel.name in seen else "not run" for _, seen in runs]
        cells = (
            f"`{kernel.name}`",
            kernel.does,
            f"`{kernel.workload_class}`",
            _expected(kernel),
            *columns,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(seen: Mapping[str, Seen]) -> str:
    """Return the counted work of each kernel beside its readings, and all that does not agree."""
    lines = []
    for name, each in seen.items():
        counted = {key: value for key, value in each.counted.items() if value}
        words = [f"{key} {_number(key, value)} counted" for key, value in counted.items()]
        words += [f"{ratio} {each.means[ratio]:.2f}" for key, ratio in RATIOS if key in counted and ratio in each.means]
        if each.counted_utilization is not None:
            words.append(f"real utilization {each.counted_utilization:.2f} by counted work")
        lines += [f"{name}: {', '.join(words) or 'nothing counted'}", *(f"  DIFFERS: {text}" for text in each.problems)]
    return "\n".join(lines)


def _expected(kernel: KnownKernel) -> str:
    return ", ".join(f"{_name(name)} {_range(name, bounds)}" for name, bounds in kernel.inputs.items())


def _seen(kernel: KnownKernel, seen: Seen) -> str:
    names = [*kernel.inputs, "real_utilization_ratio"]
    words = [f"{_name(name)} {_number(name, seen.means[name])}" for name in names if name in seen.means]
    return ", ".join([f"`{seen.workload_class or 'nothing'}`", *words]) + ("; differs" if seen.problems else "")


def _name(quantity: str) -> str:
    short = quantity.removesuffix("_ratio").removesuffix("_active").removesuffix("_bytes_per_second")
    return _SHORT.get(quantity, short.replace("_", " "))


def _range(quantity: str, bounds: Range) -> str:
    low, high = (_number(quantity, bound) for bound in bounds)
    return f"{low.split(' ')[0]}..{high}"


def _number(quantity: str, value: float) -> str:
    if quantity.startswith("pcie"):
        return f"{value / 1e9:.3g} GB/s"
    return f"{value * 100:.3g} %"
