"""XIDs: the errors that the driver reports. Their severities are in `pulsed.compute.health.xids`."""

from __future__ import annotations

from pulsed.compute.health.check import Check
from pulsed.compute.health.rule import DAY, HOUR, MINUTE
from pulsed.compute.health.xid_rule import CORROBORATION, XID_INPUTS, XidRule

CHECKS: tuple[Check, ...] = (
    Check(
        id="xid_critical",
        title="An XID that needs a reset or a restart",
        rules=(
            XidRule(
                inputs=(*XID_INPUTS, *CORROBORATION),
                text="after an XID of severity crit, or until the GPU is reset or its driver or node restarted",
                choose="critical",
                keep={"crit": DAY},
            ),
        ),
        note="an XID that is older than the first sample counts only if another input confirms it",
        remedy="XID {xid:g} needs a GPU reset or node restart: {advice}, and look at the kernel log.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    Check(
        id="xid_warning",
        title="An XID that affected work on this GPU",
        rules=(
            XidRule(
                inputs=(*XID_INPUTS, *CORROBORATION),
                text="after an XID of that severity",
                choose="warning",
                keep={"info": 10 * MINUTE, "warn": HOUR},
            ),
        ),
        note="unknown XIDs and critical ones that are older than the first sample are warn; 45 does not count",
        remedy="XID {xid:g} affected work on this GPU: {advice}, and watch whether the code returns.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    Check(
        id="xid_repeat",
        title="The same XID repeatedly",
        rules=(
            XidRule(
                text="after the same XID came in 5 bursts (3 min apart), or 31 in 3 bursts across 2 jobs; not 45",
                choose="repeated",
                keep={"warn": DAY},
            ),
        ),
        remedy="XID {xid:g} repeats on one GPU: run a diagnostic before it gets new jobs.",
        source="NVSentinel",
        guest=True,
    ),
)
