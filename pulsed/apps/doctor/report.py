"""What `pulsed doctor` finds, as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pulsed import __version__
from pulsed.apps.doctor.machine import advice, inspect_machine
from pulsed.apps.doctor.remedies import is_accepted, outdated, steps, supply
from pulsed.apps.doctor.source_check import (
    AttributionCheck,
    SourceCheck,
    check_attribution,
    check_workloads,
    choose,
    probe_all,
)
from pulsed.collector.attribution_sources import attribution_sources
from pulsed.collector.this_host import kernel_log_of
from pulsed.compute.declaration import Alternatives
from pulsed.compute.derived_results import DERIVED_RESULTS
from pulsed.compute.product_parts import has_profiling, has_quantity, is_of_boards
from pulsed.compute.settings import ComputeSettings
from pulsed.config.configuration import Config
from pulsed.model.gpu import Device
from pulsed.model.vocabulary import QUANTITIES, Reading
from pulsed.owners.attribution.gpu_processes import GpuProcessTable
from pulsed.translate.fields import ExporterVersion, is_profiling, sources

Report = dict[str, Any]


def examine(config: Config, exporter: ExporterVersion | None) -> Report:
    """Check the sources and this machine.

    Args:
        exporter: version of the dcgm-exporters; None to conclude it from their pages.
    """
    probes, attribution = asyncio.run(_check_sources(config, exporter))
    machine = inspect_machine(kernel_log=kernel_log_of(config))
    choice = choose(probes, config.source.kind)
    shown = {"driver": machine.driver or None, "device_files": list(machine.device_files), "dcgm": list(machine.dcgm)}
    return {
        "version": __version__,
        "machine": asdict(machine) | shown,
        "interval_seconds": config.source.interval,
        "sources": [_source(probe, config, machine.dcgm) for probe in probes],
        "attribution": [asdict(check) for check in attribution],
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


async def _check_sources(
    config: Config, exporter: ExporterVersion | None
) -> tuple[Sequence[SourceCheck], Sequence[AttributionCheck]]:
    probes = await probe_all(config, exporter)
    sources = attribution_sources(config, GpuProcessTable())
    return probes, [*await check_attribution(sources, probes), *await check_workloads(config)]


def _source(probe: SourceCheck, config: Config, dcgm: Sequence[str]) -> Report:
    whole_gpus = [(device, reading) for device, reading, is_split in _devices(probe) if not is_split]
    derived = [_derived(each, probe, config) for each in REQUIREMENTS] if whole_gpus else []
    confidential = [device.entity.name for device, reading in whole_gpus if _is_confidential(reading)]
    unavailable = [
        device.entity.name
        for device, reading in whole_gpus
        if not (has_profiling(device) or _is_profiled(reading) or device.entity.name in confidential)
    ]
    missing = {
        quantity: None
        for each in derived
        for quantity, gpus in each["missing"].items()
        if not set(gpus) <= {*unavailable, *confidential} or not is_profiled(quantity)
    }
    are_profiled = len(unavailable) + len(confidential) < len(whole_gpus)
    additions = supply(missing, probe, config, are_profiled=are_profiled)
    models = {device.model for device, _ in whole_gpus}
    return {
        "kind": probe.kind,
        "target": probe.target,
        "works": probe.works,
        "error": probe.error or None,
        "version": probe.version or None,
        "nodes": list(dict.fromkeys(device.entity.node for device, _ in whole_gpus)),
        "boards": _boards(probe),
        "gpus": [_gpu(device) for device, _ in whole_gpus],
        "quantities": [
            name for name in QUANTITIES if any(getattr(reading, name) is not None for _, reading, _ in _devices(probe))
        ],
        "lost_fields": {
            reason: {"fields": list(fields), "why": probe.why.get(reason, "")} for reason, fields in probe.lost.items()
        },
        "without_counters": dict(probe.without_counters),
        "outdated": outdated(probe, [device for device, _ in whole_gpus]) or None,
        "beside_dcgm": list(dcgm) if probe.kind == "nvml" and probe.works else [],
        "derived": derived,
        "without_profiling": unavailable,
        "confidential": confidential,
        "alternating_hosts": list(probe.alternating_hosts),
        "flickering_owners": list(probe.flickering_owners),
        "unknown_fields": list(probe.tick.unknown_fields) if probe.tick else [],
        "supply": list(additions.lines),
        "supply_newer": {name: str(version) for name, version in additions.newer},
        "steps": [asdict(step) | {"lines": list(step.lines)} for step in steps(additions, probe, models)],
    }


def _is_profiled(reading: Reading) -> bool:
    """Return whether a reading has profiling counters, regardless of its product."""
    return any(value is not None for name, value in zip(QUANTITIES, reading, strict=True) if is_profiled(name))


def _is_confidential(reading: Reading) -> bool:
    """Return whether a mode of confidential computing withholds the profiling counters; `devtools` does not."""
    return bool(reading.confidential_compute_mode) and not _is_profiled(reading)


def _derived(derived: Requirement, probe: SourceCheck, config: Config) -> Report:
    settings = config.compute_settings()
    missing: dict[str, list[str]] = {}

    def is_available(quantity: str) -> bool:
        return not probe.exporter_versions or is_accepted(quantity, probe.exporter_versions)

    for device, reading, is_split in _devices(probe):
        for quantity in derived.missing(reading, device, settings, is_available, is_split=is_split):
            missing.setdefault(quantity, []).append(device.entity.name)
    return {
        "name": derived.name,
        "inputs": [list(choice) for choice in derived.inputs(settings)],
        "missing": missing,
        "without": derived.without(settings) if missing else None,
    }


def _boards(probe: SourceCheck) -> list[Report]:
    """Return the boards by model: how many, how many of them are split, and into how many MIG instances."""
    boards: dict[str, dict[tuple[str, str], int]] = {}
    for device in probe.tick.devices if probe.tick else ():
        entity = device.entity
        instances = boards.setdefault(device.model, {})
        board = entity.board if entity.uuid or entity.gpu else ("", "")
        instances[board] = instances.get(board, 0) + (entity.kind == "mig")
    return [
        {
            "model": model,
            "count": sum(any(board) for board in instances),
            "split": sum(number > 0 for number in instances.values()),
            "instances": sum(instances.values()),
        }
        for model, instances in boards.items()
    ]


def _devices(probe: SourceCheck) -> Iterator[tuple[Device, Reading, bool]]:
    """Yield GPUs and instances, each with whether it is a split board: its instances have a part of its readings."""
    for row in probe.tick.gpus if probe.tick is not None else ():
        yield row.device, row.reading, row.is_split


def _gpu(device: Device) -> Report:
    entity = device.entity
    mig = {"id": entity.mig_id, "profile": entity.mig_profile} if entity.kind == "mig" else None
    return {"name": entity.name, "node": entity.node, "uuid": entity.uuid, "model": device.model, "mig": mig}


def is_profiled(quantity: str) -> bool:
    """Return whether profiling counters alone have a quantity."""
    origins = sources(quantity)
    return bool(origins) and all(is_profiling(field.id) for field in origins)


@dataclass(frozen=True, slots=True)
class Requirement:
    """The inputs of a result.

    Attributes:
        inputs: returns what it needs with the given settings.
        without: returns the effect of a missing input.
    """

    name: str
    inputs: Callable[[ComputeSettings], tuple[Alternatives, ...]]
    without: Callable[[ComputeSettings], str]

    def missing(
        self,
        reading: Reading,
        device: Device,
        settings: ComputeSettings,
        is_available: Callable[[str], bool] = lambda quantity: True,
        *,
        is_split: bool = False,
    ) -> tuple[str, ...]:
        """Return the inputs that the reading of a device lacks, each once.

        Args:
            is_available: whether the source can deliver a quantity; of alternatives the first such one is returned.
            is_split: whether it is a board with MIG instances. These have all readings that are not of boards only, and
                a split board has no profiling counters of its own.
        """
        lacking = []
        for alternatives in self.inputs(settings):
            possible = [quantity for quantity in alternatives if has_quantity(device, quantity)]
            if is_split and not all(is_of_boards(each) and not is_profiled(each) for each in possible):
                continue
            if possible and all(getattr(reading, quantity) is None for quantity in possible):
                lacking.append(next(filter(is_available, possible), possible[0]))
        return tuple(dict.fromkeys(lacking))


_COUNTERS = (
    Requirement(
        "class_energy_joules",
        lambda settings: (("energy_joules_total", "power_watts"),),
        lambda settings: "it is absent",
    ),
    Requirement(
        "idle_seconds",
        lambda settings: (("memory_used_bytes",),),
        lambda settings: "idle GPUs without a known pod or job count as unknown, neither free nor held",
    ),
)

_RESULTS = [Requirement(result.name, result.inputs, result.without) for result in DERIVED_RESULTS]

REQUIREMENTS: tuple[Requirement, ...] = tuple(sorted((*_RESULTS, *_COUNTERS), key=lambda each: each.name == "health"))
"""In the order of the report; health is last, because hardly any node has all of its inputs."""
