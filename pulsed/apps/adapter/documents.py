"""The metrics that autoscalers can name, and the documents of `custom.metrics.k8s.io` and `external.metrics.k8s.io`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pulsed.apps.adapter.numbers import Aggregate, How
from pulsed.json_text import rfc3339


class ScaleMetric(NamedTuple):
    """A metric of a pod or workload: a field of its GPUs, and how they are combined."""

    name: str
    field: str
    how: How


def scale_metrics(fields: Iterable[str]) -> Mapping[str, ScaleMetric]:
    """Return the metrics of these fields by name.

    A ratio is a mean under its name without `_ratio`, and a sum and a maximum with a suffix; other fields are sums.

    >>> list(scale_metrics(["saturation_ratio", "power_watts"]))
    ['gpu_saturation', 'gpu_saturation_sum', 'gpu_saturation_max', 'gpu_power_watts']
    """
    return {metric.name: metric for field in fields for metric in _of(field)}


def _of(field: str) -> Iterator[ScaleMetric]:
    name = f"gpu_{field.removeprefix('gpu_').removesuffix('_ratio')}"
    if field.endswith("_ratio"):
        yield ScaleMetric(name, field, "avg")
        yield ScaleMetric(f"{name}_sum", field, "sum")
        yield ScaleMetric(f"{name}_max", field, "max")
    else:
        yield ScaleMetric(name, field, "sum")


def quantity(value: float) -> str:
    """Return a number as a quantity of Kubernetes, rounded to a thousandth.

    >>> [quantity(value) for value in (0.9, 2.0, 0.0004, 80e9)]
    ['900m', '2', '0', '80000000000']
    """
    thousandths = round(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


Document = Mapping[str, Any]

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"

VERSIONS: Mapping[str, Sequence[str]] = {CUSTOM: ("v1beta2", "v1beta1"), EXTERNAL: ("v1beta1",)}
"""Versions of each group, the preferred one first."""


class ObjectType(NamedTuple):
    """A kind of objects with metrics."""

    kind: str
    api_version: str


OBJECTS: Mapping[str, ObjectType] = {
    "pods": ObjectType("Pod", "/v1"),
    "deployments.apps": ObjectType("Deployment", "apps/v1"),
    "statefulsets.apps": ObjectType("StatefulSet", "apps/v1"),
    "replicasets.apps": ObjectType("ReplicaSet", "apps/v1"),
    "daemonsets.apps": ObjectType("DaemonSet", "apps/v1"),
    "jobs.batch": ObjectType("Job", "batch/v1"),
    "cronjobs.batch": ObjectType("CronJob", "batch/v1"),
    "rollouts.argoproj.io": ObjectType("Rollout", "argoproj.io/v1alpha1"),
    "jobsets.jobset.x-k8s.io": ObjectType("JobSet", "jobset.x-k8s.io/v1alpha2"),
    "leaderworkersets.leaderworkerset.x-k8s.io": ObjectType("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"),
    "pytorchjobs.kubeflow.org": ObjectType("PyTorchJob", "kubeflow.org/v1"),
    "rayclusters.ray.io": ObjectType("RayCluster", "ray.io/v1"),
    "rayjobs.ray.io": ObjectType("RayJob", "ray.io/v1"),
}
"""By resource and group, as paths have them."""


def resources(group: str, version: str, metrics: Iterable[str]) -> Document:
    """Return the metrics of a group's version, for discovery."""
    if group == CUSTOM:
        names = [(f"{resource}/{metric}", "MetricValueList") for resource in OBJECTS for metric in metrics]
    else:
        names = [(metric, "ExternalMetricValueList") for metric in metrics]
    listed = [
        {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]} for name, kind in names
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}",
        "resources": listed,
    }


def api_group(group: str) -> Document:
    """Return a group and its versions."""
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in VERSIONS[group]]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def api_groups() -> Document:
    """Return all groups."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [api_group(group) for group in VERSIONS]}


def custom_value(
    version: str, described: ObjectType, namespace: str, name: str, metric: ScaleMetric, number: Aggregate
) -> Document:
    """Return a value of an object."""
    named: Document = (
        {"metricName": metric.name} if version == "v1beta1" else {"metric": {"name": metric.name, "selector": None}}
    )
    return {
        "describedObject": {
            "kind": described.kind,
            "namespace": namespace,
            "name": name,
            "apiVersion": described.api_version,
        },
        **named,
        **_value(number),
    }


def external_value(metric: ScaleMetric, labels: Mapping[str, str], number: Aggregate) -> Document:
    """Return a value of a workload."""
    return {"metricName": metric.name, "metricLabels": labels, **_value(number)}


def _value(number: Aggregate) -> Document:
    return {"timestamp": rfc3339(number.time), "windowSeconds": 0, "value": quantity(number.value)}


def value_list(group: str, version: str, items: Sequence[Document]) -> Document:
    """Return a list of values."""
    kind = "MetricValueList" if group == CUSTOM else "ExternalMetricValueList"
    return {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}, "items": items}


def plain_value(number: Aggregate, warnings: Sequence[str]) -> Document:
    """Return the document of a number outside of Kubernetes' APIs."""
    return {
        "value": number.value,
        "gpus": number.gpus,
        "pods": number.pods,
        "timestamp": rfc3339(number.time),
        "warnings": warnings,
    }


OPENAPI: Mapping[str, Document] = {
    "/openapi/v2": {"swagger": "2.0", "info": {"title": "pulsed adapter", "version": "v1"}, "paths": {}},
    "/openapi/v3": {"paths": {}},
}
"""The API server requests them every minute, and logs an error without."""


_REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    404: "NotFound",
    405: "MethodNotAllowed",
    503: "ServiceUnavailable",
}


def failure(code: int, message: str) -> Document:
    """Return the Status of an error."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS[code],
        "code": code,
    }
