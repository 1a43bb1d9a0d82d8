"""Why a GPU has its class: the rule that matched, with the values that it compares; of an unknown class the inputs
without a reading that its candidates need. The rules are those of `/catalog`, with the thresholds in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulsed.present.terminal.model import Document
from pulsed.present.terminal.numbers import Number, metric, percent

_NAMES = {
    "sm": "SM", "tensor": "tensor", "dram": "DRAM", "graphics_engine": "engine", "fp64": "FP64",
    "real_utilization": "real utilization", "io": "PCIe",
}  # fmt: skip


def class_reasons(detail: Document, catalog: Document) -> Iterator[str]:
    """Yield sentences about the class of the newest sample.

    Args:
        detail: the document of a GPU.
        catalog: that of `/catalog`; empty if the daemon has none.
    """
    workload = detail.get("workload")
    if not workload or not catalog:
        return
    raw, candidates = workload["raw_class"], workload["candidates"]
    if raw == "unknown":
        inputs = _deciding_inputs(detail, catalog, candidates)
        yield f"unknown: the inputs allow {', '.join(_words(name) for name in candidates)}"
        if inputs:
            yield f"these inputs would decide it: {', '.join(_input(name, catalog) for name in inputs)}"
        return
    if raw != workload["class"]:
        yield f"the newest sample alone is {_words(raw)}; a class changes when it lasts"
    rule = next(
        (rule for rule in catalog["rules"] if rule["class"] == raw and _is_possible(rule, detail, catalog)), None
    )
    if rule is not None:
        conditions = ", ".join(_condition(each, detail, catalog) for each in rule["conditions"])
        yield f"rule of {_words(raw)}: {conditions or 'no other rule matches'}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(variable: str, detail: Document, catalog: Document) -> Number:
    """Return the value of a variable of the rules; None if it has no reading."""
    if variable == "real_utilization":
        ratio: Number = detail["real_utilization"]["ratio"]
        return ratio
    values = [detail["metrics"].get(name) for name in catalog["variables"][variable]]
    known = [value for value in values if value is not None]
    return max(known) if known else None  # of the directions of links the largest one


def _name(variable: str, detail: Document, catalog: Document) -> str:
    if variable == "io" and any(name.startswith("c2c_") for name in _quantities(variable, detail, catalog)):
        return "PCIe and C2C"
    return _NAMES.get(variable, variable)


def _quantities(variable: str, detail: Document, catalog: Document) -> list[str]:
    """Return the quantities that determine a variable; those of the link between chips of superchips alone."""
    has_c2c = "c2c" in detail.get("saturation", {}).get("missing", ())
    return [
        name
        for name in catalog["variables"][variable]
        if has_c2c or not name.startswith("c2c_") or detail["metrics"].get(name) is not None
    ]


def _is_possible(rule: Mapping[str, Any], detail: Document, catalog: Document) -> bool:
    """Return whether no known value violates a condition: a class may have several rules."""
    for variable, comparison, threshold in rule["conditions"]:
        value = _value(variable, detail, catalog)
        if value is not None and (value < threshold) != (comparison == "<"):
            return False
    return True


def _condition(condition: Sequence[Any], detail: Document, catalog: Document) -> str:
    variable, comparison, threshold = condition
    value = _value(variable, detail, catalog)
    return f"{_name(variable, detail, catalog)} {_text(variable, value)} ({comparison} {_text(variable, threshold)})"


def _text(variable: str, value: Number) -> str:
    if value is None:
        return "--"
    return metric(value, "B/s") if variable == "io" else f"{percent(value)} %"


def _deciding_inputs(detail: Document, catalog: Document, candidates: Sequence[str]) -> list[str]:
    """Return the quantities without a reading that rules of the candidates use."""
    names: dict[str, None] = {}
    for rule in catalog["rules"]:
        for variable, _, _ in rule["conditions"] if rule["class"] in candidates else ():
            quantities = _quantities(variable, detail, catalog)
            if variable == "real_utilization":
                quantities = detail["real_utilization"]["missing_inputs"]
            names |= dict.fromkeys(name for name in quantities if detail["metrics"].get(name) is None)
    return list(names)


def _input(name: str, catalog: Document) -> str:
    fields = catalog["quantities"].get(name, {}).get("fields")
    return f"{name} (DCGM field {fields[0]['id']})" if fields else name
