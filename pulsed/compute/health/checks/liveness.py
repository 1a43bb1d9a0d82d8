"""Does the GPU answer, and does the driver ask for something?"""

from __future__ import annotations

from pulsed.compute.health.checks.shorthand import MINUTE, XID_INPUTS
from pulsed.compute.health.rule import Check, Codes, Events, Level

CHECKS: tuple[Check, ...] = (
    Check(
        id="gpu_lost",
        title="The GPU does not answer",
        rule="crit when the GPU was there and two polls in a row bring nothing of it although the source delivers, or "
        "when XID 79 happens; until it was seen again for 60 s",
        rules=(
            Level(name="polls_missed", inputs=("polls_missed",), levels=(("crit", 2.0),), release=MINUTE),
            Events(name="xid", inputs=XID_INPUTS, levels=(), choose=79, keep={"crit": MINUTE}),
        ),
        remedy="The GPU stopped answering on PCIe: drain and restart the node; if it repeats, reseat the board and "
        "check its power.",
        source="NVML errors 15 and 28, XID 79",
        guest=True,
    ),
    Check(
        id="recovery_action",
        title="The driver requests a recovery action",
        rule="warn for the actions 3 and 5, and for those above 7; crit for 1, 2, 4, 6 and 7",
        rules=(
            Codes(
                name="recovery_action",
                inputs=("recovery_action",),
                levels=(),
                codes=((1, "crit"), (2, "crit"), (3, "warn"), (4, "crit"), (5, "warn"), (6, "crit"), (7, "crit")),
                beyond="warn",
            ),
        ),
        remedy="The driver requests recovery action {recovery_action:g} (1 reset, 2 restart of the node, 3 peers "
        "drained, 4 drain and reset, 5 IMEX, 6 bus reset, 7 restart of the system): drain the GPU and apply it.",
        source="NVML nvmlDeviceGetGpuRecoveryAction, DCGM field 1523",
    ),
    Check(
        id="telemetry",
        title="Readings are late or blank",
        rule="warn when a sample comes more than 3 intervals after the one before, or when half of the inputs that "
        "the GPU once gave are blank; when there is none for more than 10 intervals, crit, and all other checks are "
        "unknown",
        rules=(
            Level(
                name="sample_gap_intervals", inputs=("sample_gap_intervals",), levels=(("warn", 3.0), ("crit", 10.0))
            ),
            Level(name="inputs_blank_ratio", inputs=("inputs_blank_ratio",), levels=(("warn", 0.5),), enter=30.0),
        ),
        remedy="Readings are stale: check the host engine or the exporter, then run nvidia-smi; a hang points to the "
        "driver.",
        source="pulsed",
        guest=True,
    ),
)
