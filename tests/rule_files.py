"""The rule files that are shipped, each as `pulsed rules` makes it with the default configuration."""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.compute.compute import Settings
from pulsed.present.promql.rules import Choice, document

FILES: Mapping[str, Choice] = {
    "deploy/prometheus/rules/pulsed.yaml": Choice("alerting", "pulsed"),
    "deploy/prometheus/rules/dcgm.yaml": Choice("all", "dcgm"),
    "deploy/prometheus/rules/dcgm-recording.yaml": Choice("recording", "dcgm"),
    "helm/pulsed/files/rules.yaml": Choice("alerting", "pulsed"),
}


def text(file: str) -> str:
    """What belongs into one of the files."""
    return document(Settings(), FILES[file])
