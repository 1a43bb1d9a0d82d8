"""Which pods attribution reads from the Kubernetes API, and what of them."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.kubernetes.pod_metadata import ObjectKind, PodMetadata
from pulsed.kubernetes.workload_resolver import WorkloadReference

MAX_LABELS = 16
"""Labels of a pod that are kept."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Which pods are read, and what of them.

    Attributes:
        node: whose pods are watched; pods of other nodes are requested, or listed if many of a namespace are due.
        name_labels: labels that name the workload, the first that a pod has.
        kinds: as for `WorkloadResolver`.
        labels: names of labels that owners get; a `*` at the end stands for any characters.
    """

    node: str
    name_labels: tuple[str, ...] = ()
    kinds: tuple[ObjectKind, ...] = ()
    labels: tuple[str, ...] = ()

    def is_shown(self, label: str) -> bool:
        """Return whether owners get a label."""
        return any(label.startswith(each[:-1]) if each.endswith("*") else label == each for each in self.labels)

    def shown(self, pod: PodMetadata) -> tuple[tuple[str, str], ...]:
        """Return the labels of a pod that owners get, in order of their names."""
        return tuple(pair for pair in sorted(pod.labels.items()) if self.is_shown(pair[0]))[:MAX_LABELS]

    def keeps(self, label: str) -> bool:
        """Return whether a label is of use."""
        return label in self.name_labels or self.is_shown(label)

    def workload(self, pod: PodMetadata, resolved: WorkloadReference) -> WorkloadReference:
        """Return the workload of a pod: a label of the pod may name it."""
        name = next((pod.labels[label] for label in self.name_labels if pod.labels.get(label)), resolved.name)
        return resolved._replace(name=name)
