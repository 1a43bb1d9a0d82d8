"""PCIe, NVLink and the fabric."""

from __future__ import annotations

from dataclasses import replace
from operator import eq, gt

from pulsed.compute.health.check import check
from pulsed.compute.health.counter_increase import Increase, step
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
    "pcie_replays_over_limit",
    {"warn": 1.000001},
    "times the replays that the specified bit error rate explains for the link's best generation and width",
    ("pcie_replays_total", "pcie_correctable_errors_total"),
    number="above {:g}",
    window=MINUTE,
    per=MINUTE,
    limit=pcie_replay_limit,
    limit_inputs=PCIE_LIMIT_INPUTS,
    enter=MINUTE,
    hold=10 * MINUTE,
)

_LOADED = (When("performance_state", eq, 0), When(ACTIVITY, gt, 0))
"""An idle link has a lower generation, and on some boards fewer lanes."""

CHECKS = (
    check(
        "pcie_replay",
        "Too many PCIe replays",
        _REPLAYS,
        replace(
            _REPLAYS,
            name="pcie_replays_long_over_limit",
            levels={"crit": 10.000001},
            text="times as many",
            window=5 * MINUTE,
        ),
        remedy="Too many PCIe replays: reseat the board or riser and check the slot.",
        source="PCIe's bit error rate of 1e-12, as in DCGM's PCIe watch",
    ),
    check(
        "pcie_link",
        "The PCIe link is narrower or slower than it can be",
        Level(
            "pcie_width_ratio",
            {"warn": 0.999, "crit": 0.499},
            "of the device's lanes in P0 and while active",
            ("pcie_link_width", "pcie_link_width_max"),
            number="below {:.0%}",
            by=pcie_width_ratio,
            below=True,
            when=_LOADED,
            enter=MINUTE,
        ),
        Level(
            "pcie_generation_ratio",
            {"warn": 0.999},
            "of the device's PCIe generation in P0 and while active",
            ("pcie_link_generation", "pcie_link_generation_max"),
            number="below {:.0%}",
            by=ratio,
            below=True,
            when=_LOADED,
            enter=MINUTE,
        ),
        remedy="The GPU runs on a narrower or slower PCIe link than it can: reseat it and check the slot and BIOS.",
        source="the device's own maximum; links idle at a lower generation",
    ),
    check(
        "nvlink_errors",
        "NVLink errors",
        Increase(
            "nvlink_crc_errors_per_minute",
            {"warn": 1, "crit": 6000},
            "CRC errors",
            ("nvlink_crc_errors_total", "nvlink_crc_flit_errors_total", "nvlink_crc_data_errors_total"),
            window=MINUTE,
            per=MINUTE,
            hold=10 * MINUTE,
        ),
        step("nvlink_replay_errors_total", "warn", "replays", 10 * MINUTE),
        step("nvlink_recovery_errors_total", "warn", "recoveries", 10 * MINUTE),
        step("nvlink_receive_errors_total", "warn", "receive errors", 10 * MINUTE),
        step("nvlink_link_recoveries_total", "warn", "link recoveries", 10 * MINUTE),
        step("nvlink_link_recoveries_failed_total", "crit", "failed link recoveries", 10 * MINUTE),
        Level(
            "nvlink_effective_bit_error_ratio",
            {"warn": 1.000001e-12, "crit": 1.000001e-6},
            "effective bit errors per bit",
            number="above {:g}",
            hold=10 * MINUTE,
        ),
        remedy="NVLink errors: check cables or bridge; a failed recovery needs a GPU reset.",
        source="DCGM's NVLink watches",
    ),
    check(
        "fabric_link",
        "The NVLink fabric is not usable",
        Codes("fabric_manager_status", text="fabric manager status", codes={"crit": (1, 4, 5, 6)}, enter=MINUTE),
        Codes("fabric_manager_status", text="fabric manager status", codes={"warn": (2,)}, enter=5 * MINUTE),
        Level(
            "fabric_health_mask",
            {"crit": 1},
            "faults in the fabric's health mask",
            by=faults(((0, 2, 1, 1), (2, 2, 1, 1), (4, 2, 1, 1), (6, 2, 1, 1), (8, 4, 2, 15))),
            enter=MINUTE,
        ),
        Codes("fabric_health_summary", text="fabric health summary", codes={"crit": (2,), "warn": (3,)}, enter=MINUTE),
        remedy="A link or fabric partition is not usable: restart the fabric manager, then reset the GPUs on it.",
        source="NVML's fabric information, DCGM's fabric watch",
    ),
)
