"""Saturation as recording rules: activity over practical peak, by the tables of `pulsed.compute.peaks`.

The label `modelName` has the product. A pattern of an architecture or a link applies only if no earlier one matches,
which the selections repeat so that they do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pulsed.compute.peaks import LINKS, PCIE_EFFICIENCY, PCIE_LANE_BYTES_PER_SECOND, PCIE_MAX_LANES, RESOURCES, Peaks
from pulsed.compute.products import ARCHITECTURES, C2C_LINKS, DEFAULT, NVLINKS
from pulsed.compute.saturation import NONE, UNKNOWN
from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.inputs import WHOLE, input_of
from pulsed.present.promql.rule_types import NOTHING, SEEN, IdentityLabels, Recording, found, indented, number, recorded
from pulsed.present.promql.utilization import high_of

SATURATION = recorded("saturation_ratio", "max")
LOWER, UPPER = recorded("saturation_ratio", "low"), recorded("saturation_ratio", "high")
RESOURCE = recorded("resource_saturation_ratio", "raw")
MISSING = recorded("resource_saturation_ratio", "high")
LIMITING = recorded("limiting_resource", "raw")
PCIE_PEAK = recorded("pcie_peak_bytes_per_second", "max")
NVLINK_PEAK = recorded("nvlink_peak_bytes_per_second", "max")
C2C_PEAK = recorded("c2c_peak_bytes_per_second", "max")

PIPES = tuple(resource for resource in RESOURCES if resource not in LINKS and resource != "dram")


def saturation_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for the resources, the saturation with its bounds, and the limiting resource."""
    peaks = settings.saturation.practical_peaks()
    for resource in (*PIPES, "dram"):
        activity = input_of(f"{resource}_active_ratio")
        peak = _ratio(peaks, [resource])
        yield Recording(RESOURCE, f"clamp_max({activity} / {peak}, 1)", labels={"resource": resource})
    yield from _pcie(peaks)
    yield from _nvlink(peaks)
    yield from _c2c(peaks)
    yield from _missing(peaks, identity)
    yield from _whole(identity)
    yield from _limiting(identity)


_PATTERNS = [architecture.pattern for architecture in ARCHITECTURES]
_LINK_PATTERNS = [row.pattern for row in NVLINKS]
_C2C_PATTERNS = [row.pattern for row in C2C_LINKS]


def _by_architecture(values: Mapping[str, float | None], selected: str = "") -> list[str]:
    """Return the values that differ from the default, by architecture, then the default."""
    default = values[DEFAULT]
    parts = [
        f"{number(value)} * {SEEN}{{{selected}{found(_PATTERNS, position)}}}"
        for position, architecture in enumerate(ARCHITECTURES)
        if (value := values[architecture.name]) is not None and value != default
    ]
    if default is not None:
        parts.append(
            f"{number(default)} * {SEEN}{{{selected.removesuffix(', ')}}}"
            if selected
            else f"{number(default)} * {SEEN}"
        )
    return parts


def _ratio(peaks: Mapping[str, Peaks], resources: Sequence[str]) -> str:
    """Return the smallest practical peak of some resources: a number if it is the same for all architectures."""
    values = {name: min(getattr(row, each) for each in resources) for name, row in peaks.items()}
    if len(set(values.values())) == 1:
        return number(values[DEFAULT])
    return f"(\n{indented(_or(_by_architecture(values)))}\n)"


def _or(parts: Sequence[str]) -> str:
    return "\nor ".join(parts)


def _link(sent: str, received: str, peak: str, between: Sequence[str] = (), one_way: str = "") -> str:
    """Return the larger direction over the peak: 0 needs no peak, and a full direction not the other one."""
    larger = f"({sent} > {received} or {received} and {sent})"
    single = f"{sent} >= {peak} or {received} >= {peak}" + (f" or {one_way} >= {peak}" if one_way else "")
    return _or([f"clamp_max({larger} / {peak}, 1)", f"{larger} == 0", *between, f"clamp_max(({single}) / {peak}, 1)"])


def _pcie(peaks: Mapping[str, Peaks]) -> Iterator[Recording]:
    generation = f"({input_of('pcie_link_generation_max')} or {input_of('pcie_link_generation')})"
    width = f"({input_of('pcie_link_width_max')} or {input_of('pcie_link_width')})"
    lanes = [
        f"({generation} == {number(each)}) * 0 + {number(lane)}" for each, lane in PCIE_LANE_BYTES_PER_SECOND.items()
    ]
    trained = f"(\n{indented(_or(lanes))}\n) * ({width} <= {PCIE_MAX_LANES}) * {number(PCIE_EFFICIENCY)}"
    fixed = _by_architecture({name: row.pcie for name, row in peaks.items()}, WHOLE + ", ")
    yield Recording(
        PCIE_PEAK,
        "\nor\n".join([*fixed, trained]),
        "Practical peak of the best PCIe link, in bytes/s per direction: lane rate, lanes, efficiency.",
    )
    sent, received = (input_of(f"pcie_{way}_bytes_per_second") for way in ("transmit", "receive"))
    yield Recording(RESOURCE, _link(sent, received, PCIE_PEAK), labels={"resource": "pcie"})


def _nvlink(peaks: Mapping[str, Peaks]) -> Iterator[Recording]:
    fixed = _by_architecture({name: row.nvlink for name, row in peaks.items()}, WHOLE + ", ")
    known = [
        f"{number(row.peak)} * {SEEN}{{{found(_LINK_PATTERNS, position)}}}"
        for position, row in enumerate(NVLINKS)
        if row.links
    ]
    yield Recording(
        NVLINK_PEAK,
        _or([*fixed, *known]),
        "Practical peak of all NVLinks of a product, in bytes/s per direction. Unknown if they are optional.",
    )
    sent, received, both = (
        input_of(f"nvlink_{each}_bytes_per_second") for each in ("transmit", "receive", "bandwidth")
    )
    share = _link(
        sent,
        received,
        NVLINK_PEAK,
        [f"({both} == 0 unless ({sent} and {received}))"],
        f"({both} / 2 unless {sent} unless {received})",
    )
    yield Recording(RESOURCE, f"(\n{indented(share)}\n)\n{_unless_without()}", labels={"resource": "nvlink"})


def _c2c(peaks: Mapping[str, Peaks]) -> Iterator[Recording]:
    fixed = _by_architecture({name: row.c2c for name, row in peaks.items()}, WHOLE + ", ")
    known = [
        f"{number(row.peak)} * {SEEN}{{{WHOLE}, {found(_C2C_PATTERNS, position)}}}"
        for position, row in enumerate(C2C_LINKS)
        if row.peak is not None
    ]
    yield Recording(
        C2C_PEAK,
        _or([*fixed, *known]),
        "Practical peak of the chip-to-chip link of a superchip, in bytes/s per direction.",
    )
    sent, received = (input_of(f"c2c_{way}_bytes_per_second") for way in ("transmit", "receive"))
    yield Recording(RESOURCE, _link(sent, received, C2C_PEAK), labels={"resource": "c2c"})


def _superchips() -> str:
    """Return the GPUs with a chip-to-chip link, by their names or counters."""
    counted = (f"0 * {input_of(f'c2c_{way}_bytes_per_second')} + 1" for way in ("transmit", "receive"))
    named = (f"{SEEN}{{{WHOLE}, {found(_C2C_PATTERNS, position)}}}" for position in range(len(C2C_LINKS)))
    return _or([*named, *counted])


def _unless_without() -> str:
    """Return the exclusion of products without NVLink."""
    without = [position for position, row in enumerate(NVLINKS) if not row.links]
    return "\n".join(f"unless {SEEN}{{{found(_LINK_PATTERNS, position)}}}" for position in without)


def _missing(peaks: Mapping[str, Peaks], identity: IdentityLabels) -> Iterator[Recording]:
    def known(resources: Sequence[str]) -> str:
        return f'max {identity.by} ({RESOURCE}{{resource=~"{"|".join(resources)}"}})'

    pipes = "|".join(PIPES)
    all_pipes = f'count {identity.by} ({RESOURCE}{{resource=~"{pipes}"}}) == {len(PIPES)}'
    limits = {
        "compute": f"clamp_max({high_of('sm')} / {_ratio(peaks, PIPES)}, 1)\nunless {all_pipes}",
        "dram": f"clamp_max({high_of('dram')} / {_ratio(peaks, ['dram'])}, 1)\nunless {known(['dram'])}",
        "pcie": f"{SEEN}{{{WHOLE}}}\nunless {known(['pcie'])}",
        "nvlink": f"{SEEN}{{{WHOLE}}}\nunless {known(['nvlink'])}\n{_unless_without()}",
        "c2c": f"(\n{indented(_superchips())}\n)\nunless {known(['c2c'])}",
    }
    comment = "Upper bounds of missing resources; compute is any of the pipes."
    for resource, expr in limits.items():
        yield Recording(MISSING, expr, comment, {"resource": resource})
        comment = ""


def _whole(identity: IdentityLabels) -> Iterator[Recording]:
    largest = f"max {identity.by} ({RESOURCE})"
    compute = f'max {identity.by} ({RESOURCE}{{resource=~"{"|".join(PIPES)}"}})'
    memory = f'max {identity.by} ({RESOURCE}{{resource="dram"}})'
    yield Recording(LOWER, f"{largest} or {NOTHING}", "At least the largest of the known resources.")
    yield Recording(UPPER, f'max {identity.by} ({{__name__=~"{RESOURCE}|{MISSING}"}}) or {LOWER}')
    yield Recording(
        SATURATION,
        f"{largest}\nand (\n  {compute} and {memory}\n  or {UPPER} <= {LOWER}\n)",
        "The saturation: the largest, if memory and a pipe are known, or no missing resource can be larger.",
    )


def _limiting(identity: IdentityLabels) -> Iterator[Recording]:
    comment = "The limiting resource, the first if several are: 1 for that one, 0 for all others."
    for position, resource in enumerate(RESOURCES):
        nearest = f'max {identity.by} ({RESOURCE}{{resource="{resource}"}}) == {SATURATION} > 0'
        if position:
            earlier = "|".join(RESOURCES[:position])
            nearest += f'\nunless max {identity.by} ({LIMITING}{{resource=~"{earlier}"}}) == 1'
        yield Recording(LIMITING, f"({nearest}) >= bool 0\nor {NOTHING}", comment, {"resource": resource})
        comment = ""
    yield Recording(
        LIMITING, f"({SATURATION} == 0 and {UPPER} == 0) == bool 0\nor {NOTHING}", labels={"resource": NONE}
    )
    known = f'sum {identity.by} ({LIMITING}{{resource!="{UNKNOWN}"}})'
    yield Recording(LIMITING, f"1 - {known}", labels={"resource": UNKNOWN})
