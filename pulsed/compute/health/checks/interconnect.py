"""PCIe, NVLink and the fabric."""

from __future__ import annotations

from dataclasses import replace

from pulsed.compute.health.check import Check
from pulsed.compute.health.checks._builders import step
from pulsed.compute.health.counter_increase import Increase
from pulsed.compute.health.inputs import ACTIVITY
from pulsed.compute.health.level import (
    PCIE_LIMIT_INPUTS,
    Codes,
    Level,
    faults,
    pcie_replay_limit,
    pcie_width_ratio,
    ratio,
)
from pulsed.compute.health.rule import MINUTE, When

_REPLAYS = Increase(
    name="pcie_replays_over_limit",
    inputs=("pcie_replays_total", "pcie_correctable_errors_total"),
    levels=(("warn", 1.000001),),
    number="above {:g}",
    text="times the replays per minute that the specified bit error rate explains for the link's best generation and "
    "width",
    window=MINUTE,
    per=MINUTE,
    limit=pcie_replay_limit,
    limit_inputs=PCIE_LIMIT_INPUTS,
    enter=MINUTE,
    hold=10 * MINUTE,
)

_FABRIC_MANAGER = Codes(
    name="fabric_manager_status",
    inputs=("fabric_manager_status",),
    codes=(("crit", (1, 4, 5, 6)),),
    text="fabric manager status",
    enter=MINUTE,
)

CHECKS: tuple[Check, ...] = (
    Check(
        id="pcie_replay",
        title="Too many PCIe replays",
        rules=(
            _REPLAYS,
            replace(
                _REPLAYS,
                name="pcie_replays_long_over_limit",
                levels=(("crit", 10.000001),),
                text="times as many over 5 min",
                window=5 * MINUTE,
            ),
        ),
        remedy="Too many PCIe replays: reseat the board or riser and check the slot.",
        source="PCIe's bit error rate of 1e-12, as in DCGM's PCIe watch",
    ),
    Check(
        id="pcie_link",
        title="The PCIe link is narrower or slower than it can be",
        rules=(
            Level(
                name="pcie_width_ratio",
                inputs=("pcie_link_width", "pcie_link_width_max"),
                levels=(("warn", 0.999), ("crit", 0.499)),
                number="below {:.0%}",
                text="of the device's lanes",
                by=pcie_width_ratio,
                below=True,
                enter=MINUTE,
            ),
            Level(
                name="pcie_generation_ratio",
                inputs=("pcie_link_generation", "pcie_link_generation_max"),
                levels=(("warn", 0.999),),
                number="below {:.0%}",
                text="of the device's PCIe generation in P0 and while active",
                by=ratio,
                below=True,
                when=(When("performance_state", "==", 0.0), When(ACTIVITY, ">", 0.0)),
                enter=MINUTE,
            ),
        ),
        remedy="The GPU runs on a narrower or slower PCIe link than it can: reseat it and check the slot and BIOS.",
        source="the device's own maximum; links idle at a lower generation",
    ),
    Check(
        id="nvlink_errors",
        title="NVLink errors",
        rules=(
            Increase(
                name="nvlink_crc_errors_per_minute",
                inputs=("nvlink_crc_errors_total", "nvlink_crc_flit_errors_total", "nvlink_crc_data_errors_total"),
                levels=(("warn", 1.0), ("crit", 6000.0)),
                text="CRC errors per minute",
                window=MINUTE,
                per=MINUTE,
                hold=10 * MINUTE,
            ),
            step("nvlink_replay_errors_total", "warn", 10 * MINUTE, "replays"),
            step("nvlink_recovery_errors_total", "warn", 10 * MINUTE, "recoveries"),
            step("nvlink_receive_errors_total", "warn", 10 * MINUTE, "receive errors"),
            step("nvlink_link_recoveries_total", "warn", 10 * MINUTE, "link recoveries"),
            step("nvlink_link_recoveries_failed_total", "crit", 10 * MINUTE, "failed link recoveries"),
            Level(
                name="nvlink_effective_bit_error_ratio",
                inputs=("nvlink_effective_bit_error_ratio",),
                levels=(("warn", 1.000001e-12), ("crit", 1.000001e-6)),
                number="above {:g}",
                text="effective bit errors per bit",
                hold=10 * MINUTE,
            ),
        ),
        remedy="NVLink errors: check cables or bridge; a failed recovery needs a GPU reset.",
        source="DCGM's NVLink watches",
    ),
    Check(
        id="fabric_link",
        title="The NVLink fabric is not usable",
        rules=(
            _FABRIC_MANAGER,
            replace(_FABRIC_MANAGER, codes=(("warn", (2,)),), text="fabric manager status", enter=5 * MINUTE),
            Level(
                name="fabric_health_mask",
                inputs=("fabric_health_mask",),
                levels=(("crit", 1.0),),
                text="faults in the fabric's health mask",
                by=faults(((0, 2, 1, 1), (2, 2, 1, 1), (4, 2, 1, 1), (6, 2, 1, 1), (8, 4, 2, 15))),
                enter=MINUTE,
            ),
            Codes(
                name="fabric_health_summary",
                inputs=("fabric_health_summary",),
                codes=(("crit", (2,)), ("warn", (3,))),
                text="fabric health summary",
                enter=MINUTE,
            ),
        ),
        remedy="A link or fabric partition is not usable: restart the fabric manager, then reset the GPUs on it.",
        source="NVML's fabric information, DCGM's fabric watch",
    ),
)
