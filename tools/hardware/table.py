"""The table of known kernels, expected and seen, as Markdown: README.md of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.hardware.judge import Seen, evaluate
from tools.hardware.kernels import KERNELS, NEVER, KnownKernel, Range
from tools.hardware.readings import Run, kept_runs

_SHORT = {
    "dram_active_ratio": "DRAM",
    "fp32_active_ratio": "FP32",
    "fp64_active_ratio": "FP64",
    "graphics_engine_active_ratio": "GR",
    "pcie_receive_bytes_per_second": "PCIe",
    "sm_active_ratio": "SM",
    "sm_occupancy_ratio": "occupancy",
    "power_cap_ratio": "power cap reported in",
}


RATIOS = (("tensor", "tensor_throughput_ratio"), ("mfu", "mfu_ratio"))
"""What is read of counted work, by the name of the work."""

HEAD = """\
# Known kernels

```sh
make hardware                  # twelve small kernels and GEMMs by cuBLAS, 10 s each, and the cost of sampling
make hardware POWER_LIMIT=60   # as root: one of the GEMMs also at 60 % of the power limit, which is restored
make hardware CUBLAS=/path/to/libcublas.so.12
```

It compares class, inputs and counted work with what the counters must show; `tools/hardware/kernels.py` has what each
kernel does. It needs profiling counters, compute capability 8.0, and a GPU without other work and MIG instances. MFU of
a GEMM is its 2 N³ operations over the peak of the data sheet; padding of tiles makes the estimate higher.

Commit the folder that it writes to `readings/`, and run `make docs`: tests replay it. Where it differs, correct rules
or peaks, not the expectations.
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
        f"|{'|'.join(('kernel', 'class', 'expected', *heads))}|",
        f"|{'-|' * (3 + len(runs))}",
    ]
    for kernel in KERNELS:
        columns = [_column(kernel, run, seen) for run, seen in runs]
        cells = (
            f"`{kernel.name}`",
            f"`{kernel.workload_class}`" if kernel.workload_class else "any",
            _expected(kernel),
            *columns,
        )
        lines.append(f"|{'|'.join(cells)}|")
    return "\n".join(lines)


def summary(seen: Mapping[str, Seen]) -> str:
    """Return the counted work of each kernel beside its readings, and all that does not agree."""
    lines = []
    for name, each in seen.items():
        counted = {key: value for key, value in each.counted.items() if value}
        words = [f"{key} {_number(key, value)} counted" for key, value in counted.items()]
        words += [f"{ratio} {each.means[ratio]:.3g}" for key, ratio in RATIOS if key in counted and ratio in each.means]
        if each.counted_utilization is not None:
            words.append(f"real utilization {each.counted_utilization:.2f} by counted work")
        lines += [f"{name}: {', '.join(words) or 'nothing counted'}", *(f"  DIFFERS: {text}" for text in each.problems)]
    return "\n".join(lines)


def _expected(kernel: KnownKernel) -> str:
    words = [f"{_name(name)} {_range(name, bounds)}" for name, bounds in kernel.inputs.items()]
    if kernel.gemm:
        words.append("MFU over its estimate {:g}..{:g}".format(*kernel.tensor_work))
    return ", ".join(words)


def _column(kernel: KnownKernel, run: Run, seen: Mapping[str, Seen]) -> str:
    if kernel.name in seen:
        return _seen(kernel, seen[kernel.name])
    return ": ".join(("not run", *filter(None, [run.skipped.get(kernel.name)])))


def _seen(kernel: KnownKernel, seen: Seen) -> str:
    names = [*kernel.inputs, "real_utilization_ratio"]
    words = [f"{_name(name)} {_number(name, seen.means[name])}" for name in names if name in seen.means]
    if kernel.gemm:
        found = (("MFU", seen.counted.get("mfu")), ("estimated", seen.means.get("mfu_ratio")))
        words += [f"{word} {_number('mfu', value)}" for word, value in found if value is not None] + [seen.library]
    return ", ".join([f"`{seen.workload_class or 'nothing'}`", *words]) + ("; differs" if seen.problems else "")


def _name(quantity: str) -> str:
    short = quantity.removesuffix("_ratio").removesuffix("_active").removesuffix("_bytes_per_second")
    return _SHORT.get(quantity, short.replace("_", " "))


def _range(quantity: str, bounds: Range) -> str:
    low, high = (_number(quantity, bound) for bound in bounds)
    return f"{low.split(' ')[0].rstrip('%')}..{high}"


def _number(quantity: str, value: float) -> str:
    if quantity.startswith("pcie"):
        return f"{value / 1e9:.3g} GB/s"
    return f"{value * 100:.3g}%"
