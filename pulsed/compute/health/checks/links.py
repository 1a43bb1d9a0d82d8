"""PCIe, NVLink and the fabric."""

from __future__ import annotations

from pulsed.compute.health.checks.shorthand import MINUTE, step
from pulsed.compute.health.rule import ACTIVITY, Check, Codes, Comparison, Growth, Level, Mask, When

CHECKS: tuple[Check, ...] = (
    Check(
        id="pcie_replay",
        title="Too many PCIe replays",
        rule="warn when there are more per minute than the specified bit error rate explains for the link's best "
        "generation and width, for 60 s; crit for more than 10 times as many over 5 min",
        rules=(
            Growth(
                name="pcie_replays_over_limit",
                inputs=("pcie_replays_total", "pcie_correctable_errors_total"),
                levels=(("warn", 1.000001),),
                window=MINUTE,
                per=MINUTE,
                pcie_limit=True,
                enter=MINUTE,
                hold=10 * MINUTE,
            ),
            Growth(
                name="pcie_replays_long_over_limit",
                inputs=("pcie_replays_total", "pcie_correctable_errors_total"),
                levels=(("crit", 10.000001),),
                window=5 * MINUTE,
                per=MINUTE,
                pcie_limit=True,
                enter=MINUTE,
                hold=10 * MINUTE,
            ),
        ),
        remedy="Too many PCIe replays: reseat the board or riser and check the slot.",
        source="PCIe's bit error rate of 1e-12, as in DCGM's PCIe watch",
    ),
    Check(
        id="pcie_link",
        title="The PCIe link is narrower or slower than it can be",
        rule="warn when fewer lanes are in use than the device can, crit when less than half; warn for a lower "
        "generation than it can only in P0 and at work; each for 60 s",
        rules=(
            Comparison(
                name="pcie_width_ratio",
                inputs=("pcie_link_width", "pcie_link_width_max"),
                levels=(("warn", 0.999), ("crit", 0.499)),
                below=True,
                share=True,
                enter=MINUTE,
            ),
            Comparison(
                name="pcie_generation_ratio",
                inputs=("pcie_link_generation", "pcie_link_generation_max"),
                levels=(("warn", 0.999),),
                below=True,
                share=True,
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
        rule="warn from one CRC error a minute on, crit from 100 a second; warn for each replay, recovery or receive "
        "error; crit for a failed recovery; warn above an effective bit error ratio of 1e-12, crit above 1e-6; for 10 "
        "min",
        rules=(
            Growth(
                name="nvlink_crc_errors_per_minute",
                inputs=("nvlink_crc_errors_total", "nvlink_crc_flit_errors_total", "nvlink_crc_data_errors_total"),
                levels=(("warn", 1.0), ("crit", 6000.0)),
                window=MINUTE,
                per=MINUTE,
                hold=10 * MINUTE,
            ),
            step("nvlink_replay_errors_total", "warn", 10 * MINUTE),
            step("nvlink_recovery_errors_total", "warn", 10 * MINUTE),
            step("nvlink_receive_errors_total", "warn", 10 * MINUTE),
            step("nvlink_link_recoveries_total", "warn", 10 * MINUTE),
            step("nvlink_link_recoveries_failed_total", "crit", 10 * MINUTE),
            Level(
                name="nvlink_effective_bit_error_ratio",
                inputs=("nvlink_effective_bit_error_ratio",),
                levels=(("warn", 1.000001e-12), ("crit", 1.000001e-6)),
                hold=10 * MINUTE,
            ),
        ),
        remedy="NVLink errors: check cables or bridge; a failed recovery needs a GPU reset.",
        source="DCGM's NVLink watches",
    ),
    Check(
        id="fabric_link",
        title="The NVLink fabric is not usable",
        rule="crit when the fabric manager failed (1, 4, 5, 6), warn when it is in progress for 5 min; crit for a "
        "fault in the fabric's health mask or an unhealthy summary, warn for a limited one; each for 60 s",
        rules=(
            Codes(
                name="fabric_manager_status",
                inputs=("fabric_manager_status",),
                levels=(),
                codes=((1, "crit"), (4, "crit"), (5, "crit"), (6, "crit")),
                enter=MINUTE,
            ),
            Codes(
                name="fabric_manager_status",
                inputs=("fabric_manager_status",),
                levels=(),
                codes=((2, "warn"),),
                enter=5 * MINUTE,
            ),
            Mask(
                name="fabric_health_mask",
                inputs=("fabric_health_mask",),
                levels=(("crit", 1.0),),
                faults=((0, 2, 1, 1), (2, 2, 1, 1), (4, 2, 1, 1), (6, 2, 1, 1), (8, 4, 2, 15)),
                enter=MINUTE,
            ),
            Codes(
                name="fabric_health_summary",
                inputs=("fabric_health_summary",),
                levels=(),
                codes=((2, "crit"), (3, "warn")),
                enter=MINUTE,
            ),
        ),
        remedy="A link or fabric partition is not usable: restart the fabric manager, then reset the GPUs on it.",
        source="NVML's fabric information, DCGM's fabric watch",
    ),
)
