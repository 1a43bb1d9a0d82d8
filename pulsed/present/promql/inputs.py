"""One recorded series per input from `DCGM_FI_*` series, with Translate's rules for blanks, ranges and units.

All names of a field are used; if several fields provide a quantity, the first with a value is taken. `LIMITS` has the
differences from Translate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pulsed.compute.bounds import MEDIA, PROFILED_MEDIA
from pulsed.compute.derived_results import recorded_numbers
from pulsed.compute.products import TENSOR_PEAKS
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.tensor_throughput import RECORDED_CLOCK
from pulsed.present.promql.rule_types import (
    INSTANCE,
    MODEL,
    NOTHING,
    SEEN,
    IdentityLabels,
    Recording,
    found,
    indented,
    number,
    recorded,
)
from pulsed.translate.fields import AMBIGUOUS_NAME, FIELDS, FIRST_BASE_UNIT_ID, DcgmField, sources
from pulsed.translate.identity import VGPU_TYPE
from pulsed.translate.units import CERTAIN, INT32_BLANKS, INT64_BLANK, ROUNDING, SHARED_EXCESS, WHOLE_EXCESS, Unit

ACTIVITY = (
    "graphics_engine_active_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "fp64_active_ratio",
    "fp32_active_ratio",
    "fp16_active_ratio",
    "integer_active_ratio",
    "dram_active_ratio",
    "gpu_utilization_ratio",
    "memory_utilization_ratio",
)
TRAFFIC = (
    "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "nvlink_bandwidth_bytes_per_second",
    "c2c_transmit_bytes_per_second",
    "c2c_receive_bytes_per_second",
)
"""Whole GPUs only: MIG instances and vGPU guests have no links."""

LINK_STATE = (
    "pcie_link_generation_max",
    "pcie_link_generation",
    "pcie_link_width_max",
    "pcie_link_width",
)
REST = ("sm_clock_hertz", "sm_clock_max_hertz", "memory_used_bytes", "power_watts", "energy_joules_total")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_DECLARED = (name for number in recorded_numbers() for name in _PLACEHOLDER.findall(number.promql))

DRIVER_MEDIA = tuple(name for name in MEDIA if name not in PROFILED_MEDIA)

QUANTITIES = tuple(dict.fromkeys((*ACTIVITY, *DRIVER_MEDIA, *TRAFFIC, *LINK_STATE, *REST, *_DECLARED)))
"""The inputs of all rules."""

SIGNS_OF_LIFE = (*ACTIVITY, *TRAFFIC[:2], "memory_used_bytes", "temperature_celsius", "power_watts", "sm_clock_hertz")
"""A GPU is present if it has a series of any of these. Other fields have rows of links and switches as well."""

WHOLE = f'{INSTANCE}="", {MODEL}!~".*{VGPU_TYPE}"'
"""Selects whole GPUs."""

LIMITS = (
    "Board values on rows of a MIG instance (GPU_UTIL, PCIe, power) are ignored; pulsed assigns them to the board.",
    "The unit of DCGM_FI_DEV_GPU_UTIL_RATIO follows from DCGM 4.7's other names on the same GPU, not from HELP.",
    "A vGPU guest is recognized by its product name only.",
    "The activity of a board is not rolled up from its MIG instances.",
    "Fractions are taken to have six decimals, as dcgm-exporter prints them; fewer can hide PCIe traffic.",
    "Media engines of a board are not considered for its MIG instances, any of which may use them.",
    "Stuck and frozen counters are not detected; pulsed ignores them after a while.",
)
"""Differences from Translate."""

NEEDS_DAEMON = (
    "Health: an event, a reset, a restart of a source and a latched state follow from what was there before.",
    "Idle time by whether an owner has the GPU or its memory is leaked, stragglers, hangs, and accounts of owners.",
    "A GPU of two exporters: each has series of its own.",
    "A page that repeats old values.",
)
"""What no rule on plain series can express."""

BASE_UNITS = recorded("base_units", "group")
MEDIA_ACTIVE = recorded("media_active_ratio", "max")
_PROFILED = recorded("profiled_media_active_ratio", "max")


def input_of(quantity: str) -> str:
    """Return the recorded series of an input."""
    return recorded(quantity, "max")


def with_inputs(promql: str) -> str:
    """Return an expression with each `{quantity}` replaced by its recorded series."""
    return _PLACEHOLDER.sub(lambda found: input_of(found[1]), promql)


def input_rules(identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules that record the inputs."""
    signs = [name for quantity in SIGNS_OF_LIFE for name in names_of(quantity)]
    yield Recording(SEEN, _any_of(identity, signs), "Every GPU and MIG instance: 1 if it has any of these series.")
    base = [name for field in FIELDS if field.id >= FIRST_BASE_UNIT_ID for name in field.names]
    names = [name for name in base if name != AMBIGUOUS_NAME and "VGPU" not in name and "NVLINK" not in name]
    yield Recording(
        BASE_UNITS,
        _any_of(identity, names),
        f"GPUs of DCGM 4.7 and later, where {AMBIGUOUS_NAME} is a ratio; in 4.6 it is in percent.",
    )
    for quantity in QUANTITIES:
        parts = [_field(field, identity, quantity in TRAFFIC) for field in sources(quantity)]
        fields = ", else ".join(str(field) for field in sources(quantity))
        yield Recording(input_of(quantity), "\nor\n".join(parts), f"DCGM field {fields}.")
    yield from _media(identity)


def _media(identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for the busiest media engine; the fields of all profiled ones are alike."""
    names = "|".join(name for quantity in PROFILED_MEDIA for name in names_of(quantity))
    active = f'{{__name__=~"{names}", {INSTANCE}=""}} >= 0 <= {number(WHOLE_EXCESS)}'
    yield Recording(
        _PROFILED,
        f"clamp_max(\n  max {identity.by} (\n    {active}\n  ),\n  1\n)",
        "The busiest video decoder, JPEG decoder and optical flow engine, where DCGM profiles them.",
    )
    engines = "|".join((*map(input_of, DRIVER_MEDIA), _PROFILED))
    yield Recording(
        MEDIA_ACTIVE,
        f'max {identity.by} (\n  {{__name__=~"{engines}"}}\n)\nor {NOTHING}',
        "The busiest media engine of those that are measured.",
    )


def names_of(quantity: str) -> list[str]:
    """Return the metric names of the fields that provide a quantity."""
    return [name for field in sources(quantity) for name in field.names]


def _any_of(identity: IdentityLabels, names: Sequence[str]) -> str:
    alternatives = "|".join(dict.fromkeys(names))
    return f'group {identity.by} (\n  {{__name__=~"{alternatives}"}}\n)'


def _field(field: DcgmField, identity: IdentityLabels, link: bool) -> str:
    """Return the expression of a field in base units."""
    where = f"{{{WHOLE}}}" if link else f'{{{INSTANCE}=""}}' if field.level == "board" else ""
    if AMBIGUOUS_NAME in field.names:
        return _ambiguous(identity, where)
    unit = field.unit
    lines = [line for name in field.names for line in _credible(name, where, unit)]
    largest = f"max {identity.by} (\n" + indented("\nor ".join(lines)) + "\n)"
    if unit.share:
        largest = f"clamp_max(\n{indented(largest)},\n  {number(unit.divide)}\n)"
    if unit.multiply != 1:
        largest += f" * {number(unit.multiply)}"
    if unit.divide != 1:
        largest += f" / {number(unit.divide)}"
    return largest


def _credible(name: str, where: str, unit: Unit) -> list[str]:
    """Return the selections of a series' values in range, without DCGM's blanks."""
    least = " > 0" if unit.low > 0 else f" >= {number(unit.low)}"
    if unit.share:
        most = unit.divide * (ROUNDING if unit.type == "int64" else WHOLE_EXCESS)
        lines = [f"{name}{where}{least} <= {number(round(most, 9))}"]
        if unit.type == "double" and not where:
            lines.append(f'{name}{{{INSTANCE}!=""}}{least} <= {number(unit.divide * SHARED_EXCESS)}')
        return lines
    most = unit.high if unit.high < INT64_BLANK else INT64_BLANK
    limit = f" <= {number(most)}" if most == unit.high else f" < {number(most)}"
    if most <= CERTAIN:
        return [f"{name}{where}{least}{limit}"]
    # Traffic, bytes and energy exceed DCGM's blanks of 32 bits, which must be excluded by their values.
    first, last = min(INT32_BLANKS), max(INT32_BLANKS)
    return [f"{name}{where}{least} < {number(first)}", f"{name}{where} > {number(last)}{limit}"]


def _ambiguous(identity: IdentityLabels, where: str) -> str:
    """Return the ratio of a series that may be in percent, by DCGM's other names, else by its value; 1 is ambiguous."""
    value = f"{AMBIGUOUS_NAME}{where} >= 0"
    ratio = f"max {identity.by} ({value} <= {number(WHOLE_EXCESS)})"
    percent = f"max {identity.by} ({value} <= 100)"
    return (
        f"clamp_max({ratio} and {BASE_UNITS}, 1)\n"
        f"or ({ratio} < 1 unless {BASE_UNITS})\n"
        f"or ({percent} > 1 unless {BASE_UNITS}) / 100"
    )


def derived_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield one rule per derived number that declares its own PromQL."""
    clocks = (f"{number(row.clock_hertz)} * {SEEN}{{{found([row.pattern], 0)}}}" for row in TENSOR_PEAKS)
    yield Recording(RECORDED_CLOCK, "\nor ".join(clocks), "SM clock of the tensor peak of the product's data sheet.")
    for result in recorded_numbers():
        yield Recording(recorded(result.name, "raw"), with_inputs(result.promql), result.help + ".")
