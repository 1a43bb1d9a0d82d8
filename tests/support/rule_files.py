"""The rule files that are shipped, as `pulsed rules` makes them with the default configuration."""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_set import RuleSelection, document

FILES: Mapping[str, RuleSelection] = {
    "deploy/prometheus/rules/pulsed.yaml": RuleSelection(),
    "helm/pulsed/files/rules.yaml": RuleSelection(),
}


def text(file: str) -> str:
    """Return the text of one of the files."""
    return document(ComputeSettings(), FILES[file])
