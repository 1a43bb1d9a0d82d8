"""The checks of a GPU's health: the one table behind results, documentation and alerts.

Sources: NVIDIA's memory error, XID and NVML documentation, DCGM 4.6's health module, and fleet practice where these
are silent. Inputs that are not in a `Reading` are in `pulsed.compute.health.inputs.FACTS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.compute.health.check import Check
from pulsed.compute.health.checks import availability, clocks, device_memory, interconnect, operation, temperature

CHECKS: tuple[Check, ...] = (
    *availability.CHECKS,
    *device_memory.CHECKS,
    *clocks.THERMAL,
    *temperature.CHECKS,
    *clocks.POWER,
    *interconnect.CHECKS,
    *operation.CHECKS,
)
"""All checks, in the order in which they are published."""

BY_ID: Mapping[str, Check] = {check.id: check for check in CHECKS}
"""By id."""
