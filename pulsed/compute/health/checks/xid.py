"""XIDs: the faults that the driver names itself. How bad a code is, is in `pulsed.compute.health.xids`."""

from __future__ import annotations

from pulsed.compute.health.checks.shorthand import CORROBORATION, DAY, HOUR, MINUTE, XID_INPUTS
from pulsed.compute.health.rule import Check, Events

CHECKS: tuple[Check, ...] = (
    Check(
        id="xid_critical",
        title="An XID that needs a reset or a restart",
        rule="crit when a code whose severity is crit happens; until the GPU was reset, the driver or the node "
        "restarted, or for 24 h. A code that was there before anybody looked counts only if something else says so, "
        "too",
        rules=(
            Events(name="xid", inputs=(*XID_INPUTS, *CORROBORATION), levels=(), choose="critical", keep={"crit": DAY}),
        ),
        remedy="XID {xid:g} needs a GPU reset or node restart: {advice}, and look at the kernel log.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    Check(
        id="xid_warning",
        title="An XID that affected work on this GPU",
        rule="warn for 1 h when a code happens whose severity is warn, or that is unknown, or a critical one was there "
        "before anybody looked; info for 10 min for codes that are bugs of programs; 45 says nothing",
        rules=(
            Events(
                name="xid",
                inputs=(*XID_INPUTS, *CORROBORATION),
                levels=(),
                choose="warning",
                keep={"info": 10 * MINUTE, "warn": HOUR},
            ),
        ),
        remedy="XID {xid:g} affected work on this GPU: {advice}, and watch whether the code returns.",
        source="NVIDIA's XID catalogue",
        guest=True,
    ),
    Check(
        id="xid_repeat",
        title="The same XID repeatedly",
        rule="warn when the same code comes in 5 bursts (3 min apart) within 24 h, or 31 in 3 bursts across 2 jobs; "
        "not 45",
        rules=(Events(name="xid", inputs=XID_INPUTS, levels=(), choose="repeated", keep={"warn": DAY}),),
        remedy="XID {xid:g} repeats on one GPU: run a diagnostic before it gets new jobs.",
        source="NVSentinel",
        guest=True,
    ),
)
