"""Counters files for dcgm-exporter, from the table of fields: all that pulsed can use, for a version and a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulsed.compute.product_parts import missing_from_model
from pulsed.model.vocabulary import QUANTITIES, is_counter
from pulsed.translate.fields import (
    ANY,
    FIELDS,
    FIRST_BASE_UNIT_ID,
    GROUPS,
    DcgmField,
    ExporterVersion,
    fields_to_watch,
    name_for,
    superchip_fields,
)

MAX_LINES = 127
"""Fields that dcgm-exporter before 4.8.4 can watch."""

_TITLES: Mapping[str, str] = {
    "activity": "Activity: real utilization, workload class, saturation",
    "traffic": "Traffic",
    "memory": "Memory",
    "power": "Power, heat and clocks: energy, idle waste, health",
    "errors": "Errors: health",
    "state": "State: health",
}

_BESIDES = frozenset({250, 526, *range(350, 362), 363, 1084, 1085, 1086, 1094, 1400, 1401, 1402, 1503})
"""Fields that are not watched by dmon: the size of memory, the licence of a vGPU guest, results of `dcgmi diag`, the
cycle counters of SMs, tensor and FP64 pipes, which are exact over lost scrapes, errors of the chip-to-chip link, and
the state of IMEX."""

_ROUNDED = frozenset({1216, 1218})
"""Bit error ratios: dcgm-exporter before 4.8.3 writes six decimals, so that 1e-9 becomes 0."""

# dcgm-exporter's own metrics, with the first version that certainly has them.
_OWN: tuple[tuple[ExporterVersion, str], ...] = (
    (ExporterVersion(4, 0, 0), "DCGM_EXP_XID_ERRORS_COUNT, gauge, XIDs seen in the last minutes; by code"),
    (
        ExporterVersion(4, 0, 0),
        "DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, Samples of the last minutes with a reason for lower clocks; by reason",
    ),
    (
        ExporterVersion(4, 8, 3),
        "DCGM_EXP_GPU_HEALTH_STATUS, gauge, Result of DCGM's own health watches: 0 pass 10 warn 20 fail",
    ),
    (ExporterVersion(4, 8, 3), "DCGM_EXP_XID_ERRORS_TOTAL, counter, XIDs seen since the exporter started; by code"),
    (ANY, "DCGM_FI_DRIVER_VERSION, label, Version of the driver"),
    (ANY, "DCGM_FI_DEV_SERIAL, label, Serial number of the board"),
    (ANY, "DCGM_FI_DEV_VBIOS_VERSION, label, Version of the VBIOS"),
)


def counters_file(version: ExporterVersion, model: str = "") -> str:
    """Return the counters file with every field that pulsed uses and a version of dcgm-exporter accepts, without those
    that a model cannot have; all if the model is empty.

    Lines that begin with `#` are off: fields that pulsed only passes on, and fields of newer versions.
    """
    absent = missing_from_model(model)
    rows = {field.id: field for field in reversed(FIELDS) if field.id < FIRST_BASE_UNIT_ID}
    fields = [f for f in FIELDS if rows.get(f.id) is f and not f.quantity.startswith(absent)]
    accepted = [field for field in fields if name_for(field, version, version)]
    watched = (*fields_to_watch(GROUPS), superchip_fields(GROUPS))
    used = (_BESIDES | {number for ids in watched for number in ids}) - _ROUNDED
    lines = [
        f"# What pulsed can use and dcgm-exporter {version} has; an older one may not start with all of it.",
        f"# Written by: pulsed counters --exporter-version {version}{f' --model {model!r}' if model else ''}",
        *(["# This model is not in pulsed's tables: no field is left out."] if model and not absent else []),
        "# field, type, help",
    ]
    for group, title in _TITLES.items():
        lines += _section(title, _lines((f for f in accepted if f.id in used and _group(f) == group), version))
    lines += _section("dcgm-exporter's own metrics", (line for since, line in _OWN if since <= version))
    unused = [field for field in accepted if field.id not in used]
    lines += _section(
        "Off: pulsed passes them on, and computes nothing from them. DCGM measures many profiling fields in turns",
        _lines((field for field in unused if field.id not in _ROUNDED), version, "#"),
    )
    lines += _section(
        "Off: dcgm-exporter before 4.8.3 rounds them to 0",
        _lines((f for f in unused if f.id in _ROUNDED), version, "#"),
    )
    newer: dict[ExporterVersion, list[str]] = {}
    for field in fields:
        if field not in accepted:
            since = field.since
            newer.setdefault(since, []).extend(_lines([field], since, "#"))
    for since, line in _OWN:
        if since > version:
            newer.setdefault(since, []).append(f"#{line}")
    for since in sorted(newer):
        lines += _section(f"Off: from dcgm-exporter {since} on", newer[since])
    return "\n".join(lines) + "\n"


def counters_line(field: DcgmField, name: str) -> str:
    """Return the line of a counters file for a field: name, type, help."""
    kind = "counter" if is_counter(field.quantity) else "gauge"
    # Three cells, and no more commas: dcgm-exporter counts them (Go's encoding/csv).
    return f"{name}, {kind}, {QUANTITIES[field.quantity].meaning.replace(',', ';')}"


def _group(field: DcgmField) -> str:
    return QUANTITIES[field.quantity].group


def _lines(fields: Iterable[DcgmField], version: ExporterVersion, mark: str = "") -> list[str]:
    return [mark + counters_line(f, name) for f in fields if (name := name_for(f, version, version))]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    return ["", f"# {title}", *lines] if lines else []
