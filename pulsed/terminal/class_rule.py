"""Why a GPU has its class, from `/gpus/{gpu}/class`: the rule that holds, with the values that it compares; of an
unknown class the inputs that would decide it."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.terminal.model import Document
from pulsed.terminal.numbers import Number, metric, percent

_NAMES = {
    "sm": "SM", "tensor": "tensor", "dram": "DRAM", "graphics_engine": "engine", "fp64": "FP64",
    "real_utilization": "real utilization", "io": "PCIe",
}  # fmt: skip


def class_reasons(reason: Document) -> Iterator[str]:
    """Yield sentences about the class of the newest sample; none if the document is empty: the daemon has no route."""
    if not reason:
        return
    raw, candidates = reason["raw_class"], reason["candidates"]
    if candidates:
        yield f"unknown: the inputs allow {', '.join(_words(name) for name in candidates)}"
        if inputs := reason["deciding_inputs"]:
            yield f"these inputs would decide it: {', '.join(_input(name, each) for name, each in inputs.items())}"
        return
    if raw != reason["class"]:
        yield f"the newest sample alone is {_words(raw)}; a class changes when it lasts"
    rule = next(rule for rule in reason["rules"] if rule["holds"] is not False)
    conditions = ", ".join(map(_condition, rule["conditions"]))
    yield f"rule of {_words(rule['class'])}: {conditions or 'no other rule matches'}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _condition(condition: Document) -> str:
    variable, low = condition["variable"], condition["low"]
    name: str = _NAMES.get(variable) or variable
    if any(each.startswith("c2c_") for each in condition["inputs"]):
        name += " and C2C"
    value = _text(variable, low if low == condition["high"] else None)
    threshold = _text(variable, condition["threshold"])
    return f"{name} {value} ({condition['comparison']} {threshold})"


def _text(variable: str, value: Number) -> str:
    if value is None:
        return "--"
    return metric(value, "B/s") if variable == "io" else f"{percent(value)} %"


def _input(name: str, quantity: Document) -> str:
    fields = quantity["fields"]
    return f"{name} (DCGM field {fields[0]['id']})" if fields else name
