"""Whether the GPU and its readings are available, the recovery that the driver requests, and the errors that it reports
(XIDs, whose severities are in `pulsed.compute.health.xids`)."""

from __future__ import annotations

from pulsed.compute.freshness import FRESH_SECONDS
from pulsed.compute.health.check import check
from pulsed.compute.health.level import Codes, Level, gap_of
from pulsed.compute.health.model import State
from pulsed.compute.health.rule import DAY, HOUR, MINUTE, duration
from pulsed.compute.health.xid_rule import CORROBORATION, CRITICAL_SECONDS, XID_INPUTS, XidRule

_GAPS: tuple[tuple[State, float, float], ...] = (("warn", 3, 10), ("crit", 10, MINUTE))
"""By state, the shortest gap between two samples in intervals and in seconds: intervals of a fast source are short."""

CHECKS = (
    check(
        "gpu_lost",
        "The GPU does not answer",
        Level(
            "polls_missed",
            {"crit": 2},
            f"polls in a row without the GPU although its source delivers; until it answered for {duration(MINUTE)}",
            release=MINUTE,
        ),
        XidRule(text="after XID 79", choose=79, keep={"crit": MINUTE}),
        remedy="The GPU stopped answering on PCIe: drain and restart the node; if it repeats, reseat the board and "
        "check its power.",
        source="NVML errors 15 and 28, XID 79",
        guest=True,
    ),
    check(
        "recovery_action",
        "The driver requests a recovery action",
        Codes("recovery_action", text="action", codes={"warn": (3, 5), "crit": (1, 2, 4, 6, 7)}, beyond="warn"),
        remedy="The driver requests recovery action {recovery_action:g} (1 reset, 2 restart of the node, 3 peers "
        "drained, 4 drain and reset, 5 IMEX, 6 bus reset, 7 restart of the system): drain the GPU and apply it.",
        source="NVML nvmlDeviceGetGpuRecoveryAction, DCGM field 1523",
    ),
    check(
        "telemetry",
        "Readings are late or blank",
        *(
            Level(
                "sample_gap_intervals",
                {state: intervals},
                f"intervals and {duration(seconds)} between two samples",
                number="above {:g}",
                by=gap_of(seconds),
            )
            for state, intervals, seconds in _GAPS
        ),
        Level(
            "inputs_blank_ratio",
            {"warn": 0.5},
            "of the inputs that the GPU once had blank",
            number="with {:.0%}",
            enter=30.0,
        ),
        Level(
            "inputs_age_seconds",
            {"warn": FRESH_SECONDS},
            "and 3 intervals without a current temperature, power, clock, utilization, memory or energy",
            number="after {:g} s",
        ),
        note="blank and frozen readings are not current; without current ones a GPU is unknown unless another check "
        "is warn or worse; without a sample for more than 10 intervals all other checks are unknown",
        remedy="Readings are stale: check the host engine or the exporter, then run nvidia-smi; a hang points to the "
        "driver.",
        source="pulsed",
        guest=True,
    ),
    check(
        "xid_critical",
        "An XID that needs a reset or a restart",
        XidRule(
            inputs=(*XID_INPUTS, *CORROBORATION),
            text="after an XID of severity crit, or until the GPU is reset or its driver or node restarted",
            choose="critical",
            keep={"crit": CRITICAL_SECONDS},
        ),
        note="an XID that is older than the first sample counts only if another input confirms it",
        remedy="XID {xid:g} needs a GPU reset or node restart: {advice}, and look at the kernel log.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    check(
        "xid_warning",
        "An XID that affected work on this GPU",
        XidRule(
            inputs=(*XID_INPUTS, *CORROBORATION),
            text="after an XID of that severity",
            choose="warning",
            keep={"info": 10 * MINUTE, "warn": HOUR},
        ),
        note="unknown XIDs and critical ones that are older than the first sample are warn; one of severity crit is "
        "warn after its 24 h until the GPU is reset, unless the last code is 0 again; 45 does not count",
        remedy="XID {xid:g} affected work on this GPU: {advice}, and watch whether the code returns.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    check(
        "xid_repeat",
        "The same XID repeatedly",
        XidRule(
            text="after the same XID came in 5 bursts (3 min apart), or 31 in 3 bursts across 2 jobs; not 45",
            choose="repeated",
            keep={"warn": DAY},
        ),
        remedy="XID {xid:g} repeats on one GPU: run a diagnostic before it gets new jobs.",
        source="NVSentinel",
        guest=True,
    ),
)
