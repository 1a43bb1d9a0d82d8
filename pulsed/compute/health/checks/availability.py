"""Whether the GPU and its readings are available, and the recovery that the driver requests."""

from __future__ import annotations

from pulsed.compute.health.check import Check
from pulsed.compute.health.level import Codes, Level
from pulsed.compute.health.rule import MINUTE
from pulsed.compute.health.xid_rule import XidRule

CHECKS: tuple[Check, ...] = (
    Check(
        id="gpu_lost",
        title="The GPU does not answer",
        rules=(
            Level(
                name="polls_missed",
                inputs=("polls_missed",),
                levels=(("crit", 2.0),),
                text="polls in a row without the GPU although its source delivers; until it answered for 60 s",
                release=MINUTE,
            ),
            XidRule(text="after XID 79", choose=79, keep={"crit": MINUTE}),
        ),
        remedy="The GPU stopped answering on PCIe: drain and restart the node; if it repeats, reseat the board and "
        "check its power.",
        source="NVML errors 15 and 28, XID 79",
        guest=True,
    ),
    Check(
        id="recovery_action",
        title="The driver requests a recovery action",
        rules=(
            Codes(
                name="recovery_action",
                inputs=("recovery_action",),
                codes=(("warn", (3, 5)), ("crit", (1, 2, 4, 6, 7))),
                beyond="warn",
                text="action",
            ),
        ),
        remedy="The driver requests recovery action {recovery_action:g} (1 reset, 2 restart of the node, 3 peers "
        "drained, 4 drain and reset, 5 IMEX, 6 bus reset, 7 restart of the system): drain the GPU and apply it.",
        source="NVML nvmlDeviceGetGpuRecoveryAction, DCGM field 1523",
    ),
    Check(
        id="telemetry",
        title="Readings are late or blank",
        rules=(
            Level(
                name="sample_gap_intervals",
                inputs=("sample_gap_intervals",),
                levels=(("warn", 3.0), ("crit", 10.0)),
                number="above {:g}",
                text="intervals between two samples",
            ),
            Level(
                name="inputs_blank_ratio",
                inputs=("inputs_blank_ratio",),
                levels=(("warn", 0.5),),
                number="with {:.0%}",
                text="of the inputs that the GPU once had blank",
                enter=30.0,
            ),
        ),
        note="without a sample for more than 10 intervals all other checks are unknown",
        remedy="Readings are stale: check the host engine or the exporter, then run nvidia-smi; a hang points to the "
        "driver.",
        source="pulsed",
        guest=True,
    ),
)
