"""The report of `pulsed doctor` as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pulsed.commands.doctor.machine import NVML
from pulsed.commands.doctor.report import Report

_MOST_NAMED = 8


def render(report: Report) -> Iterator[str]:
    """Yield the lines of the report. Control characters in texts from elsewhere are replaced."""
    for line in _lines(report):
        yield "".join(character if character.isprintable() else "?" for character in line)


def _lines(report: Report) -> Iterator[str]:
    machine = report["machine"]
    yield f"GPUs            {machine['gpus_on_bus']} on the PCI bus, {len(machine['device_files'])} in /dev"
    yield f"NVIDIA driver   {machine['driver'] or 'none'}"
    nvml = "can be loaded" if machine["has_nvml"] else "is missing"
    yield f"NVML            {NVML} {nvml}; this version of pulsed does not read it by itself"
    kernel_log = machine["kernel_log_error"]
    yield f"Kernel log      {f'cannot be read: {kernel_log}' if kernel_log else 'gives XIDs with their exact times'}"
    for source in report["sources"]:
        yield ""
        yield from _source_lines(source)
    yield ""
    chosen = report["would_take"]
    if chosen is None:
        yield f"Nothing can be served. {report['advice']}"
    else:
        yield f"pulsed serve would read {chosen['kind']} ({', '.join(chosen['targets'])}): {chosen['why']}"
        if not report["can_serve"]:
            yield "Nothing can be served: it has no GPU."


def _source_lines(source: Report) -> Iterator[str]:
    version = f" ({source['version']})" if source["version"] else ""
    state = f"works, {_models(source['gpus'])}" if source["works"] else "does not work"
    yield f"{source['kind']:<15} {source['target']}{version}: {state}"
    if source["error"]:
        yield f"    {source['error']}"
    if len(source["nodes"]) > 1:
        yield f"    nodes: {', '.join(source['nodes'])}"
    for reason, lost in source["lost_fields"].items():
        yield f"    left out, {reason.replace('_', ' ')}: DCGM fields {', '.join(map(str, lost['fields']))}"
        if lost["why"]:
            yield f"        {lost['why']}"
    for derived in source["derived"]:
        yield from _derived_lines(derived)
    if source["steps"]:
        yield from _step_lines(source["steps"])
    else:
        yield from (f"    {line}" for line in source["supply"])


def _derived_lines(derived: Report) -> Iterator[str]:
    if not derived["missing"]:
        yield f"    {derived['name']}: all inputs"
        return
    yield f"    {derived['name']}: {derived['without']}; lacks"
    for quantity, gpus in derived["missing"].items():
        yield f"        {quantity} on {'GPU ' + ', '.join(gpus) if len(gpus) <= _MOST_NAMED else f'{len(gpus)} GPUs'}"


def _step_lines(steps: Sequence[Report]) -> Iterator[str]:
    for step in steps:
        yield f"    {step['do']}{':' if step['lines'] else '.'}"
        yield from (f"        {line}" for line in step["lines"])


def _models(gpus: Sequence[Report]) -> str:
    if not gpus:
        return "but there is no GPU"
    kinds = Counter((gpu["model"] or "GPU") + (" MIG instance" if gpu["mig"] else "") for gpu in gpus)
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
