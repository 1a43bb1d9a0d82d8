"""Bounds of the inputs and the real utilization, as recording rules: `pulsed.compute.bounds` and `real_utilization`.

In PromQL a missing input is an absent series, and `a or b` is "a, else b" per GPU. The minimum of two is `a <= b or
b`, if both are present.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from pulsed.compute.bounds import PERCENT_ROUNDING
from pulsed.compute.products import C2C_LINKS, PCIE_BYTES_PER_SECOND
from pulsed.compute.real_utilization import COVERAGE_DIGITS, SETTLED
from pulsed.compute.settings import ComputeSettings, Weights
from pulsed.model.computed_tick import Inputs
from pulsed.present.promql.inputs import MEDIA_ACTIVE, WHOLE, input_of
from pulsed.present.promql.rule_types import NOTHING, SEEN, IdentityLabels, Recording, found, indented, number, recorded

PIPES = ("tensor_active_ratio", "fp64_active_ratio", "fp32_active_ratio", "fp16_active_ratio", "sm_occupancy_ratio")
"""Activities that are at most that of the SMs."""

QUANTITY_OF = {
    "sm": "sm_active_ratio",
    "tensor": "tensor_active_ratio",
    "dram": "dram_active_ratio",
    "graphics_engine": "graphics_engine_active_ratio",
    "fp64": "fp64_active_ratio",
    "real_utilization": "real_utilization_ratio",
    "io": "host_larger_bytes_per_second",
    "media": "media_active_ratio",
}
"""The canonical quantity behind each variable of the rules."""

MOST_HIDDEN = 2 * PERCENT_ROUNDING * PCIE_BYTES_PER_SECOND + 1e7
"""Most PCIe traffic in bytes/s while all activity is 0, by `pulsed.compute.classifier.traffic`; the last part is what
six decimals hide."""

BUSIEST_PIPE = recorded("busiest_pipe_ratio", "max")
PCIE_LOW, PCIE_HIGH = recorded("pcie_larger_bytes_per_second", "low"), recorded("pcie_larger_bytes_per_second", "high")
C2C_HIGH = recorded("c2c_larger_bytes_per_second", "high")
LOWER, UPPER = recorded("real_utilization_ratio", "low"), recorded("real_utilization_ratio", "high")
COVERAGE = recorded("real_utilization_coverage_ratio", "sum")
MEAN_OF_PRESENT = recorded("real_utilization_ratio", "mean_of_present")
POINT = recorded("real_utilization_ratio", "mean")


def low_of(variable: str) -> str:
    """Return the series of the lower bound of a variable of the rules."""
    return MEDIA_ACTIVE if variable == "media" else recorded(QUANTITY_OF[variable], "low")


def high_of(variable: str) -> str:
    """Return the series of the upper bound of a variable of the rules."""
    return MEDIA_ACTIVE if variable == "media" else recorded(QUANTITY_OF[variable], "high")


def utilization_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for the bounds, the real utilization and the traffic of PCIe and chip-to-chip links."""
    yield from _zero_filled() if settings.missing == "zero" else _bounds(identity)
    yield from _real_utilization(settings)
    yield from _pcie_traffic(settings)
    yield from _traffic(settings, identity)


def _zero_filled() -> Iterator[Recording]:
    for variable in Inputs._fields:
        known = input_of(QUANTITY_OF[variable])
        if variable == "graphics_engine":
            known += f" or {input_of('gpu_utilization_ratio')}"
        for series in (low_of(variable), high_of(variable)):
            yield Recording(series, f"{known} or {NOTHING}", "compute.missing is zero: a missing input is 0.")


def _bounds(identity: IdentityLabels) -> Iterator[Recording]:
    sm, engine = (input_of(f"{name}_ratio") for name in ("sm_active", "graphics_engine_active"))
    busy, accessed = (_ceiling(f"{name}_utilization_ratio") for name in ("gpu", "memory"))
    pipes = "|".join(map(input_of, PIPES))
    yield Recording(
        BUSIEST_PIPE,
        f'max {identity.by} (\n  {{__name__=~"{pipes}"}}\n)\nor {NOTHING}',
        "A pipe is busy only while a warp is on an SM: SM activity is at least that of any pipe.",
    )
    yield from _between(
        "sm",
        BUSIEST_PIPE,
        f"{engine} or {busy} or {SEEN}",
        "If missing: at least the busiest pipe, at most the graphics engine (reversed if noise has swapped them).\n"
        f"{SEEN} is 1: no upper limit.",
    )
    yield from _between(
        "graphics_engine",
        f"{sm} or {BUSIEST_PIPE}",
        f"{busy} or {SEEN}",
        "If missing: at least the SMs, at most NVML's share of time with a kernel, a rounded percent.",
    )
    nothing = "If missing: from 0 to the upper bound of the SMs."
    for variable in ("tensor", "fp64"):
        known = input_of(QUANTITY_OF[variable])
        yield Recording(low_of(variable), f"{known} or {NOTHING}", nothing)
        yield Recording(high_of(variable), f"{known} or {high_of('sm')}")
    dram = input_of("dram_active_ratio")
    yield Recording(
        low_of("dram"), f"{dram} or {NOTHING}", "If missing: from 0 to NVML's share of time with a memory access."
    )
    yield Recording(high_of("dram"), f"{dram} or {accessed} or {SEEN}")


def _ceiling(utilization: str) -> str:
    """Return the highest share of time that a utilization of the driver may stand for."""
    return f"clamp_max({input_of(utilization)} + {number(PERCENT_ROUNDING)}, 1)"


def _between(variable: str, floor: str, ceiling: str, comment: str) -> Iterator[Recording]:
    known = input_of(QUANTITY_OF[variable])
    floor = f"({floor})" if " or " in floor else floor
    for series, comparison in ((low_of(variable), "<="), (high_of(variable), ">=")):
        yield Recording(series, f"{known}\nor {floor} {comparison} ({ceiling})\nor {ceiling}", comment)
        comment = ""


def _weighted(weights: Weights, series: dict[str, str]) -> list[tuple[str, str]]:
    """Return pairs of weight and series, without weights of 0."""
    values = {field.name: getattr(weights, field.name) for field in fields(weights)}
    return [(number(value), series[name]) for name, value in values.items() if value > 0]


def _sum(terms: list[str]) -> str:
    return "\n+ ".join(terms)


def _real_utilization(settings: ComputeSettings) -> Iterator[Recording]:
    weights, preset = settings.real_utilization.chosen_weights(), settings.real_utilization.preset
    names = [field.name for field in fields(weights)]
    for series, bound, which in ((LOWER, low_of, "lower"), (UPPER, high_of, "upper")):
        total = _sum(
            [f"{weight} * {each}" for weight, each in _weighted(weights, {name: bound(name) for name in names})]
        )
        yield Recording(
            series,
            f"clamp_max(\n{indented(total)},\n  1\n)",
            f"The formula with the weights of preset {preset}, for the {which} bounds of its inputs.",
        )
    present = {name: input_of(QUANTITY_OF[name]) for name in names}
    present["graphics_engine"] = f"({present['graphics_engine']} or {input_of('gpu_utilization_ratio')})"
    terms = _weighted(weights, present)
    covered = _sum([f"({weight} * ({each} >= bool 0) or {NOTHING})" for weight, each in terms])
    yield Recording(
        COVERAGE,
        f"round(\n{indented(covered)},\n  1e-{COVERAGE_DIGITS}\n)",
        "Share of the weights whose input is present. Rounded, so that sums of weights compare exactly.",
    )
    known = _sum([f"({weight} * {each} or {NOTHING})" for weight, each in terms])
    yield Recording(MEAN_OF_PRESENT, f"(\n{indented(known)}\n) / ({COVERAGE} > 0)", "Mean over the present inputs.")
    if settings.missing == "zero":
        yield Recording(POINT, LOWER, "compute.missing is zero: all inputs are known.")
        return
    yield Recording(
        POINT,
        f"(\n  {LOWER} > {MEAN_OF_PRESENT}\n  or {UPPER} < {MEAN_OF_PRESENT}\n  or {MEAN_OF_PRESENT}\n)\n"
        f"and {COVERAGE} >= {number(settings.real_utilization.min_coverage)}\n"
        f"or {LOWER} and {UPPER} - {LOWER} <= {number(SETTLED)}",
        "The real utilization: that mean, limited to the bounds. Absent while coverage is low and the bounds differ.",
    )


def _pcie_traffic(settings: ComputeSettings) -> Iterator[Recording]:
    sent, received = input_of("pcie_transmit_bytes_per_second"), input_of("pcie_receive_bytes_per_second")
    low, high = PCIE_LOW, PCIE_HIGH
    whole = f"{SEEN}{{{WHOLE}}}"
    copying = input_of("memory_utilization_ratio")
    larger = f"{sent} > {received} or {received} or {sent}"
    unlimited = f"Inf * {whole}"
    if settings.workload.profile == "kempnerpulse":
        busy = f"(Inf * {whole} and {copying} >= {number(settings.workload.thresholds.io_memory_utilization_ratio)})"
        yield Recording(
            low,
            f"{busy}\nor {larger}\nor {NOTHING}",
            "The larger PCIe direction; a busy copy engine counts as unlimited traffic (compute.workload.profile is"
            " kempnerpulse).",
        )
        settled = f"({low} and {sent} and {received} and {copying})\nor {busy}"
    else:
        comment = "The larger PCIe direction; 0 for MIG instances and vGPU guests."
        yield Recording(low, f"{larger}\nor {NOTHING}", comment)
        settled = f"({low} and {sent} and {received})"
        # Above the threshold, what the printed digits hide could decide the class.
        if settings.workload.thresholds.io_bytes_per_second > MOST_HIDDEN:
            settled += f"\nor ({low} and {_still('dram')} and {_still('graphics_engine')})"
    if settings.missing == "zero":
        yield Recording(high, low)
    else:
        yield Recording(
            high,
            f"{settled}\nor {unlimited}\nor {NOTHING}",
            "Unbounded if a direction is missing, except while neither a kernel nor device memory can be active.",
        )


def _still(variable: str) -> str:
    """Return the condition that an activity is 0, or not measured and at most what the driver's percents hide."""
    known = input_of(QUANTITY_OF[variable])
    return f"({known} == 0 or {high_of(variable)} <= {number(PERCENT_ROUNDING)} unless {known})"


def _traffic(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for the variable `io`: PCIe, and but for the profile `kempnerpulse` the chip-to-chip link."""
    lows, highs = [PCIE_LOW], [PCIE_HIGH]
    if settings.workload.profile != "kempnerpulse":
        both = [input_of("c2c_transmit_bytes_per_second"), input_of("c2c_receive_bytes_per_second")]
        lows += both
        highs += both
        if settings.missing != "zero":
            yield _missing_c2c_traffic(*both)
            highs.append(C2C_HIGH)
    comment = "The largest direction of PCIe and the chip-to-chip link."
    for series, parts in ((low_of("io"), lows), (high_of("io"), highs)):
        yield Recording(series, f'max {identity.by} (\n  {{__name__=~"{"|".join(parts)}"}}\n)', comment)
        comment = ""


def _missing_c2c_traffic(sent: str, received: str) -> Recording:
    patterns = [link.pattern for link in C2C_LINKS]
    limits = [
        f"{number(link.memory_bytes_per_second)} * {high_of('dram')}"
        f" + {number(link.bytes_per_second)} * {high_of('graphics_engine')}"
        f" and {SEEN}{{{WHOLE}, {found(patterns, position)}}}"
        for position, link in enumerate(C2C_LINKS)
    ]
    return Recording(
        C2C_HIGH,
        "(\n" + indented("\nor ".join(limits)) + f"\n)\nunless ({sent} and {received})",
        "If a direction of a superchip's chip-to-chip link is missing: what its memory and graphics engine allow.",
    )
