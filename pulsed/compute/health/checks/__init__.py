"""The checks of a GPU's health: the one table that judgement, documentation and alerts come from.

Sources: NVIDIA's memory error, XID and NVML documentation, DCGM 4.6's health module, and fleet practice where
these are silent. Names that are no field of `Reading`: `sample_gap_intervals`, `inputs_blank_ratio`, `polls_missed`,
`gpu_activity_ratio`, `clock_event_*` (dcgm-exporter's counts), `xid_counts`, `health_watches`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.compute.health.checks import device_memory, links, liveness, setup, slowdown, xid
from pulsed.compute.health.rule import Check

CHECKS: tuple[Check, ...] = (
    *liveness.CHECKS,
    *xid.CHECKS,
    *device_memory.CHECKS,
    *slowdown.CHECKS,
    *links.CHECKS,
    *setup.CHECKS,
)
"""All of them, in the order in which they are published."""

BY_ID: Mapping[str, Check] = {check.id: check for check in CHECKS}
"""By id."""
