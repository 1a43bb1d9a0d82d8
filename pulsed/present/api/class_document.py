"""The JSON document of why a GPU has its class: the rules of the class table in their order, with what decides them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from pulsed.compute.class_table import VARIABLES, Condition, Variable, rules_of
from pulsed.compute.derived_results import Deriver
from pulsed.compute.products import c2c_of
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.workload import C2C, inputs_of_variables
from pulsed.present.api.catalog_document import quantity_document
from pulsed.present.api.documents import Document, Match
from pulsed.present.api.event_documents import identity_document
from pulsed.present.time_text import rfc3339


def class_document(match: Match, settings: ComputeSettings) -> Document:
    """Return why a GPU has the class of its newest sample.

    Rules are listed up to the last one that the inputs allow. A rule holds if it is the only one that they allow; if
    they allow several, it is open which holds.
    """
    device, reading, result = match.device, match.reading, match.result
    deriver = Deriver(settings)
    bounds = result.rollup_bounds or deriver.bounds(reading)
    utilization = result.real_utilization.lower, result.real_utilization.upper
    allowed, io = deriver.reached_rules(device, reading, bounds, utilization)
    low, high = (*bounds.low, utilization[0], io[0]), (*bounds.high, utilization[1], io[1])
    ranges = dict(zip(VARIABLES, zip(low, high, strict=True), strict=True))
    has_c2c = device.whole and c2c_of(device.model) is not None
    absent = () if has_c2c else tuple(name for name in C2C if getattr(reading, name) is None)
    inputs = {
        variable: [name for name in names if name not in absent]
        for variable, names in inputs_of_variables(settings.profile).items()
    }
    table = rules_of(settings.profile)
    rules = {
        rule: [_condition(each, settings, ranges, inputs) for each in rule.conditions]
        for rule in table[: table.index(allowed[-1]) + 1]
    }
    deciding = dict.fromkeys(_deciding(match, [rules[rule] for rule in allowed])) if result.workload.candidates else ()
    return {
        **identity_document(device, match.node),
        "time": rfc3339(match.time),
        "class": result.held.workload_class,
        "raw_class": result.workload.raw_class,
        "candidates": list(result.workload.candidates),
        "rules": [
            {
                "class": rule.name,
                "reason": rule.reason or None,
                "holds": (None if len(allowed) > 1 else True) if rule in allowed else False,
                "conditions": conditions,
            }
            for rule, conditions in rules.items()
        ],
        "deciding_inputs": {name: quantity_document(name) for name in deciding},
    }


def _condition(
    condition: Condition,
    settings: ComputeSettings,
    ranges: Mapping[Variable, tuple[float, float]],
    inputs: Mapping[Variable, Sequence[str]],
) -> Document:
    """Return a condition with the bounds of its variable; it is open if it holds for a part of them."""
    low, high = ranges[condition.variable]
    threshold: float = getattr(settings.thresholds, condition.threshold)
    is_open = low < threshold <= high
    return {
        "variable": condition.variable,
        "inputs": inputs[condition.variable],
        "comparison": condition.comparison,
        "threshold": threshold,
        "low": low if isfinite(low) else None,
        "high": high if isfinite(high) else None,
        "holds": None if is_open else (high < threshold) == (condition.comparison == "<"),
    }


def _deciding(match: Match, rules: Sequence[Sequence[Document]]) -> Iterator[str]:
    """Yield the quantities without a reading that open conditions of some rules are about."""
    for conditions in rules:
        for condition in conditions:
            if condition["holds"] is None:
                names = condition["inputs"] or match.result.real_utilization.missing
                yield from (name for name in names if getattr(match.reading, name) is None)
