"""The chart as helm renders it, and what Kubernetes and operators say about that."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.support.waiting import SECONDS
from tests.system.deploy.install import SCHEMAS, TOOLS
from tests.system.deploy.tools import fetched

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "helm" / "pulsed"
RELEASE, NAMESPACE = "gpu", "monitoring"

OPERATORS = ("monitoring.coreos.com/", "keda.sh/")
"""Groups of the objects of the Prometheus operator and of KEDA."""

AZURE = "azmonitoring.coreos.com/"
"""Group of Azure's copies of the Prometheus operator's kinds."""

FOREIGN = ("monitoring.googleapis.com/", "operator.victoriametrics.com/")
"""Groups of kinds whose schemas no package registry has."""

Manifest = dict[str, Any]
Values = Mapping[str, Any]


class Refused(Exception):
    """Helm would not render; the message is helm's."""


def helm(*arguments: str, values: Values | None = None, program: str = "helm") -> str:
    """Run helm 4, or `helm-3`; returns what it prints.

    Raises:
        Refused: it failed.
    """
    options = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [fetched(program), *arguments, *options],
        input=json.dumps(values) if values is not None else None,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    if done.returncode:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def render(values: Values, chart: Path = CHART, program: str = "helm") -> list[Manifest]:
    """Every object that the chart makes of these values, the test's pod included."""
    template = _rendered if chart == CHART else _rendered.__wrapped__  # a test changes the files of its own chart
    text = template(json.dumps(values), chart, program)
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


@functools.cache
def _rendered(values: str, chart: Path, program: str) -> str:
    return helm("template", RELEASE, str(chart), "--namespace", NAMESPACE, values=json.loads(values), program=program)


def only(manifests: Sequence[Manifest], kind: str) -> Manifest:
    """The one object of a kind."""
    (found,) = (manifest for manifest in manifests if manifest["kind"] == kind)
    return found


def workload(manifests: Sequence[Manifest]) -> Manifest:
    """The daemon's DaemonSet or StatefulSet."""
    (found,) = (manifest for manifest in manifests if manifest["kind"] in ("DaemonSet", "StatefulSet"))
    return found


def pod_template(manifests: Sequence[Manifest]) -> Manifest:
    """The template of the daemon's pods."""
    found = workload(manifests)["spec"]["template"]
    assert isinstance(found, dict)
    return found


def container(manifests: Sequence[Manifest]) -> Manifest:
    """The container of the daemon."""
    (found,) = pod_template(manifests)["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def config(manifests: Sequence[Manifest]) -> str:
    """The text of the daemon's configuration file."""
    name = workload(manifests)["metadata"]["name"]
    maps = [each for each in manifests if each["kind"] == "ConfigMap" and each["metadata"]["name"] == name]
    text = only(maps, "ConfigMap")["data"]["config.yaml"]
    assert isinstance(text, str)
    return text


def environment_of(manifests: Sequence[Manifest], host: str, pod: str = "gpu-pulsed-0") -> dict[str, str]:
    """The container's variables as the kubelet of the node `node-a` at address `host` would fill them in."""
    fields = {"spec.nodeName": "node-a", "status.hostIP": host, "metadata.name": pod}
    values: dict[str, str] = {}
    for variable in container(manifests)["env"]:
        if "valueFrom" in variable:
            values[variable["name"]] = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        else:
            values[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], variable["value"])
    return values


def complaints(manifests: Sequence[Manifest], kubernetes: str) -> list[str]:
    """What an API server of that version, strict about unknown fields, would refuse; also of objects of operators."""
    manifests = [
        {**each, "apiVersion": each["apiVersion"].replace(AZURE, OPERATORS[0])}
        for each in manifests
        if not each["apiVersion"].startswith(FOREIGN)
    ]
    own = [manifest for manifest in manifests if not manifest["apiVersion"].startswith(OPERATORS)]
    others = [manifest for manifest in manifests if manifest not in own]
    return [complaint for manifest in own for complaint in _of_kubernetes(manifest, kubernetes)] + _of_operators(others)


def _of_kubernetes(manifest: Manifest, version: str) -> list[str]:
    *group, api = manifest["apiVersion"].split("/")
    parts = [manifest["kind"].lower(), *(group[0].split(".")[:1] if group else ()), api]
    return [
        f"{manifest['kind']}/{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(version, f"{'-'.join(parts)}.json").iter_errors(manifest)
    ]


@functools.cache
def _validator(version: str, name: str) -> jsonschema_rs.Validator:
    folder = fetched(SCHEMAS) / f"v{version}-local-strict"

    def beside(uri: str) -> Any:
        return json.loads((folder / uri.rsplit("/", 1)[1]).read_text())

    return jsonschema_rs.validator_for(beside(f"/{name}"), retriever=beside)


def _of_operators(manifests: Sequence[Manifest]) -> list[str]:
    if not manifests:
        return []
    fetched("node_modules")
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("crds.mjs")), str(TOOLS)],
        input=json.dumps(manifests),
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found
