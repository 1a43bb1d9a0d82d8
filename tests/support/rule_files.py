"""The rule files that are shipped, each as `pulsed rules` makes it with the default configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_set import RuleSelection, document

FILES: Mapping[str, RuleSelection] = {
    "deploy/prometheus/rules/pulsed.yaml": RuleSelection(),
    "deploy/prometheus/rules/dcgm.yaml": RuleSelection("all", "dcgm"),
    "deploy/prometheus/rules/dcgm-recording.yaml": RuleSelection("recording", "dcgm"),
    "helm/pulsed/files/rules.yaml": RuleSelection(),
    "deploy/mixin/rules.json": RuleSelection("recording"),
    "deploy/mixin/alerts.json": RuleSelection("alerting"),
}


def text(file: str) -> str:
    """What belongs into one of the files."""
    found = document(ComputeSettings(), FILES[file])
    return json.dumps(yaml.safe_load(found), indent=2) + "\n" if file.endswith(".json") else found
