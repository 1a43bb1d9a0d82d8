"""Every documented rendering and example, in a server-side dry run of a real API server.

Server-side apply refuses unknown fields and wrong types; of operators' kinds where TEST_CRDS has their definitions.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml

from tests.support.kubernetes.real_api_server import RealApiServer
from tests.system.deploy.cases import GOLDEN
from tests.system.deploy.chart import CHART, NAMESPACE, Manifest, Values, pod_template, render
from tests.system.deploy.test_helm_install import resources
from tests.system.deploy.test_values_examples import PLATFORMS, values
from tests.system.deploy.worlds import example

DOCUMENTED: Mapping[str, Values] = {
    **{f"platform {name}": values(name) for name in PLATFORMS},
    **{f"ci {path.stem}": yaml.safe_load(path.read_text()) for path in sorted((CHART / "ci").glob("*.yaml"))},
    **{f"golden {name}": given for name, given in GOLDEN.items()},
}


def refusals(operated: RealApiServer, manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield the messages of the server about objects that it would not take; it stores none."""
    known = resources(operated)
    for manifest in map(copy.deepcopy, manifests):
        if manifest["apiVersion"] == "autoscaling/v2":  # the server is of version 1.20, which has its predecessor
            manifest["apiVersion"] = "autoscaling/v2beta2"
        if manifest["kind"] == "Service":  # of version 1.21; `test_schemas.py` judges it
            manifest["spec"].pop("internalTrafficPolicy", None)
        version, metadata = manifest["apiVersion"], manifest["metadata"]
        plural, is_namespaced = known[version, manifest["kind"]]
        namespace = metadata.get("namespace", NAMESPACE)
        if is_namespaced:
            operated.need_namespace(namespace)
        where = f"/namespaces/{namespace}" if is_namespaced else ""
        path = f"/{'apis' if '/' in version else 'api'}/{version}{where}/{plural}/{metadata['name']}"
        query = "?dryRun=All&fieldManager=test"
        status, _, answer = operated.request(path + query, manifest, "PATCH", content="application/apply-patch+yaml")
        if status not in (200, 201):
            yield f"{manifest['kind']} {metadata['name']}: {json.loads(answer)['message']}"
        else:
            assert operated.request(path)[0] == 404


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_real_api_server_would_take_every_rendering(name: str, operated: RealApiServer) -> None:
    assert list(refusals(operated, render(DOCUMENTED[name]))) == []


@pytest.mark.parametrize("name", ["hpa", "scaledobject"])
def test_a_real_api_server_would_take_the_examples_of_autoscaling(name: str, operated: RealApiServer) -> None:
    assert list(refusals(operated, [example(name)])) == []


def test_a_dry_run_refuses_what_is_wrong(operated: RealApiServer) -> None:
    def refused(change: str, value: Any) -> str:
        manifests = copy.deepcopy(render({}))
        pod_template(manifests)["spec"][change] = value
        (message,) = refusals(operated, manifests)
        return message

    assert "hostNetwrk: field not declared in schema" in refused("hostNetwrk", True)
    assert "restartPolicy: Unsupported value" in refused("restartPolicy", "Sometimes")
    wrong = example("hpa")
    wrong["spec"]["maxReplicas"] = "8"
    assert list(refusals(operated, [wrong])) != []
