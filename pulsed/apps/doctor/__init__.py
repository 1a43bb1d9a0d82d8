"""`pulsed doctor`: which sources work here, what can be derived from them, and how to get what is missing."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from pulsed.apps.doctor.machine import NVML
from pulsed.apps.doctor.report import Report, examine
from pulsed.cli.arguments import config_file, configuration
from pulsed.collector.collector import BALANCED
from pulsed.config.configuration import FILE_VARIABLE, Config
from pulsed.printable import clean
from pulsed.reader.settings import PRICE
from pulsed.translate.fields import ExporterVersion

SERVICE_FILE = Path("/etc/pulsed/config.yaml")
"""The configuration of the service that the packages install."""


def run(options: argparse.Namespace) -> int:
    """Print the report of the configuration of the service, unless another is named; return the exit code."""
    note = ""
    if config_file(options) is None and FILE_VARIABLE not in os.environ and os.path.isdir(SERVICE_FILE.parent):
        if os.access(SERVICE_FILE, os.R_OK):
            options.config_file, note = str(SERVICE_FILE), str(SERVICE_FILE)
        elif not os.access(SERVICE_FILE.parent, os.X_OK) or os.path.lexists(SERVICE_FILE):
            note = f"defaults; this user may not read {SERVICE_FILE}"
    if note and options.format == "table":
        sys.stdout.write(f"{'configuration':<15} {note}\n")
    return doctor(configuration(options), options.format, sys.stdout, options.exporter_version)


def doctor(config: Config, format: str, out: TextIO, exporter: ExporterVersion | None = None) -> int:
    """Print the report; return the exit code: 0 if any GPU can be served, otherwise 1.

    Args:
        format: `table` or `json`.
        exporter: version of the dcgm-exporters; None to conclude it from their pages.
    """
    logger = logging.getLogger("pulsed")
    before = logger.level
    if config.log.level != "debug":
        logger.setLevel(logging.ERROR)  # the report has the warnings
    try:
        report = examine(config, exporter)
    finally:
        logger.setLevel(before)
    if format == "json":
        json.dump(report, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in render(report))
    return 0 if report["can_serve"] else 1


_MAX_NAMED = 8


def render(report: Report) -> Iterator[str]:
    """Yield the lines of the report. Control characters in texts from elsewhere are replaced."""
    yield from map(clean, _lines(report))


def _lines(report: Report) -> Iterator[str]:
    machine = report["machine"]
    driver = f"NVIDIA driver {machine['driver']}" if machine["driver"] else "no NVIDIA driver"
    files = len(machine["device_files"])
    yield f"this machine    NVIDIA GPUs: {machine['gpus_on_bus']} on the PCI bus, {files} in /dev; {driver}"
    nvml = "can be loaded" if machine["has_nvml"] else "is missing"
    yield f"                {NVML} {nvml}"
    if machine["kernel_log_error"]:
        yield f"                the kernel log, for exact times of XIDs, cannot be used: {machine['kernel_log_error']}"
    elif machine["kernel_log"]:
        yield f"                the kernel log, for exact times of XIDs, can be read: {machine['kernel_log']}"
    else:
        yield "                the kernel log, for exact times of XIDs, is not read (health.kernel_log)"
    if report["interval_seconds"] is not None and report["interval_seconds"] < 1.0:
        yield f"interval        {report['interval_seconds']:g} s. {PRICE}"
    for sources in _equal_ones(report["sources"]):
        yield ""
        yield from _head_lines(sources)
        yield from _body_lines(sources[0])
    yield ""
    for number, check in enumerate(report["attribution"]):
        works = f"works, {check['note'] or '{} with owners'.format(check['devices'])}"
        state = works if check["works"] else check["note"]
        yield f"{'' if number else 'owners of GPUs':<15} {check['source']}: {state}"
    yield ""
    chosen = report["would_take"]
    if chosen is None:
        yield f"Nothing can be served. {report['advice']}"
    else:
        yield f"pulsed serve would read {chosen['kind']} ({_some(chosen['targets'])}): {chosen['why']}"
        if not report["can_serve"]:
            yield "Nothing can be served: it has no GPU."


def _equal_ones(sources: Sequence[Report]) -> Iterator[Sequence[Report]]:
    """Yield the sources in groups of equal ones, whose reports differ in the name of the target only."""
    groups: dict[tuple[str, ...], list[Report]] = {}
    for source in sources:
        lines = [*_head_lines([source]), *_body_lines(source)]
        groups.setdefault(tuple(line.replace(source["target"], "") for line in lines), []).append(source)
    yield from groups.values()


def _head_lines(sources: Sequence[Report]) -> Iterator[str]:
    source, names = sources[0], [each["target"] for each in sources]
    version = f" ({source['version']})" if source["version"] else ""
    boards = ", ".join(map(_board, source["boards"])) or "but there is no GPU"
    state = f"works, {boards}" if source["works"] else "does not work"
    if len(names) == 1:
        yield f"{source['kind']:<15} {names[0]}{version}: {state}"
    else:
        yield f"{source['kind']:<15} {len(names)} targets{version}: each {state}"
        yield f"    targets: {_some(names)}"


def _body_lines(source: Report) -> Iterator[str]:
    if source["error"]:
        yield f"    {source['error']}"
    if len(source["nodes"]) > 1:
        yield f"    nodes: {', '.join(source['nodes'])}"
    for reason, lost in source["lost_fields"].items():
        yield f"    left out, {reason.replace('_', ' ')}: DCGM fields {', '.join(map(str, lost['fields']))}"
        if lost["why"]:
            yield f"        {lost['why']}"
    for reason, why in source["without_counters"].items():
        yield f"    no profiling counters, {reason.replace('_', ' ')}: {why}"
    if source["outdated"]:
        yield f"    {source['outdated']}"
    if source["beside_dcgm"]:
        programs = ", ".join(source["beside_dcgm"])
        yield (
            f"    DCGM runs here, too ({programs}): two programs then read the profiling counters of the same GPUs. "
            "DCGM has more fields: use source.kind auto"
        )
    everything = ", ".join(gpu["name"] for gpu in source["gpus"])
    for derived in source["derived"]:
        yield from _derived_lines(derived, everything)
    if source["without_profiling"]:
        yield (
            f"    {_gpus(source['without_profiling'])}: vGPU guests, consumer boards before Blackwell, boards "
            "with unified memory and boards before Volta have no profiling counters (fields *_active_ratio), "
            "whatever the counters file has"
        )
    if source["confidential"]:
        yield (
            f"    {_gpus(source['confidential'])}: confidential computing is on, which switches performance counters "
            "off; the mode devtools has them"
        )
    if source["alternating_hosts"]:
        yield f"    {', '.join(source['alternating_hosts'])}: {BALANCED}"
    if source["flickering_owners"] and not source["alternating_hosts"]:
        names = _some(source["flickering_owners"])
        yield f"    the owners of GPU {names} are on some pages only, and are kept meanwhile; see whether the exporter"
        yield "    reaches the kubelet"
    if source["unknown_fields"]:
        yield f"    ignored unknown names: {_some(source['unknown_fields'])}"
    for step in source["steps"]:
        yield f"    {step['do']}{':' if step['lines'] else '.'}"
        yield from (f"        {line}" for line in step["lines"])
    if not source["steps"]:
        yield from (f"    {line}" for line in source["supply"])


def _derived_lines(derived: Report, everything: str) -> Iterator[str]:
    if not derived["missing"]:
        yield f"    {derived['name']}: all inputs"
        return
    yield f"    {derived['name']}: {derived['without']}; lacks"
    lacking: dict[str, list[str]] = {}
    for quantity, gpus in derived["missing"].items():
        where = "" if ", ".join(gpus) == everything else f" on {_gpus(gpus)}"
        lacking.setdefault(where, []).append(quantity)
    for where, quantities in lacking.items():
        yield f"        {', '.join(quantities)}{where}"


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + rest


def _gpus(names: Sequence[str]) -> str:
    return f"GPU {', '.join(names)}" if len(names) <= _MAX_NAMED else f"{len(names)} GPUs"


def _board(board: Report) -> str:
    instances = f"{board['instances']} MIG instance{'s' * (board['instances'] != 1)}"
    if not board["count"]:
        return instances
    name = f"{board['count']} x {board['model'] or 'GPU'}"
    if not board["instances"]:
        return name
    split = "" if board["count"] == 1 else f"{board['split']} of them "
    return f"{name} ({split}split into {instances})"
