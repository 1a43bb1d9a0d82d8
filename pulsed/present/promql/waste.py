"""Idle GPUs that are held, and power by class, as recording rules.

Averages over time replace pulsed's counters of idle time and joules: `avg_over_time(...[1d])` of a share is its mean,
and of a power, times 86400, the joules of a day.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.compute.settings import ComputeSettings
from pulsed.model.counters import IDLE_KINDS
from pulsed.present.promql.classes import CLASS
from pulsed.present.promql.inputs import input_of, names_of
from pulsed.present.promql.rule_types import NOTHING, IdentityLabels, Recording, number, recorded

HELD = recorded("held", "group")
IDLE = recorded("idle", "raw")
IDLE_POWER = recorded("idle_power_watts", "raw")
CLASS_POWER = recorded("class_power_watts", "raw")

USERS = ("pod", "pod_name", "exported_pod", "exported_pod_name", "hpc_job", "exported_hpc_job")
"""Labels with the users of a GPU. Prometheus may set them to the exporter's own pod, which does not count."""

EXPORTERS_OWN = ".*dcgm-exporter.*"

TELLING = ("memory_used_bytes", "temperature_celsius", "graphics_engine_active_ratio")
"""Quantities whose rows are searched for users: each row of a GPU has them."""


def waste_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield the rules for idle GPUs and for power by class."""
    used, power = input_of("memory_used_bytes"), input_of("power_watts")
    names = "|".join(name for quantity in TELLING for name in names_of(quantity))
    users = [f'{{__name__=~"{names}", {label}!="", {label}!~"{EXPORTERS_OWN}"}}' for label in USERS]
    yield Recording(
        HELD,
        f"group {identity.by} (\n  " + "\n  or ".join(users) + f"\n)\n"
        f"or group {identity.by} ({used} >= {number(settings.held_memory_bytes)})",
        "GPUs with a pod or job, or with memory in use.",
    )
    idle = f'sum {identity.by} ({CLASS}{{class="idle"}}) == 1'
    kinds = {
        "held": f"({idle} and {HELD})",
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
