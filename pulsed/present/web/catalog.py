"""The tables that the page explains values with: class rules, quantities with their DCGM fields, and health checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.inputs import FACTS
from pulsed.compute.workload.class_table import WORKLOAD_CLASSES, ClassRule, rules_of
from pulsed.compute.workload.result import inputs_of_variables
from pulsed.present.counters_file import counters_line
from pulsed.translate.fields import DcgmField, sources
from pulsed.translate.vocabulary import QUANTITIES

Document = dict[str, Any]


def catalog_document(workload: Mapping[str, Any], weights: Mapping[str, float]) -> Document:
    """Return the tables.

    Args:
        workload: the section `compute.workload` of the configuration: profile and thresholds in force.
        weights: of real utilization, by quantity.
    """
    thresholds = workload["thresholds"]
    return {
        "classes": list(WORKLOAD_CLASSES),
        "rules": [_rule(rule, thresholds) for rule in rules_of(workload["profile"])],
        "variables": {name: list(quantities) for name, quantities in inputs_of_variables(workload["profile"]).items()},
        "weights": dict(weights),
        "quantities": {name: _quantity(name, each.meaning, each.group) for name, each in QUANTITIES.items()},
        "checks": {
            check.id: {
                "title": check.title,
                "rule": check.rule,
                "inputs": [name for name in check.inputs if name not in FACTS],
            }
            for check in CHECKS
        },
    }


def _rule(rule: ClassRule, thresholds: Mapping[str, float]) -> Document:
    return {
        "class": rule.name,
        "bottleneck": rule.bottleneck,
        "reason": rule.reason or None,
        "conditions": [[each.variable, each.comparison, thresholds[each.threshold]] for each in rule.conditions],
    }


def _quantity(name: str, meaning: str, group: str) -> Document:
    fields = sources(name)
    return {
        "meaning": meaning,
        "group": group,
        "fields": [{"id": field.id, "name": field.names[0] if field.names else field.short} for field in fields],
        "counters_line": next((counters_line(each, each.names[0]) for each in fields if _has_name(each)), None),
    }


def _has_name(field: DcgmField) -> bool:
    """Return whether dcgm-exporter has a name for a field."""
    return bool(field.names)
