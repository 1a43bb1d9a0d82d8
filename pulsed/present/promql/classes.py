"""Workload class and bottleneck as recording rules: the possible classes, and the class if only one is possible.

A class is possible if a box of its region (see `regions`) intersects the bounds of the inputs: in each variable the
lower bound is below the box's end and the upper bound is not below its start.

From the class follow idle GPUs that are held, and power by class. Averages over time replace pulsed's counters of idle
time and joules: `avg_over_time(...[1d])` of a share is its mean, and of a power, times 86400, the joules of a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsed.compute.class_table import BOTTLENECKS, RULES, VARIABLES, Variable
from pulsed.compute.settings import ComputeSettings
from pulsed.model.counters import IDLE_KINDS
from pulsed.model.vocabulary import CLASSES, UNKNOWN
from pulsed.present.promql.inputs import MEDIA_ACTIVE, input_of, names_of
from pulsed.present.promql.regions import EVERYTHING, Box, Interval, Order, Region, Regions
from pulsed.present.promql.rule_types import NOTHING, IdentityLabels, Recording, indented, number, recorded
from pulsed.present.promql.utilization import QUANTITY_OF, high_of, low_of

POSSIBLE = recorded("workload_class", "possible")
COUNT = recorded("workload_class", "count")
CLASS = recorded("workload_class", "raw")
BOTTLENECK = recorded("bottleneck", "raw")
CONTRADICTED = recorded("physics", "contradicted")
HELD = recorded("held", "group")
OTHER_WORK = recorded("other_work", "group")
IDLE = recorded("idle", "raw")
IDLE_POWER = recorded("idle_power_watts", "raw")
CLASS_POWER = recorded("class_power_watts", "raw")

USERS = ("pod", "pod_name", "exported_pod", "exported_pod_name", "hpc_job", "exported_hpc_job")
"""Labels with the users of a GPU. Prometheus may set them to the exporter's own pod, which does not count."""

EXPORTERS_OWN = ".*dcgm-exporter.*"

TELLING = ("memory_used_bytes", "temperature_celsius", "graphics_engine_active_ratio")
"""Quantities whose rows are searched for users: each row of a GPU has them."""


def class_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for the class, its candidates and the bottleneck."""
    regions = Regions(settings.workload.thresholds, settings.workload.profile)
    noise = {
        order for region in regions.of.values() for _, chains in region.noise for chain in chains for order in chain
    }
    for order in sorted(noise):
        yield _contradicted(regions, order, identity)
    for name in CLASSES:
        yield Recording(
            POSSIBLE,
            f"group {identity.by} (\n{indented(_possible(regions.of[name], identity))}\n)",
            f"1 if {name} is possible, else absent.",
            {"class": name},
        )
    yield Recording(COUNT, f"count {identity.by} ({POSSIBLE})", "Number of possible classes.")
    comment = "The class of the current evaluation: 1 for that class, 0 for all others."
    for name in CLASSES:
        settled = f'{COUNT} == 1 and ignoring (class) {POSSIBLE}{{class="{name}"}}'
        yield Recording(CLASS, f"{settled}\nor 0 * {COUNT}", comment, {"class": name})
        comment = ""
    yield Recording(CLASS, f"{COUNT} > bool 1", labels={"class": UNKNOWN})
    comment = "The bottleneck, known if all possible classes share it."
    for bottleneck in BOTTLENECKS:
        classes = "|".join(dict.fromkeys(rule.name for rule in RULES if rule.bottleneck == bottleneck))
        those = f'count {identity.by} ({POSSIBLE}{{class=~"{classes}"}})'
        yield Recording(BOTTLENECK, f"{those} == bool {COUNT}\nor 0 * {COUNT}", comment, {"bottleneck": bottleneck})
        comment = ""
    known = f'sum {identity.by} ({BOTTLENECK}{{bottleneck!="{UNKNOWN}"}})'
    yield Recording(BOTTLENECK, f"1 - {known}", labels={"bottleneck": UNKNOWN})


def _contradicted(regions: Regions, order: Order, identity: IdentityLabels) -> Recording:
    """Return the rule for readings that contradict an order, which then does not apply."""
    lesser, greater = order
    cases = [
        f"{bound(lesser)} >= {number(at_least)} and {bound(greater)} < {number(below)}"
        for at_least, below in regions.contradictions(order)
        for bound in (low_of, high_of)
    ]
    return Recording(
        CONTRADICTED,
        f"group {identity.by} (\n{indented(_any(cases))}\n)",
        f"Noise: {QUANTITY_OF[lesser]} is above {QUANTITY_OF[greater]} by more than a threshold.",
        {"lesser": QUANTITY_OF[lesser], "greater": QUANTITY_OF[greater]},
    )


def _any(parts: Sequence[str]) -> str:
    return "\nor ".join(parts)


def _all(parts: Sequence[str]) -> str:
    return "\nand ".join(parts)


def _possible(region: Region, identity: IdentityLabels) -> str:
    """Return the condition that a box intersects the bounds; boxes that differ in one side are combined."""
    alternatives = [_all(_sides(common, several)) for common, several in _factored(region.boxes)]
    for box, chains in region.noise:
        flags = [_any([_flag(order, identity) for order in chain]) for chain in chains]
        alternatives.append(_all([*_sides(box, ()), *(f"({flag})" for flag in flags)]))
    if len(alternatives) == 1:
        return alternatives[0]
    # `and` has precedence over `or`.
    return "\nor\n".join(alternatives) if alternatives else "vector(0) > 0"


def _flag(order: Order, identity: IdentityLabels) -> str:
    lesser, greater = (QUANTITY_OF[variable] for variable in order)
    return f'group {identity.by} ({CONTRADICTED}{{lesser="{lesser}", greater="{greater}"}})'


def _factored(boxes: Sequence[Box]) -> list[tuple[Box, tuple[tuple[Variable, Interval], ...]]]:
    """Return pairs of the common part of boxes and the sides in which they differ."""
    groups: list[tuple[Box, tuple[tuple[Variable, Interval], ...]]] = []
    left = list(boxes)
    while left:
        best: tuple[Box, list[Box]] = (left[0], [left[0]])
        for box in left:
            for variable in box.sides:
                common = Box({name: side for name, side in box.sides.items() if name != variable})
                alike = [each for each in left if _has_one_side_more(each, common)]
                if len(alike) > len(best[1]):
                    best = common, alike
        common, alike = best
        extra = [(name, side) for box in alike for name, side in box.sides.items() if common.side(name) != side]
        groups.append((common, tuple(extra)))
        left = [box for box in left if box not in alike]
    return groups


def _has_one_side_more(box: Box, common: Box) -> bool:
    return len(box.sides) == len(common.sides) + 1 and common.sides.items() <= box.sides.items()


def _sides(box: Box, either: Sequence[tuple[Variable, Interval]]) -> list[str]:
    """Return the conditions of a box, with the disjunction of further sides."""
    conditions = [_meets(variable, box.side(variable)) for variable in VARIABLES if box.side(variable) != EVERYTHING]
    if either:
        conditions.append(f"(\n{indented(_any([_meets(*side) for side in either]))}\n)")
    return conditions or [_meets(VARIABLES[0], Interval(start=0.0))]


def _meets(variable: Variable, side: Interval) -> str:
    parts = []
    if side.start > EVERYTHING.start:
        parts.append(f"{high_of(variable)} >= {number(side.start)}")
    if side.end < EVERYTHING.end:
        parts.append(f"{low_of(variable)} < {number(side.end)}")
    return " and ".join(parts)


def waste_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for idle GPUs and for power by class."""
    used, power = input_of("memory_used_bytes"), input_of("power_watts")
    names = "|".join(name for quantity in TELLING for name in names_of(quantity))
    users = [f'{{__name__=~"{names}", {label}!="", {label}!~"{EXPORTERS_OWN}"}}' for label in USERS]
    yield Recording(
        HELD,
        f"group {identity.by} (\n  " + "\n  or ".join(users) + f"\n)\n"
        f"or group {identity.by} ({used} >= {number(settings.idle.held_memory)})",
        "GPUs with a pod or job, or with memory in use.",
    )
    noise = settings.workload.thresholds.io_bytes_per_second
    nvlink = {f"nvlink_{each}_bytes_per_second": noise for each in ("transmit", "receive")}
    nvlink["nvlink_bandwidth_bytes_per_second"] = 2 * noise
    engines = [f"{input_of(name)} >= {number(limit)}" for name, limit in nvlink.items()]
    engines.append(f"{MEDIA_ACTIVE} >= {number(settings.workload.thresholds.idle_media_ratio)}")
    yield Recording(
        OTHER_WORK,
        f"group {identity.by} (\n  " + "\n  or ".join(engines) + "\n)",
        "GPUs whose NVLinks or media engines work: they are used, whatever the class is.",
    )
    idle = f'sum {identity.by} ({CLASS}{{class="idle"}}) == 1 unless {OTHER_WORK}'
    kinds = {
        "held": f"(({idle}) and {HELD})",
        "free": f"({idle} and {used} unless {HELD})",
        "unknown": f"({idle} unless {used} unless {HELD})",
    }
    comment = "Idle GPUs: held, free, or unknown without a memory reading."
    for kind in IDLE_KINDS:
        yield Recording(IDLE, f"{kinds[kind]}\nor {NOTHING}", comment, {"kind": kind})
        comment = ""
    yield Recording(IDLE_POWER, f"{IDLE} * ignoring (kind) group_left () {power}", "Power of idle GPUs.")
    yield Recording(
        CLASS_POWER,
        f"({CLASS} == 1) * ignoring (class) group_left () {power}",
        "Power by current class: one series per GPU at a time.",
    )
