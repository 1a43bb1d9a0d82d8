"""From `DCGM_FI_*` series to one recorded series per input, judged as Translate judges: blanks, ranges, units.

Every name that the field table has for a field is looked for; where several fields fill a quantity, the first that has
a value does. What differs from Translate stands in `LIMITS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pulsed.compute.derived_results import recorded_numbers
from pulsed.present.promql.rule_types import (
    INSTANCE,
    MODEL,
    SEEN,
    IdentityLabels,
    Recording,
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
)
"""Of whole GPUs only: below one, and in a vGPU guest, links do not exist."""

LINK_STATE = (
    "pcie_link_generation_max",
    "pcie_link_generation",
    "pcie_link_width_max",
    "pcie_link_width",
)
REST = ("sm_clock_hertz", "sm_clock_max_hertz", "memory_used_bytes", "power_watts", "energy_joules_total")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_DECLARED = (name for number in recorded_numbers() for name in _PLACEHOLDER.findall(number.promql))

QUANTITIES = tuple(dict.fromkeys((*ACTIVITY, *TRAFFIC, *LINK_STATE, *REST, *_DECLARED)))
"""The inputs of all rules."""

SIGNS_OF_LIFE = (*ACTIVITY, *TRAFFIC[:2], "memory_used_bytes", "temperature_celsius", "power_watts", "sm_clock_hertz")
"""A GPU with a series of any of these is there. Other fields come with rows of links and switches."""

WHOLE = f'{INSTANCE}="", {MODEL}!~".*{VGPU_TYPE}"'
"""Selects whole GPUs."""

LIMITS = (
    "A value of a MIG instance that is the board's (GPU_UTIL, PCIe, power) is left out; pulsed gives it to the board.",
    "Whether DCGM_FI_DEV_GPU_UTIL_RATIO is in percent is told by DCGM 4.7's other names on the same GPU, not by HELP.",
    "A vGPU guest is known by its product name only.",
    "A counter that is stuck at 0, or frozen, is believed; pulsed sees through it after a while.",
)
"""Where these inputs are not Translate's."""

BASE_UNITS = recorded("base_units", "group")


def input_of(quantity: str) -> str:
    """Name the recorded series of an input."""
    return recorded(quantity, "max")


def with_inputs(promql: str) -> str:
    """Return an expression with each `{quantity}` replaced by its recorded series."""
    return _PLACEHOLDER.sub(lambda found: input_of(found[1]), promql)


def input_rules(identity: IdentityLabels) -> Iterator[Recording]:
    """Give the rules that record the inputs."""
    signs = [name for quantity in SIGNS_OF_LIFE for name in _names(quantity)]
    yield Recording(SEEN, _any_of(identity, signs), "Every GPU and MIG instance: 1 wherever any of these is there.")
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


def _names(quantity: str) -> list[str]:
    return [name for field in sources(quantity) for name in field.names]


def _any_of(identity: IdentityLabels, names: Sequence[str]) -> str:
    alternatives = "|".join(dict.fromkeys(names))
    return f'group {identity.by} (\n  {{__name__=~"{alternatives}"}}\n)'


def _field(field: DcgmField, identity: IdentityLabels, link: bool) -> str:
    """Give a field's value in base units."""
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
    """Select the values of a series that are numbers: in range, and none of DCGM's blanks."""
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
    # Traffic, bytes and energy pass DCGM's blanks of 32 bits, which only then are told by being equal.
    first, last = min(INT32_BLANKS), max(INT32_BLANKS)
    return [f"{name}{where}{least} < {number(first)}", f"{name}{where} > {number(last)}{limit}"]


def _ambiguous(identity: IdentityLabels, where: str) -> str:
    """Tell percent from ratios: by DCGM's other names, else by the value; only 1 alone cannot be told then."""
    value = f"{AMBIGUOUS_NAME}{where} >= 0"
    ratio = f"max {identity.by} ({value} <= {number(WHOLE_EXCESS)})"
    percent = f"max {identity.by} ({value} <= 100)"
    return (
        f"clamp_max({ratio} and {BASE_UNITS}, 1)\n"
        f"or ({ratio} < 1 unless {BASE_UNITS})\n"
        f"or ({percent} > 1 unless {BASE_UNITS}) / 100"
    )
