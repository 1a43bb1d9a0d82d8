"""`pulsed doctor`: tells a person which sources work here, what follows from them, and how to get what is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from pulsed import __version__
from pulsed.config import Config
from pulsed.preflight import Probe, driver_version, probe_all
from pulsed.translate.fields import Field, sources
from pulsed.translate.vocabulary import QUANTITIES, Reading, is_counter

INPUTS: Mapping[str, tuple[str, ...]] = {
    "real utilization": (
        "sm_active_ratio",
        "tensor_active_ratio",
        "dram_active_ratio",
        "graphics_engine_active_ratio",
    ),
    "workload class": (
        "sm_active_ratio",
        "tensor_active_ratio",
        "dram_active_ratio",
        "graphics_engine_active_ratio",
        "fp64_active_ratio",
        "pcie_transmit_bytes_per_second",
        "pcie_receive_bytes_per_second",
    ),
    "energy per class": ("energy_joules_total", "power_watts"),
    "idle, free or held": ("memory_used_bytes",),
}
"""What is derived, and from which quantities. A test holds it to what Compute reads."""

_BELOW_A_BOARD = frozenset({"pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second", "energy_joules_total"})
"""What exists for whole GPUs only: nobody can supply it for a MIG instance or a vGPU guest."""

Report = dict[str, Any]


def doctor(config: Config, format: str, out: TextIO) -> int:
    """Print the report; returns the exit code: 0 if something can be served, 1 if nothing.

    Args:
        config: says what to look at.
        format: `table` or `json`.
        out: where to print.
    """
    report = examine(config)
    if format == "json":
        json.dump(report, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in _told(report))
    return 0 if report["would_take"] else 1


def examine(config: Config) -> Report:
    """Look at this machine; the report as JSON."""
    probes = asyncio.run(probe_all(config))
    driver = driver_version()
    working = [probe for probe in probes if probe.works]
    chosen = _choice(working)
    return {
        "version": __version__,
        "driver": driver or None,
        "sources": [_source(probe) for probe in probes],
        "would_take": {"kind": chosen.kind, "target": chosen.target} if chosen else None,
        "advice": None if chosen else _advice(driver),
    }


def _choice(working: Sequence[Probe]) -> Probe | None:
    """What `auto` takes: the first that works, but rather one that is not kept from the profiling counters."""
    free = [probe for probe in working if "profiling_held" not in probe.lost]
    return next(iter(free or working), None)


def _advice(driver: str) -> str:
    if driver:
        return (
            "There is an NVIDIA driver, but nothing that measures: install DCGM (package datacenter-gpu-manager) and "
            "start nvidia-dcgm, or run a dcgm-exporter"
        )
    return (
        "There is no NVIDIA driver on this machine, so most likely no GPU. On a GPU node, install the driver and DCGM. "
        "Here, point source.exporter.targets to the exporters of other nodes, or look around with --source demo"
    )


def _source(probe: Probe) -> Report:
    gpus = [] if probe.tick is None else list(_devices(probe))
    return {
        "kind": probe.kind,
        "target": probe.target,
        "works": probe.works,
        "error": probe.error or None,
        "gpus": len(gpus),
        "lost_fields": {reason: list(fields) for reason, fields in probe.lost.items()},
        "derived": [_derived(name, probe) for name in INPUTS] if probe.works else [],
    }


def _derived(name: str, probe: Probe) -> Report:
    missing: dict[str, list[str]] = {}
    for gpu, whole, reading in _devices(probe):
        for quantity in INPUTS[name]:
            if getattr(reading, quantity) is None and (whole or quantity not in _BELOW_A_BOARD):
                missing.setdefault(quantity, []).append(gpu)
    if name == "energy per class" and len(missing) < len(INPUTS[name]):
        missing = {}  # either of the two is enough
    return {
        "name": name,
        "missing": missing,
        "supply": [line for quantity in missing for line in _supply(quantity, probe)],
    }


def _devices(probe: Probe) -> Iterator[tuple[str, bool, Reading]]:
    """The GPUs and instances, named; a split board, which speaks through its instances, is left out."""
    if probe.tick is None:
        return
    canonical = probe.tick.canonical
    split = {device.entity.uuid for device in canonical.devices if device.entity.mig_id}
    for device, reading in zip(canonical.devices, canonical.readings, strict=True):
        entity = device.entity
        if entity.mig_id or entity.uuid not in split:
            yield f"{entity.gpu}:{entity.mig_id}" if entity.mig_id else entity.gpu, device.whole, reading


def _supply(quantity: str, probe: Probe) -> Iterator[str]:
    """What would give the quantity: a line of dcgm-exporter's counters file, or why dcgmi cannot."""
    origins = sources(quantity)
    if not origins:
        return
    if probe.kind == "exporter":
        yield counters_line(quantity, origins[0])
    for reason, fields in probe.lost.items():
        lost = [field for field in origins if field.id in fields]
        yield from (f"field {field} is refused: {reason.replace('_', ' ')}" for field in lost)


def counters_line(quantity: str, field: Field) -> str:
    """The line of dcgm-exporter's counters file (`--collectors`, Helm's `customMetrics`) that asks for a field."""
    kind = "counter" if is_counter(quantity) else "gauge"
    return f"{field.names[0]}, {kind}, {QUANTITIES[quantity].meaning.replace(',', ';')}"


def _told(report: Report) -> Iterator[str]:
    """The report in words."""
    yield f"NVIDIA driver   {report['driver'] or 'none'}"
    for source in report["sources"]:
        yield ""
        state = f"works, {source['gpus']} GPUs and instances" if source["works"] else "does not work"
        yield f"{source['kind']:<15} {source['target']}: {state}"
        if source["error"]:
            yield f"    {source['error']}"
        for reason, fields in source["lost_fields"].items():
            yield f"    left out, {reason.replace('_', ' ')}: DCGM fields {', '.join(map(str, fields))}"
        for derived in source["derived"]:
            yield from _told_derived(derived)
        lines = list(dict.fromkeys(line for derived in source["derived"] for line in derived["supply"]))
        if lines and source["kind"] == "exporter":
            yield "    To get them, add to dcgm-exporter's counters file (Helm: the value customMetrics; GPU operator:"
            yield "    the ConfigMap of dcgmExporter.config):"
        yield from (f"        {line}" for line in lines)
    yield ""
    if report["would_take"]:
        chosen = report["would_take"]
        yield f"pulsed serve takes {chosen['kind']}: {chosen['target']}"
    else:
        yield f"Nothing can be served. {report['advice']}"


def _told_derived(derived: Report) -> Iterator[str]:
    if not derived["missing"]:
        yield f"    {derived['name']}: all inputs"
        return
    yield f"    {derived['name']}: lacks"
    for quantity, gpus in derived["missing"].items():
        yield f"        {quantity} on {'GPU ' + ', '.join(gpus) if len(gpus) <= 4 else f'{len(gpus)} GPUs'}"
