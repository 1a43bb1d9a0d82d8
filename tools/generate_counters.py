"""Writes the counters files for dcgm-exporter from pulsed's own table of fields, in two editions.

Run as `python -m tools.generate_counters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pulsed.commands.doctor.remedies import counters_line
from pulsed.translate.fields import FIELDS, FIRST_BASE_UNIT_ID, DcgmField
from pulsed.translate.vocabulary import QUANTITIES
from pulsed.translate.watches import GROUPS, fields_to_watch

FOLDER = Path(__file__).parents[1] / "deploy" / "dcgm-exporter"

TITLES: Mapping[str, str] = {
    "activity": "Activity: real utilization, workload class, saturation",
    "traffic": "Traffic",
    "memory": "Memory",
    "power": "Power, heat and clocks: energy, idle waste, health",
    "errors": "Errors: health",
    "state": "State: health",
}

BESIDES = frozenset({250, 526})
"""Fields that are not watched by dmon, and cost nothing: the size of memory and the licence of a vGPU guest."""

# go-dcgm's table of names, by which dcgm-exporter knows fields, against the headers of DCGM.
UNTIL_4_5: frozenset[int] = frozenset({346, 1420, 1421, 1422, 1423, 1424, 1432})
"""Fields of DCGM 4.2 to 4.5 that dcgm-exporter 4.4.1-4.5.2 takes and older ones refuse."""

REFUSED: frozenset[int] = frozenset({174, 175, 1501, 1507, 1523})
"""Fields with which dcgm-exporter 4.4.1-4.5.2 does not start (netdata tried all 623; 175 came after that)."""

ROUNDED: frozenset[int] = frozenset({1216, 1218})
"""Bit error rates: dcgm-exporter before 4.8.3 writes six decimals, so that 1e-9 becomes 0, which says nothing."""

SINCE_4_6: frozenset[int] = frozenset({1091, 1092})
"""Fields of DCGM 4.6."""

# dcgm-exporter's own metrics, which no field of DCGM gives: its collectors, and its default-counters.csv.
XID_COUNTS = "DCGM_EXP_XID_ERRORS_COUNT, gauge, XIDs seen in the last minutes; by code"
CLOCK_EVENTS = (
    "DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, Samples of the last minutes with a reason for lower clocks; by reason"
)
HEALTH_WATCHES = "DCGM_EXP_GPU_HEALTH_STATUS, gauge, Result of DCGM's own health watches: 0 pass 10 warn 20 fail"
XID_TOTALS = "DCGM_EXP_XID_ERRORS_TOTAL, counter, XIDs seen since the exporter started; by code"
DRIVER = "DCGM_FI_DRIVER_VERSION, label, Version of the driver"

ROOM = 127
"""Lines that a file may have: before dcgm-exporter 4.8.4 a watch holds no more fields."""


@dataclass(frozen=True, slots=True)
class Edition:
    """One counters file.

    Attributes:
        name: of the file.
        head: for whom it is.
        refused: fields that its exporters do not know.
        own: lines of the exporter's own metrics.
        own_off: such lines that only newer exporters know.
    """

    name: str
    head: str
    refused: frozenset[int]
    own: tuple[str, ...]
    own_off: tuple[str, ...]


EDITIONS = (
    Edition(
        "counters-pulsed.csv",
        'Everything that pulsed can use, for a dcgm-exporter that knows the newest fields. If its log says "could not\n'
        '# find DCGM field" and it does not start, take counters-pulsed-classic.csv.',
        frozenset(),
        (XID_COUNTS, CLOCK_EVENTS, HEALTH_WATCHES),
        (XID_TOTALS,),
    ),
    Edition(
        "counters-pulsed-classic.csv",
        'What pulsed can use of what dcgm-exporter 4.4.1-4.5.2 knows. Older ones also refuse the lines under "Younger\n'
        '# than DCGM 4.1": delete those.',
        REFUSED,
        (XID_COUNTS, CLOCK_EVENTS),
        (HEALTH_WATCHES, XID_TOTALS),
    ),
)


def text(edition: Edition) -> str:
    """The file of an edition."""
    lines = [
        f"# {edition.head}",
        "# Written from pulsed's table of fields. field, type, help",
    ]
    fast, slow = fields_to_watch(GROUPS)
    asked = BESIDES.union(fast, slow) - edition.refused - ROUNDED
    fields = {field.id: field for field in reversed(FIELDS) if field.id < FIRST_BASE_UNIT_ID}
    ordered = [field for field in FIELDS if fields.get(field.id) is field]
    for group, title in TITLES.items():
        lines += _section(title, (f for f in ordered if f.id in asked - UNTIL_4_5 and _group(f) == group))
    lines += _section("Younger than DCGM 4.1", (field for field in ordered if field.id in asked & UNTIL_4_5))
    lines += ["", "# What dcgm-exporter itself finds out, and who it is", *edition.own, DRIVER]
    off = "Off: pulsed passes them on, and makes nothing of them. Many profiling fields at once are measured in turns"
    lines += _section(off, (f for f in ordered if f.id not in asked | edition.refused | ROUNDED | SINCE_4_6), "#")
    lines += _section(
        "Off: only from dcgm-exporter 4.8.3 on, older ones round them to 0",
        (f for f in ordered if f.id in ROUNDED),
        "#",
    )
    newer = [field for field in ordered if field.id in edition.refused | SINCE_4_6]
    lines += _section("Off: for newer exporters only", newer, "#")
    return "\n".join([*lines, *(f"#{line}" for line in edition.own_off)]) + "\n"


def _group(field: DcgmField) -> str:
    return QUANTITIES[field.quantity].group


def _section(title: str, fields: Iterator[DcgmField] | list[DcgmField], mark: str = "") -> list[str]:
    return ["", f"# {title}", *(mark + counters_line(field.quantity, field) for field in fields)]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for edition in EDITIONS:
        (FOLDER / edition.name).write_text(text(edition))
