"""Remedies for missing quantities: lines of configuration for dcgm-exporter, its charts and dcgmi. Pure functions."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pulsed.apps.doctor.source_check import SourceCheck
from pulsed.compute.product_parts import has_profiling
from pulsed.compute.products import FIRST_DCGM, architecture_of
from pulsed.config.configuration import Config
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.counters_file import counters_line
from pulsed.translate.fields import (
    ANY,
    CLASSIC,
    DERIVED,
    FIRST_BASE_UNIT_ID,
    GROUPS,
    DcgmField,
    ExporterVersion,
    fields_named,
    fields_to_watch,
    in_words,
    is_profiling,
    name_for,
    sources,
    spelling,
)

FILE = "counters-pulsed.csv"

_OF_EVENTS = frozenset({230, *range(350, 364)})
"""Fields without a value before the first event: the last XID, and results of diagnostics."""

_OPERATOR_STEPS = (
    f"kubectl create configmap metrics-config -n gpu-operator --from-file=dcgm-metrics.csv={FILE}",
    "dcgmExporter:",
    "  config:",
    "    name: metrics-config",
    "  env:",
    "    - name: DCGM_EXPORTER_COLLECTORS",
    "      value: /etc/dcgm-exporter/dcgm-metrics.csv",
)
"""A ConfigMap, and the values of the chart gpu-operator that name it (NVIDIA's GPU telemetry guide)."""


# Why dcgmi does not give what fields hold; DCGM#244 for engines that answer N/A to everything.
REFUSED = "refused, REASON: {fields}"
BLIND = "answered with N/A, as everything: {fields}. Run nv-hostengine as root, not under a service account"
NO_PROFILING = (
    "answered with N/A: {fields}. Run nv-hostengine as root or with CAP_SYS_ADMIN; dcgmi profile -l shows whether this "
    "GPU has them, and dcgmi profile --resume ends a pause"
)
NOT_AVAILABLE = "answered with N/A: {fields}. This GPU, or its driver, does not have it"
NOT_ANSWERED = "not answered in time: {fields}. See whether the host engine is overloaded"
NO_EVENT = "answered with N/A: {fields}. There is a value after the first event"
NOT_IN_GROUPS = "not asked for: {fields}. Add GROUP to source.dcgmi.groups"
NOT_ASKED = "not asked for: {fields}. Add {ids} to source.dcgmi.fields"
ADD = (
    "Add to the counters file of dcgm-exporter, unless it has them: a field without a value, such as XIDs before the "
    "first one, is not on the page"
)
NOT_RECORDED = "not in the recording: {fields}. pulsed record writes all that the DCGM of a node has"
BLANK_IN_RECORDING = "N/A in the recording: {fields}"
NOT_IN_NVML = "not in NVML for this GPU: {fields}. DCGM (package datacenter-gpu-manager) has more, with source dcgmi"


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do.

    Attributes:
        do: what, in a sentence without a full stop.
        lines: to be taken over literally.
    """

    do: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Supply:
    """What would supply missing quantities.

    Attributes:
        lines: of dcgm-exporter's counters file; of other sources the reasons with their remedies. Each once.
        newer: fields that only newer versions of dcgm-exporter accept, with the first such version.
    """

    lines: tuple[str, ...] = ()
    newer: tuple[tuple[str, ExporterVersion], ...] = ()


def supply(quantities: Iterable[str], probe: SourceCheck, config: Config, *, are_profiled: bool = True) -> Supply:
    """Return what would supply quantities that a source lacks.

    Args:
        are_profiled: whether any of its GPUs can have profiling counters.
    """
    origins_of = [(quantity, sources(quantity)) for quantity in quantities]
    if probe.exporter_versions:
        return _of_exporter(
            [quantity for quantity, _ in origins_of], *probe.exporter_versions, are_profiled=are_profiled
        )
    fields: dict[str, list[DcgmField]] = {}
    names = _series_names(probe)
    for _, origins in origins_of:
        if origins and probe.kind == "dcgmi":
            field, why = _of_dcgmi(origins, probe, config)
            fields.setdefault(why, []).append(field)
        elif origins and probe.kind == "nvml":
            fields.setdefault(NOT_IN_NVML, []).append(origins[0])
        elif origins and probe.kind == "replay":
            recorded = next((field for field in origins if {field.short, *field.names} & names), None)
            fields.setdefault(BLANK_IN_RECORDING if recorded else NOT_RECORDED, []).append(recorded or origins[0])
    return Supply(
        tuple(
            why.format(fields=", ".join(map(str, some)), ids=",".join(str(field.id) for field in some))
            for why, some in fields.items()
        )
    )


def is_accepted(quantity: str, versions: tuple[ExporterVersion, ExporterVersion]) -> bool:
    """Return whether all versions of dcgm-exporter in a range accept a field that supplies a quantity."""
    return bool(_accepted(quantity, *versions))


def _accepted(
    quantity: str, oldest: ExporterVersion, newest: ExporterVersion, *, are_profiled: bool = True
) -> list[str]:
    """Return the lines that supply a quantity: of one field, or of all that it is computed from."""
    for field in sources(quantity):
        if field.id >= FIRST_BASE_UNIT_ID or (is_profiling(field.id) and not are_profiled):
            continue
        if name := name_for(field, oldest, newest):
            return [counters_line(field, name)]
    parts = [_accepted(part, oldest, newest) for part in DERIVED.get(quantity, "").split(" + ") if part in QUANTITIES]
    return [line for part in parts for line in part] if all(parts) else []


def _of_exporter(
    quantities: Iterable[str], oldest: ExporterVersion, newest: ExporterVersion, *, are_profiled: bool
) -> Supply:
    lines: dict[str, None] = {}
    newer: dict[str, ExporterVersion] = {}
    for quantity in quantities:
        if accepted := _accepted(quantity, oldest, newest, are_profiled=are_profiled):
            lines |= dict.fromkeys(accepted)
        elif origins := [field for field in sources(quantity) if are_profiled or not is_profiling(field.id)]:
            newer[origins[0].names[0]] = origins[0].since
    return Supply(tuple(lines), tuple(newer.items()))


def steps(additions: Supply, probe: SourceCheck, models: Collection[str]) -> Iterator[Step]:
    """Yield the steps that add missing fields to a dcgm-exporter; none for other sources.

    Args:
        models: product names of its GPUs.
    """
    if not probe.exporter_versions or not (additions.lines or additions.newer):
        return
    oldest, newest = probe.exporter_versions
    fields = (field for name in _series_names(probe) for field in fields_named(name))
    if any("_PROF_" in line for line in additions.lines) and not any(is_profiling(field.id) for field in fields):
        yield Step(
            "The page has no profiling counter at all. If the lines below do not help: dcgm-exporter needs the "
            "capability SYS_ADMIN, and no other process (a host engine, a profiler) may hold the profiling "
            "hardware; its log names the reason"
        )
    if additions.lines:
        yield Step(ADD, additions.lines)
    if additions.newer:
        names: dict[ExporterVersion, list[str]] = {}
        for name, since in additions.newer:
            names.setdefault(since, []).append(name)
        yield Step(
            "Only newer versions of dcgm-exporter are certain to accept these; others do not start with them",
            tuple(f"from {since} on: {', '.join(names[since])}" for since in sorted(names)),
        )
    if oldest != newest:
        yield Step(
            f"The page shows only that dcgm-exporter is {in_words(oldest, newest)}. To use all its fields, give "
            "the tag of its image below, and to doctor as --exporter-version"
        )
    model = f" --model {shlex.quote(next(iter(models)))}" if len(models) == 1 and "" not in models else ""
    version = oldest if oldest > ANY else "VERSION"
    yield Step(
        "Write a counters file with everything that pulsed can use",
        (f"pulsed counters --exporter-version {version}{model} > {FILE}",),
    )
    yield Step(
        "Use it, in place of default-counters.csv, and restart dcgm-exporter: by its option -f, or with its chart",
        (f"helm upgrade dcgm-exporter gpu-helm-charts/dcgm-exporter --reuse-values --set-file customMetrics={FILE}",),
    )
    yield Step("or with the chart gpu-operator, whose values keep their other env", _OPERATOR_STEPS)
    yield Step(
        f"Ready-made, for dcgm-exporter {CLASSIC} and newer: dcgm-exporter/counters-pulsed-classic.csv in"
        " /opt/pulsed/share, or where `pulsed install-files` has written it"
    )


def outdated(probe: SourceCheck, devices: Iterable[Device]) -> str:
    """Return that the DCGM of a source is too old for a product and what to do; empty if it is not known to be."""
    if probe.exporter_versions:
        newest, program = probe.exporter_versions[1].major, "dcgm-exporter"
    else:
        versions = re.findall(r"\b(\d{1,3})\.\d", probe.version) if probe.kind == "dcgmi" else []
        newest, program = max(map(int, versions), default=sys.maxsize), "DCGM"
    for device in devices:
        first = FIRST_DCGM.get(architecture_of(device.model), 0)
        if newest < first and has_profiling(device):
            return (
                f"{probe.version} is too old for {device.model}: it has no profiling counters of it, whatever the "
                f"counters file has. Update to {program} {first} or newer"
            )
    return ""


def _why_blank(field: DcgmField, probe: SourceCheck) -> str:
    """Return why a requested field is answered without a value."""
    if probe.is_blind:
        return BLIND
    if is_profiling(field.id):
        return NO_PROFILING
    return NO_EVENT if field.id in _OF_EVENTS else NOT_AVAILABLE


def _series_names(probe: SourceCheck) -> set[str]:
    return {spelling(series.name) for series in probe.tick.layout.series} if probe.tick else set()


def _of_dcgmi(origins: Sequence[DcgmField], probe: SourceCheck, config: Config) -> tuple[DcgmField, str]:
    """Return the field that a missing quantity lacks, and why: refused, answered with N/A, or not requested."""
    settings = config.source.dcgmi
    requested = probe.requested or {
        field for some in fields_to_watch(settings.groups, settings.fields) for field in some
    }
    for reason, fields in probe.lost.items():
        for field in origins:
            if field.id in fields:
                return field, REFUSED.replace("REASON", reason.replace("_", " "))
    for field in origins:
        if field.id in probe.pending:
            return field, NOT_ANSWERED
        if field.id in requested:
            return field, _why_blank(field, probe)
    field = origins[0]
    for name, group in GROUPS.items():
        if field.id in (*group.fast, *group.slow, *group.superchip) and name not in settings.groups:
            return field, NOT_IN_GROUPS.replace("GROUP", name)
    return field, NOT_ASKED
