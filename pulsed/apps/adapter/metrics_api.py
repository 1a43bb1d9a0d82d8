"""The requests of HorizontalPodAutoscalers, as the API server forwards them, and of KEDA.

A number that is not certain is never answered: a pod without one is left out, and for a workload the answer is an
error, so that the autoscaler keeps the replicas that it has. A sum needs all GPUs of the workload's pods that do not
end; a mean, a maximum and a minimum need a part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import get_args

from pulsed.apps.adapter.cluster_gpus import ClusterGpus, NamespaceGpus
from pulsed.apps.adapter.documents import (
    CUSTOM,
    EXTERNAL,
    OBJECTS,
    VERSIONS,
    Document,
    ScaleMetric,
    api_group,
    api_groups,
    custom_value,
    external_value,
    plain_value,
    resources,
    value_list,
)
from pulsed.apps.adapter.numbers import (
    POD_KIND,
    Aggregate,
    How,
    WorkloadKey,
    aggregate,
    is_of,
    left_out,
    unresolved_pod,
    workload_number,
)
from pulsed.errors import NumberUnknown, did_you_mean
from pulsed.kubernetes.objects import Labels, parse_selector
from pulsed.present.autoscale import PodGpu

HOWS: Mapping[str, How] = {how: how for how in get_args(How)}
"""By the text of a request."""


class RequestFailed(Exception):
    """A request that is answered with an error.

    Attributes:
        code: status of HTTP.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MetricsApi:
    """The documents of all paths below `/apis`.

    Args:
        min_coverage: part of a workload's GPUs, from 0 to 1, whose values a mean, a maximum or a minimum needs.
    """

    def __init__(self, gpus: ClusterGpus, metrics: Mapping[str, ScaleMetric], min_coverage: float) -> None:
        self._gpus, self._metrics, self._min_coverage = gpus, metrics, min_coverage

    def get(
        self, path: Sequence[str], query: Mapping[str, str], warn: Callable[[str], None] = lambda _: None
    ) -> Document:
        """Return the document of a path, given by its parts after `apis`, decoded.

        Args:
            warn: called with what a number leaves out.

        Raises:
            RequestFailed: the number is unavailable.
        """
        if not path:
            return api_groups()
        group, *rest = path
        if group not in VERSIONS:
            raise RequestFailed(404, f"there is no API group {group}")
        if not rest:
            return api_group(group)
        version, *rest = rest
        if version not in VERSIONS[group]:
            raise RequestFailed(404, f"{group} has no version {version}")
        if not rest:
            return resources(group, version, self._metrics)
        self.check_ready()
        if group == CUSTOM and len(rest) == 5 and rest[0] == "namespaces":
            namespace, resource, name, metric = rest[1:]
            return self._custom(version, namespace, resource, name, self._metric(metric), query, warn)
        if group == EXTERNAL and len(rest) == 3 and rest[0] == "namespaces":
            return self._external(version, rest[1], self._metric(rest[2]), query, warn)
        raise RequestFailed(
            404, "metrics are those of objects in a namespace: namespaces/NAMESPACE/RESOURCE/NAME/METRIC"
        )

    def number(self, path: Sequence[str]) -> Document:
        """Return the document of a path below `ROUTES`, given by its decoded parts: one number of a workload or pod.

        Raises:
            RequestFailed: the number is unavailable.
        """
        if len(path) != 5:
            raise RequestFailed(404, "a number is at SUM|AVG|MAX|MIN/NAMESPACE/KIND/NAME/METRIC")
        how, namespace, kind, name, metric = path
        if how not in HOWS:
            raise RequestFailed(404, f"{how!r} is not one of {', '.join(HOWS)}")
        fields = {each.field for each in self._metrics.values()}
        if not (field := next((each for each in (metric, f"{metric}_ratio") if each in fields), None)):
            hint = did_you_mean(metric, fields, f"adapter.fields has {', '.join(sorted(fields))}")
            raise RequestFailed(404, f"there is no number {metric!r}; {hint}")
        self.check_ready()
        warnings: list[str] = []
        workload = WorkloadKey(namespace, kind, name)
        scale_metric = ScaleMetric(f"{how} of {field}", field, HOWS[how])
        return plain_value(
            self._number(self._gpus.in_namespace(namespace), workload, scale_metric, warnings.append), warnings
        )

    def check_ready(self) -> None:
        """Raise an error until the pods of the cluster are known, and all daemons have been tried."""
        if not self._gpus.is_ready:
            raise RequestFailed(503, self._gpus.problem or "the daemons of the cluster have not been read yet")

    def _custom(
        self,
        version: str,
        namespace: str,
        resource: str,
        name: str,
        metric: ScaleMetric,
        query: Mapping[str, str],
        warn: Callable[[str], None],
    ) -> Document:
        described = OBJECTS.get(resource)
        if described is None:
            raise RequestFailed(404, f"{resource} have no metrics; these have: {', '.join(OBJECTS)}")
        if name == "*" and described.kind != POD_KIND:
            raise RequestFailed(404, f"{resource} have metrics by their names only")
        if not _selector(query, "metricLabelSelector")({}):
            return value_list(CUSTOM, version, [])
        gpus = self._gpus.in_namespace(namespace)
        if name != "*":
            number = self._number(gpus, WorkloadKey(namespace, described.kind, name), metric, warn)
            return value_list(CUSTOM, version, [custom_value(version, described, namespace, name, metric, number)])
        matches = _selector(query, "labelSelector")
        by_pod: dict[str, list[PodGpu]] = {}
        for row in gpus.rows:
            by_pod.setdefault(row.pod, []).append(row)
        items = []
        for pod, rows in by_pod.items():
            if matches(self._gpus.labels(namespace, pod)):
                with suppress(NumberUnknown):
                    number = aggregate(rows, metric.how, metric.field)
                    items.append(custom_value(version, described, namespace, pod, metric, number))
        return value_list(CUSTOM, version, items)

    def _external(
        self,
        version: str,
        namespace: str,
        metric: ScaleMetric,
        query: Mapping[str, str],
        warn: Callable[[str], None],
    ) -> Document:
        matches = _selector(query, "labelSelector")
        gpus = self._gpus.in_namespace(namespace)
        items = []
        for kind, name in dict.fromkeys((row.workload_kind, row.workload) for row in gpus.rows if row.workload):
            labels = {"namespace": namespace, "workload": name, "workload_kind": kind}
            if matches(labels):
                number = self._number(gpus, WorkloadKey(namespace, kind, name), metric, warn)
                items.append(external_value(metric, labels, number))
        if not items and (reason := self._gpus.problem or unresolved_pod(gpus.rows, namespace)):
            raise RequestFailed(503, reason)
        return value_list(EXTERNAL, version, items)

    def _number(
        self, gpus: NamespaceGpus, workload: WorkloadKey, metric: ScaleMetric, warn: Callable[[str], None]
    ) -> Aggregate:
        own = [row for row in gpus.rows if is_of(row, workload)]
        try:
            number = workload_number(gpus.rows, workload, metric.how, metric.field, lambda: self._gpus.problem)
            if number is None:
                raise RequestFailed(404, f"{workload} has no GPU")
            if (coverage := number.shares / sum(row.share for row in own)) < self._min_coverage:
                least = f"adapter.min_coverage is {self._min_coverage:g}, and this is {coverage:.2f}"
                raise NumberUnknown(f"{left_out(own, metric.field)}; {least}")
        except NumberUnknown as error:
            raise RequestFailed(503, f"{metric.name} of {workload} is not known: {error}") from error
        ended = [row for row in gpus.ended if is_of(row, workload)]
        if number.stale or ended:
            warn(f"{metric.name} of {workload} is without these GPUs: {left_out([*own, *ended], metric.field)}")
        return number

    def _metric(self, name: str) -> ScaleMetric:
        metric = self._metrics.get(name)
        if metric is None:
            hint = did_you_mean(name, self._metrics, f"there are {', '.join(self._metrics)}")
            raise RequestFailed(404, f"there is no metric {name}; {hint}")
        return metric


def _selector(query: Mapping[str, str], name: str) -> Callable[[Labels], bool]:
    try:
        return parse_selector(query.get(name, ""))
    except ValueError as error:
        raise RequestFailed(400, f"{name}: {error}") from error
