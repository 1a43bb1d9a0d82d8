"""The JSON document of the tables that explain values: class rules, quantities DCGM fields, and health checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pulsed.compute.class_table import ClassRule, rules_of
from pulsed.compute.health.checks import CHECKS
from pulsed.compute.health.inputs import FACTS
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.workload import inputs_of_variables
from pulsed.model.vocabulary import QUANTITIES, WORKLOAD_CLASSES
from pulsed.present.counters_file import counters_line
from pulsed.translate.fields import sources

Document = dict[str, Any]


def catalog_document(settings: ComputeSettings) -> Document:
    """Return the tables, with profile, thresholds and weights of these settings."""
    thresholds = asdict(settings.thresholds)
    return {
        "classes": list(WORKLOAD_CLASSES),
        "rules": [_rule(rule, thresholds) for rule in rules_of(settings.profile)],
        "variables": {name: list(quantities) for name, quantities in inputs_of_variables(settings.profile).items()},
        "weights": asdict(settings.weights),
        "quantities": {name: quantity_document(name) for name in QUANTITIES},
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


def quantity_document(name: str) -> Document:
    """Return the meaning of a quantity and how a source provides it."""
    fields, quantity = sources(name), QUANTITIES[name]
    return {
        "meaning": quantity.meaning,
        "group": quantity.group,
        "fields": [{"id": field.id, "name": field.names[0] if field.names else field.short} for field in fields],
        "counters_line": next((counters_line(each, each.names[0]) for each in fields if each.names), None),
    }
