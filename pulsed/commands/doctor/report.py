"""What `pulsed doctor` finds, as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pulsed import __version__
from pulsed.commands.doctor.derived import REQUIREMENTS, Requirement
from pulsed.commands.doctor.machine import advice, look
from pulsed.commands.doctor.remedies import lines, steps
from pulsed.commands.doctor.source_check import SourceCheck, choose, probe_all
from pulsed.config import Config
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import QUANTITIES, Reading

Report = dict[str, Any]


def examine(config: Config, root: Path = Path("/")) -> Report:
    """Look at this machine."""
    probes = asyncio.run(probe_all(config))
    machine = look(root)
    choice = choose(probes, config.source.kind)
    return {
        "version": __version__,
        "machine": asdict(machine) | {"driver": machine.driver or None, "device_files": list(machine.device_files)},
        "sources": [_source(probe, config) for probe in probes],
        "can_serve": bool(choice and any(True for probe in choice.probes for _ in _devices(probe))),
        "would_take": {
            "kind": choice.probes[0].kind,
            "targets": [probe.target for probe in choice.probes],
            "why": choice.why,
        }
        if choice
        else None,
        "advice": None if choice else advice(machine),
    }


def _source(probe: SourceCheck, config: Config) -> Report:
    derived = [_derived(each, probe, config) for each in REQUIREMENTS] if probe.works else []
    missing = dict.fromkeys(quantity for each in derived for quantity in each["missing"])
    supply = lines(missing, probe, config)
    found = list(_devices(probe))
    return {
        "kind": probe.kind,
        "target": probe.target,
        "works": probe.works,
        "error": probe.error or None,
        "version": probe.version or None,
        "nodes": list(dict.fromkeys(device.entity.node for device, _ in found)),
        "gpus": [_gpu(device) for device, _ in found],
        "quantities": [name for name in QUANTITIES if any(getattr(reading, name) is not None for _, reading in found)],
        "lost_fields": {
            reason: {"fields": list(fields), "why": probe.why.get(reason, "")} for reason, fields in probe.lost.items()
        },
        "derived": derived,
        "supply": list(supply),
        "steps": [asdict(step) | {"lines": list(step.lines)} for step in steps(supply, probe)],
    }


def _derived(derived: Requirement, probe: SourceCheck, config: Config) -> Report:
    settings = config.compute_settings()
    missing: dict[str, list[str]] = {}
    for device, reading in _devices(probe):
        for quantity in derived.missing(reading, device, settings):
            missing.setdefault(quantity, []).append(_name(device))
    return {
        "name": derived.name,
        "inputs": [list(choice) for choice in derived.inputs(settings)],
        "missing": missing,
        "without": derived.without(settings) if missing else None,
        "supply": list(lines(missing, probe, config)),
    }


def _devices(probe: SourceCheck) -> Iterator[tuple[Device, Reading]]:
    """The GPUs and instances; a split board, which speaks through its instances, is left out."""
    if probe.tick is None:
        return
    tick = probe.tick
    split = {device.entity.uuid for device in tick.devices if device.entity.kind == "mig"}
    for device, reading in zip(tick.devices, tick.readings, strict=True):
        if device.entity.kind == "mig" or not device.entity.uuid or device.entity.uuid not in split:
            yield device, reading


def _gpu(device: Device) -> Report:
    entity = device.entity
    mig = {"id": entity.mig_id, "profile": entity.mig_profile} if entity.kind == "mig" else None
    return {"name": _name(device), "node": entity.node, "uuid": entity.uuid, "model": device.model, "mig": mig}


def _name(device: Device) -> str:
    """As `/gpus/{gpu}` takes it."""
    entity = device.entity
    return f"{entity.gpu}:{entity.mig_id}" if entity.mig_id else entity.gpu or entity.uuid
