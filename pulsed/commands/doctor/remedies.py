"""Remedies for missing quantities: lines of configuration for dcgm-exporter, its charts and dcgmi. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pulsed.commands.doctor.source_check import SourceCheck, has_new_names
from pulsed.config import Config
from pulsed.reader.dcgmi.watch import is_profiling
from pulsed.translate.fields import BY_NAME, DcgmField, sources
from pulsed.translate.vocabulary import QUANTITIES, is_counter
from pulsed.translate.watches import GROUPS, fields_to_watch

OPERATOR_VALUES = (
    "dcgmExporter:",
    "  config:",
    "    name: metrics-config",
    "  env:",
    "    - name: DCGM_EXPORTER_COLLECTORS",
    "      value: /etc/dcgm-exporter/dcgm-metrics.csv",
)
"""Values of the chart gpu-operator (NVIDIA's GPU telemetry guide)."""

OPERATOR_COMMAND = "kubectl create configmap metrics-config -n gpu-operator --from-file=dcgm-metrics.csv"


# Why dcgmi does not give what fields hold; DCGM#244 for engines that answer N/A to everything.
REFUSED = "refused, REASON: {fields}"
BLIND = "answered with N/A, as everything: {fields}. Run nv-hostengine as root, not under a service account"
NO_PROFILING = (
    "answered with N/A: {fields}. Run nv-hostengine as root or with CAP_SYS_ADMIN; dcgmi profile -l shows whether this "
    "GPU has them, and dcgmi profile --resume ends a pause"
)
NOT_AVAILABLE = "answered with N/A: {fields}. This GPU, or its driver, does not have it"
NOT_IN_GROUPS = "not asked for: {fields}. Add GROUP to source.dcgmi.groups"
NOT_ASKED = "not asked for: {fields}. Add {ids} to source.dcgmi.fields"
NOT_RECORDED = "not in the recording: {fields}. Record with dcgmi dmon -e {ids}, or with pulsed record"


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do.

    Attributes:
        do: what, in a sentence without a full stop.
        lines: to be taken over literally.
    """

    do: str
    lines: tuple[str, ...] = ()


def lines(quantities: Iterable[str], probe: SourceCheck, config: Config) -> tuple[str, ...]:
    """What would supply these: lines of dcgm-exporter's counters file, or why dcgmi does not give them."""
    wanted = [(quantity, origins) for quantity in quantities if (origins := sources(quantity))]
    if probe.kind == "exporter":
        modern = has_new_names(probe.layout)
        return tuple(counters_line(quantity, origins[0], modern=modern) for quantity, origins in wanted)
    fields: dict[str, list[DcgmField]] = {}
    for _, origins in wanted:
        if probe.kind == "dcgmi":
            field, why = _of_dcgmi(origins, probe, config)
            fields.setdefault(why, []).append(field)
        elif probe.kind == "replay":
            fields.setdefault(NOT_RECORDED, []).append(origins[0])
    return tuple(
        why.format(fields=", ".join(map(str, some)), ids=",".join(str(field.id) for field in some))
        for why, some in fields.items()
    )


def steps(counters: Sequence[str], probe: SourceCheck) -> tuple[Step, ...]:
    """Return the steps that add counters lines to an exporter; none for other sources."""
    if probe.kind != "exporter" or not counters:
        return ()
    names = {series.name for series in probe.layout.series}
    permission: tuple[Step, ...] = ()
    if not any(is_profiling(field.id) for name in names for field in BY_NAME.get(name, ())) and any(
        "_PROF_" in line for line in counters
    ):
        permission = (
            Step(
                "The page has no profiling counter at all. If the lines below do not help: dcgm-exporter needs the "
                "capability SYS_ADMIN, a data center or workstation GPU since Volta that is not a vGPU guest, and no "
                "other process (a host engine, a profiler) may hold the profiling hardware; its log names the reason"
            ),
        )
    return (
        *permission,
        Step(
            "Add to the counters file of dcgm-exporter (its option -f; else /etc/dcgm-exporter/default-counters.csv), "
            "then restart it",
            tuple(counters),
        ),
        Step(
            "Helm, chart dcgm-exporter: the value customMetrics is this file, and replaces the chart's whole",
            (
                "customMetrics: |",
                "  # the lines of the chart's metrics-configmap.yaml, and",
                *(f"  {line}" for line in counters),
            ),
        ),
        Step(
            "Helm, chart gpu-operator: make the whole file, called dcgm-metrics.csv, a ConfigMap",
            (OPERATOR_COMMAND,),
        ),
        Step("and name it in the chart's values, where the default env must stay, too", OPERATOR_VALUES),
    )


def counters_line(quantity: str, field: DcgmField, *, modern: bool = False) -> str:
    """Return the line of dcgm-exporter's counters file for a field.

    Args:
        modern: by the name that it has since DCGM 4.6.
    """
    names = [name for name in field.names if name.startswith("DCGM_")]
    kind = "counter" if is_counter(quantity) else "gauge"
    # Three cells, and no more commas (Go's encoding/csv, and dcgm-exporter counts them).
    return f"{names[-1 if modern else 0]}, {kind}, {QUANTITIES[quantity].meaning.replace(',', ';')}"


def _of_dcgmi(origins: Sequence[DcgmField], probe: SourceCheck, config: Config) -> tuple[DcgmField, str]:
    """Give the field to blame for a missing quantity, and why: refused, answered with nothing, or not asked for."""
    given = config.source.dcgmi
    asked = {field for some in fields_to_watch(given.groups, given.fields) for field in some}
    for reason, fields in probe.lost.items():
        for field in origins:
            if field.id in fields:
                return field, REFUSED.replace("REASON", reason.replace("_", " "))
    for field in origins:
        if field.id in asked:
            return field, BLIND if probe.is_blind else NO_PROFILING if is_profiling(field.id) else NOT_AVAILABLE
    field = origins[0]
    for name, group in GROUPS.items():
        if field.id in (*group.fast, *group.slow):
            return field, NOT_IN_GROUPS.replace("GROUP", name)
    return field, NOT_ASKED
