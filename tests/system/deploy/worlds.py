"""Workloads to scale, in a real Prometheus with the shipped rules, and the queries of the examples."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.exporters import Exporter, exporting
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import until
from tests.system.deploy.chart import CHART, Manifest

ROOT = CHART.parents[1]
EXAMPLES = CHART / "examples"

SCRAPES = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yaml]
scrape_configs: [{{job_name: pulsed, honor_labels: true, static_configs: [{{targets: ["{address}"]}}]}}]
"""

TARGET = 0.6
"""`publish.scale_target` of the shipped rules."""


def example(name: str) -> Manifest:
    """Return an example."""
    found: Manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return found


def triggers() -> list[Mapping[str, Any]]:
    """Return the triggers of the ScaledObject."""
    found: list[Mapping[str, Any]] = example("scaledobject")["spec"]["triggers"]
    return found


@dataclass
class World:
    """A workload: its replicas by kube-state-metrics, and its pods with the values of their GPUs.

    Attributes:
        replicas: None without kube-state-metrics.
        pods: by pod the value of each of its GPUs, None of a GPU without one; a silent pod is absent.
        copies: instances of kube-state-metrics.
        is_split: whether the GPUs of a pod are MIG instances.
        scale: what the rules shall give; None for no answer.
        wanted: the replicas that an autoscaler shall ask for; None if it has no metric.
    """

    replicas: int | None
    pods: Mapping[str, list[float | None]]
    scale: float | None
    wanted: int | None
    kind: str = "Deployment"
    copies: int = 1
    is_split: bool = False
    others: Mapping[str, list[float | None]] = field(default_factory=dict)

    def page(self, namespace: str) -> Iterator[str]:
        """Yield the samples of daemons and kube-state-metrics."""
        yield self.history(namespace)
        if self.replicas is not None:
            kind = self.kind.lower()
            for copy in range(self.copies):
                labels = f'namespace="{namespace}",{kind}="infer",instance="{copy}"'
                yield f"kube_{kind}_status_replicas{{{labels}}} {self.replicas}"
        gpu = 0
        for workload, pods in (("infer", self.pods), ("other", self.others)):
            for pod, values in pods.items():
                for value in values:
                    gpu += 1
                    of_gpu = f'node="{namespace}",gpu="{gpu}",uuid="GPU-{gpu}"'
                    if self.is_split:
                        of_gpu = f'node="{namespace}",gpu="0",uuid="GPU-0",mig_id="{gpu}"'
                    owner = f'namespace="{namespace}",pod="{pod}",container="c",workload="{workload}"'
                    owner += f',workload_kind="{self.kind}"'
                    yield f'pulsed_gpu_owner_info{{{of_gpu},kind="pod",{owner}}} 1'
                    if value is not None:
                        for name in ("real_utilization", "saturation"):
                            yield f"pulsed_gpu_{name}_ratio{{{of_gpu}}} {value}"

    def history(self, namespace: str) -> str:
        """Return the sample of a daemon that had a pod of the workload."""
        labels = f'namespace="{namespace}",workload="infer",workload_kind="{self.kind}"'
        return f"pulsed_workload_pods{{{labels}}} 1"


def pods(*values: float | None) -> dict[str, list[float | None]]:
    """Return pods with a GPU each."""
    return {f"infer-{number}": [value] for number, value in enumerate(values)}


WORLDS: Mapping[str, World] = {
    "all busy": World(4, pods(0.9, 0.9, 0.9, 0.9), 3.6, 6),
    "one silent, others busy": World(4, pods(0.9, 0.9, 0.9), 2.7, 5),
    "one silent, others little used": World(4, pods(0.2, 0.2, 0.2), 1.6, 3),
    "two silent, two idle": World(4, pods(0, 0), 2.0, 4),
    "all silent": World(4, {}, 2.4, 4),
    "no pods": World(0, {}, 0, 0),
    "rollout, the new pod silent": World(5, pods(0.9, 0.9, 0.9, 0.9), 3.6, 6),
    "rollout, new pods little used": World(5, pods(0.9, 0.9, 0.1, 0.1, 0.1), 2.1, 4),
    "half of the pods pending, others full": World(8, pods(1, 1, 1, 1), 4.8, 8),
    "half of the pods pending, others little used": World(8, pods(0.2, 0.2, 0.2, 0.2), 4.8, 8),
    "woken": World(1, {}, 0.6, 1),
    "idle": World(1, pods(0), 0, 0),
    "no kube-state-metrics": World(None, pods(0.9), None, None),
    # besides
    "half-known pod of a StatefulSet": World(1, {"infer-0": [0.1, None]}, 0.6, 1, "StatefulSet"),
    "MIG": World(2, {"a": [0.9, 0.9], "b": [0.8, 0.8]}, 1.7, 3, is_split=True),
    "two kube-state-metrics": World(2, pods(0.9, 0.9), 1.8, 3, copies=2),
    "two pods of a GPU that another workload uses": World(2, pods(0.9, 0.9), 1.8, 3, others=pods(0.1)),
}


def namespace_of(name: str) -> str:
    return re.sub(r"\W+", "-", name).lower()


@contextlib.contextmanager
def prometheus_of_worlds(folder: Path) -> Iterator[Prometheus]:
    """Run one Prometheus with the shipped rules and all worlds, each in a namespace."""
    rules = (ROOT / "deploy/prometheus/rules/pulsed.yaml").read_text()
    assert "interval: 15s" in rules
    (folder / "rules.yaml").write_text(re.sub(r"interval: \w+", "interval: 1s", rules))
    worlds = {namespace_of(name): world for name, world in WORLDS.items()}
    page = Exporter("\n".join([*(world.history(name) for name, world in worlds.items()), ""]))
    with exporting({"metrics": page}) as url:
        config = SCRAPES.format(address=urllib.parse.urlsplit(url).netloc)
        with prometheus(folder, config) as server:
            server.wait_for(f"count(workload:pulsed_pods:sum) == {len(worlds)}")
            page.body = "\n".join([*(line for name, world in worlds.items() for line in world.page(name)), ""])
            lines = sum(world.scale is not None for world in worlds.values())
            server.wait_for(f"count(workload:pulsed_saturation_ratio:scale) == {lines}")
            known = {name for name, world in worlds.items() if world.pods and world.scale is not None}
            until(
                lambda: (
                    {
                        series["metric"]["namespace"]
                        for series in server.ask("count by (namespace) (pod:pulsed_saturation_ratio:mean)")
                    }
                    >= known - {namespace_of("half-known pod of a StatefulSet")}
                )
            )
            yield server


def keda_queries(name: str) -> list[str]:
    """Return the queries of the ScaledObject for a world."""
    return [
        trigger["metadata"]["query"]
        .replace('namespace="ml"', f'namespace="{namespace_of(name)}"')
        .replace('"Deployment"', f'"{WORLDS[name].kind}"')
        for trigger in triggers()
    ]


def adapter_rules(kind: str) -> Mapping[str, Any]:
    """Return the rule of prometheus-adapter for a kind of workload."""
    rules = example("prometheus-adapter-values")["rules"]["custom"]
    (found,) = (rule for rule in rules if f'workload_kind="{kind}"' in rule["seriesQuery"])
    assert found["resources"]["overrides"]["workload"] == {"group": "apps", "resource": kind.lower()}
    return dict(found)


def adapter_query(rule: Mapping[str, Any], metric: str, namespace: str, workload: str) -> str:
    """Return the query that prometheus-adapter makes of a rule for a metric of an object."""
    pattern = rule["name"]["matches"]
    (series,) = (
        each
        for each in ("workload:pulsed_real_utilization_ratio:scale", "workload:pulsed_saturation_ratio:scale")
        if re.sub(pattern, rule["name"]["as"].replace("${1}", r"\1"), each) == metric
    )
    parts = {
        "<<.Series>>": series,
        "<<.LabelMatchers>>": f'namespace="{namespace}",workload="{workload}"',
        "<<.GroupBy>>": "workload",
    }
    query = str(rule["metricsQuery"])
    for placeholder, part in parts.items():
        query = query.replace(placeholder, part)
    assert "<<" not in query
    return query
