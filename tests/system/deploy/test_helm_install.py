"""The chart installed by helm into a real API server: objects and rights.

Its version is 1.20: what that lacks (Pod Security, autoscaling/v2, internalTrafficPolicy) is in `test_schemas.py`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.support.exporters import Exporter, exporting
from tests.support.exporters import page as exporter_page
from tests.support.kubernetes.fake_api_server import pod
from tests.support.kubernetes.real_api_server import RealApiServer
from tests.support.nightly import nightly_after
from tests.support.waiting import until
from tests.system.deploy.cases import FLEET, SINGLE, SOURCES
from tests.system.deploy.chart import CHART, NAMESPACE, RELEASE, Refused, Values, helm
from tests.system.deploy.test_helm_runs import STOCK, deployed
from tests.system.deploy.test_values_examples import PLATFORMS, old_values, values

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
ACCOUNT = f"system:serviceaccount:{NAMESPACE}"
PODS = {("pods", verb) for verb in ("get", "list", "watch")}
CONTROLLERS = {("replicasets.apps", "get"), ("jobs.batch", "get")}

INSTALLED = {
    **{name: SOURCES[name] for name in ("exporter in a pod", "exporter on the node", "dcgmi on the node", "driver")},
    **{
        name: SINGLE[name]
        for name in (
            "no network policy",
            "kernel log of the device",
            "files of the host",
            "pods from the kubelet",
            "workloads of pods",
            "everything that is extra",
            "fleet",
        )
    },
    **{name: values(name) for name in PLATFORMS},
}


@contextlib.contextmanager
def installed(real: RealApiServer, given: Values, folder: Path) -> Iterator[list[str]]:
    """Install a release; gives the paths of its objects."""
    options = release_options(real)
    try:
        # Of a placeholder no release is made, as `test_helm.py` has it.
        image = ("--set", "image.repository=registry.test/pulsed")
        helm(
            "install",
            RELEASE,
            str(copied(folder)),
            "--create-namespace",
            "--server-side=true",
            *image,
            *options,
            values=given,
        )
        yield paths(real)
    finally:
        helm("uninstall", RELEASE, "--wait=false", *options)


def copied(folder: Path) -> Path:
    """The chart, for the version of the tests' server, which is older than those that it is for."""
    chart = folder / "pulsed"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(re.sub(r"kubeVersion: .*", 'kubeVersion: ">=1.20.0-0"', text))
    return chart


def release_options(real: RealApiServer) -> tuple[str, ...]:
    """Where the release is."""
    return ("--namespace", NAMESPACE, "--kubeconfig", str(real.kubeconfig("admin")))


def paths(real: RealApiServer) -> list[str]:
    """The paths of the release's objects."""
    text, known = helm("get", "manifest", RELEASE, *release_options(real)), resources(real)
    found = []
    for manifest in (each for each in yaml.safe_load_all(text) if each):
        version, metadata = manifest["apiVersion"], manifest["metadata"]
        plural, namespaced = known[version, manifest["kind"]]
        where = f"/namespaces/{metadata.get('namespace', NAMESPACE)}" if namespaced else ""
        found.append(f"/{'apis' if '/' in version else 'api'}/{version}{where}/{plural}/{metadata['name']}")
    return found


def resources(real: RealApiServer) -> dict[tuple[str, str], tuple[str, bool]]:
    """The plural of every kind that the server has, and whether it is namespaced, by API version and kind."""
    versions = ["v1"] + [
        version["groupVersion"] for group in real.done("/apis")["groups"] for version in group["versions"]
    ]
    return {
        (version, each["kind"]): (each["name"], each["namespaced"])
        for version in versions
        if (answer := real.request(f"/{'apis' if '/' in version else 'api'}/{version}"))[0] == 200
        for each in yaml.safe_load(answer[2])["resources"]
        if "/" not in each["name"]
    }


@pytest.mark.parametrize("name", nightly_after(11, INSTALLED))  # `test_dry_run.py` has all platforms
def test_a_real_api_server_accepts_every_object(name: str, operated: RealApiServer, tmp_path: Path) -> None:
    for namespace in ("gpu-operator", "cattle-dashboards"):  # of roles and dashboards
        operated.need_namespace(namespace)
    with installed(operated, INSTALLED[name], tmp_path) as found:
        assert [path for path in found if operated.request(path)[0] != 200] == []
        assert any("/daemonsets/" in path or "/statefulsets/" in path for path in found)
        assert [path for path in found if "/secrets/" in path] == []


def test_a_release_with_the_values_of_the_first_chart_is_upgraded(real: RealApiServer, tmp_path: Path) -> None:
    chart = tmp_path / "pulsed"
    with installed(real, old_values(), tmp_path) as before:
        assert not [path for path in before if "clusterrole" in path]
        reused = ("--reset-then-reuse-values", "--set", "source.exporter.via=pod", *release_options(real))
        helm("upgrade", RELEASE, str(chart), *reused)
        after = paths(real)
        assert {path.rsplit("/", 2)[1] for path in set(after) - set(before)} == {"clusterroles", "clusterrolebindings"}
        assert [path for path in after if real.request(path)[0] != 200] == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_no_pod_of_helm_test_is_left(phase: str, real: RealApiServer, tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{RELEASE}-pulsed-test"
    with installed(real, {}, tmp_path), ThreadPoolExecutor(1) as pool:
        found = pool.submit(helm, "test", RELEASE, *release_options(real))
        until(lambda: real.request(path)[0] == 200)
        real.done(f"{path}/status", real.done(path) | {"status": {"phase": phase}}, "PUT")  # as a kubelet
        assert ("gpu-pulsed-test failed" in str(found.exception())) == (phase == "Failed")
        assert real.request(path)[0] == 404


def test_a_placeholder_of_the_image_is_not_installed(real: RealApiServer, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"image\.repository is the placeholder r\.example/pulsed"):
        helm(
            "install", RELEASE, str(copied(tmp_path)), *release_options(real), "--set=image.repository=r.example/pulsed"
        )


def rights(real: RealApiServer, account: str) -> set[tuple[str, str, str]]:
    """What an account may do that others may not: resource, verb, and the namespace, empty for all."""
    kinds = {(plural, version.rpartition("/")[0]) for (version, _), (plural, _) in resources(real).items()}
    found = set()
    for plural, group in kinds:
        for verb in VERBS:
            for namespace in ("", "ml", "gpu-operator", NAMESPACE):
                asked = {"group": group, "resource": plural, "verb": verb, "namespace": namespace}
                if is_allowed(real, account, asked) and not is_allowed(real, "another", asked):
                    found.add((f"{plural}.{group}".rstrip("."), verb, namespace))
    return found


def is_allowed(real: RealApiServer, account: str, asked: dict[str, str]) -> bool:
    """Whether an account may do this."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    review = {"spec": {"user": f"{ACCOUNT}:{account}", "groups": groups, "resourceAttributes": asked}}
    allowed: bool = real.done("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]
    return allowed


@pytest.mark.parametrize(
    ("given", "account", "everywhere", "in_namespace"),
    [
        ({}, "gpu-pulsed", PODS | CONTROLLERS, set()),
        (SINGLE["no workloads"], "gpu-pulsed", PODS, set()),
        (SINGLE["exporter pods of one namespace"], "gpu-pulsed", set(), PODS),
        (SOURCES["driver"], "gpu-pulsed", set(), set()),
    ],
    ids=["default", "no workloads", "one namespace", "driver"],
)
def test_an_account_has_exactly_the_rights_that_it_needs(
    given: Values,
    account: str,
    everywhere: set[tuple[str, str]],
    in_namespace: set[tuple[str, str]],
    real: RealApiServer,
    tmp_path: Path,
) -> None:
    real.need_namespace("gpu-operator")
    with installed(real, given, tmp_path):
        found = rights(real, account)
    expected = {(*each, namespace) for each in everywhere for namespace in ("", "ml", "gpu-operator", NAMESPACE)}
    assert found == expected | {(*each, "gpu-operator") for each in in_namespace}


def mounted(real: RealApiServer, folder: Path) -> dict[str, str]:
    """The variables by which a daemon has the API server and the token of its account."""
    token = folder / "service-account-token"
    token.write_text(real.service_account_token(NAMESPACE, "gpu-pulsed"))
    return {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": real.url.rsplit(":", 1)[1],
        "PULSED_KUBERNETES__TOKEN_FILE": str(token),
        "PULSED_KUBERNETES__CA_FILE": str(real.ca_file),
    }


@pytest.mark.parametrize("installation", nightly_after(1, STOCK))
def test_the_daemon_reads_with_the_token_of_its_account(installation: str, real: RealApiServer, tmp_path: Path) -> None:
    page = exporter_page(0).replace('Hostname="node"', 'Hostname="node-a",namespace="ml",pod="web-1",container="main"')
    deployment = real.put_object("apps/v1", "deployments", "web")
    owner = real.put_object("apps/v1", "replicasets", "web-7d4", deployment)
    real.put(pod("web-1", namespace="ml", owner=owner))
    with exporting({"metrics": Exporter(page)}) as url, installed(real, {}, tmp_path):
        real.put(pod("exporter-x7k2p", port=int(url.rstrip("/").rsplit(":", 1)[1]), **STOCK[installation]))
        real.put(pod("exporter-other", "127.0.0.2", node="node-b", **STOCK[installation]))
        with deployed({}, tmp_path, **mounted(real, tmp_path)) as daemon:
            assert daemon.wait_for("/-/ready").status == 200
            until(lambda: 'pulsed_workload_pods{namespace="ml",workload="web"' in daemon.get("/metrics").text)
            assert [gpu["node"] for gpu in daemon.get("/gpus").json()["gpus"]] == ["node-a"]


def test_a_fleet_reads_every_node_once(real: RealApiServer, tmp_path: Path) -> None:
    nodes = [f"node-{number}" for number in range(6)]
    pages = {node: Exporter(exporter_page(number).replace('"node"', f'"{node}"')) for number, node in enumerate(nodes)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(installed(real, FLEET, tmp_path))
        for node in nodes:
            url = stack.enter_context(exporting({"metrics": pages[node]}))
            real.put(pod(f"exporter-{node}", port=int(url.rstrip("/").rsplit(":", 1)[1]), node=node))
        daemon = stack.enter_context(deployed(FLEET, tmp_path, pod_name="gpu-pulsed-0", **mounted(real, tmp_path)))

        def read() -> list[str]:
            return [gpu["node"] for gpu in daemon.get("/gpus").json()["gpus"]]

        until(lambda: sorted(read()) == nodes)
        real.delete("exporter-node-3")
        until(lambda: sorted(read()) == [node for node in nodes if node != "node-3"])
