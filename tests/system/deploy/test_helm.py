"""The chart: rendered by a real helm and judged by Kubernetes' and the Prometheus operator's schemas."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from pulsed import __version__
from pulsed.config.configuration import Config, load
from pulsed.config.settings import Kind, all_keys
from pulsed.daemon.daemon import RESTART_KEYS
from pulsed.kubernetes.objects import parse_kind
from pulsed.kubernetes.workload_resolver import resource_name
from pulsed.reader.exporter import ExporterTarget
from tests.support.daemon import pulsed
from tests.support.nightly import nightly_after
from tests.system.deploy.cases import CASES, GOLDEN, HOST, MONITOR, MONITORS, REACHED, REFUSED, SINGLE, SOURCES, WEB
from tests.system.deploy.chart import (
    CHART,
    RELEASE,
    ROOT,
    Manifest,
    Refused,
    Values,
    complaints,
    config,
    container,
    environment_of,
    helm,
    only,
    pod_template,
    render,
)
from tests.system.deploy.install import KUBERNETES
from tools.generate_chart_schema import KINDS, SET_BY_CHART, document
from tools.references import IMAGE


def configured(manifests: Sequence[Manifest], folder: Path) -> Config:
    """pulsed's configuration in that container."""
    file = folder / "config.yaml"
    file.write_text(config(manifests))
    return load(file, [], environment_of(manifests, HOST))


@pytest.mark.parametrize("name", nightly_after(16, CASES))
def test_every_object_is_valid_and_the_pods_are_harmless(name: str, tmp_path: Path) -> None:
    manifests = render(CASES[name])
    assert complaints(manifests, KUBERNETES[-1]) == []
    assert not any("data" in each or "stringData" in each for each in manifests if each["kind"] == "Secret")
    reads_api = any("Role" in each["kind"] for each in manifests) or name == "own role"
    for pod in pods(manifests):
        if not pod.get("hostPID") and "hostPath" not in str(pod):
            check_restricted(pod, has_token=reads_api and "restartPolicy" not in pod)
    configured(manifests, tmp_path)


RENDERINGS = Path(__file__).with_name("renderings")


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rendering_is_the_kept_one(name: str) -> None:
    """After a wanted change: `UPDATE_GOLDEN=1 pytest tests/system/deploy/test_helm.py`; review the difference."""
    manifests = copy.deepcopy(render(GOLDEN[name]))
    for command in (each["command"] for pod in pods(manifests) for each in pod["containers"] if "command" in each):
        command[2] = "files/helm_test.py" if "urlopen" in command[2] else command[2]
    text = yaml.dump_all(manifests, Dumper=yaml.CSafeDumper, width=120).replace(
        f"pulsed-{__version__}", "pulsed-VERSION"
    )
    text = re.sub(rf"\b{re.escape(__version__)}\b", "VERSION", text)
    kept = RENDERINGS / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        kept.write_text(text)
    assert text == kept.read_text()


def test_a_rendering_is_the_same_each_time() -> None:
    arguments = ("template", RELEASE, str(CHART), "--namespace", "monitoring")
    values = {**GOLDEN["fleet"], "prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}
    assert helm(*arguments, values=values) == helm(*arguments, values=values)


@pytest.mark.parametrize("kubernetes", KUBERNETES[:-1])  # the newest is held by the test above
@pytest.mark.parametrize("name", nightly_after(2, GOLDEN))
def test_every_kubernetes_that_the_chart_admits_takes_it(name: str, kubernetes: str) -> None:
    assert complaints(render(GOLDEN[name]), kubernetes) == []


@pytest.mark.parametrize("name", nightly_after(2, GOLDEN))
def test_helm_3_renders_the_same(name: str) -> None:
    assert render(GOLDEN[name], program="helm-3") == render(GOLDEN[name])


@pytest.mark.parametrize("name", SOURCES)
def test_pulsed_reads_what_the_values_say(name: str, tmp_path: Path) -> None:
    kind, reached = REACHED[name]
    seen = configured(render(SOURCES[name]), tmp_path)
    assert seen.source.kind == kind
    assert seen.node == "node-a"
    if reached == "kubernetes":
        assert seen.source.exporter.discovery == "kubernetes"
    elif kind == "exporter":
        assert tuple(target.url for target in seen.source.exporter.targets) == reached
    elif kind == "dcgmi":
        assert seen.source.dcgmi.host == reached


def test_a_fleet_reads_all_nodes(tmp_path: Path) -> None:
    manifests = render(SINGLE["fleet"])
    seen = configured(manifests, tmp_path)
    assert seen.node is None
    assert seen.source.exporter.kubernetes.nodes == "all"
    stateful = only(manifests, "StatefulSet")["spec"]
    assert (stateful["replicas"], stateful["serviceName"]) == (1, only(manifests, "Service")["metadata"]["name"])
    assert not {"affinity", "tolerations"} & stateful["template"]["spec"].keys()
    assert "pod_node_name" not in str(only(manifests, "ServiceMonitor")), "the node of a pod is not that of its GPUs"
    assert not stateful.get("volumeClaimTemplates")
    volumes = only(render(SINGLE["fleet with volumes"]), "StatefulSet")["spec"]
    (claim,) = volumes["volumeClaimTemplates"]
    assert (claim["metadata"]["name"], claim["spec"]["storageClassName"]) == ("state", "fast")
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert "state" not in {each["name"] for each in volumes["template"]["spec"]["volumes"]}


def test_the_judges_see_what_is_wrong() -> None:
    manifests = render(MONITORS["ServiceMonitor"])
    pod_template(manifests)["spec"]["hostNetwrk"] = True
    only(manifests, "NetworkPolicy")["spec"]["policyTypes"] = "Ingress"
    only(manifests, "ServiceMonitor")["spec"]["endpoints"][0]["honourLabels"] = True
    found = "\n".join(complaints(manifests, KUBERNETES[-1]))
    for word in ("hostNetwrk", "policyTypes", "honourLabels: unknown"):
        assert word in found


def pods(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    yield pod_template(manifests)["spec"]
    yield from (manifest["spec"] for manifest in manifests if manifest["kind"] == "Pod")


def check_restricted(pod: Manifest, *, has_token: bool = False) -> None:
    """The Pod Security Standard `restricted`, and a token only where one is needed."""
    assert pod["automountServiceAccountToken"] is has_token
    assert pod["enableServiceLinks"] is False, "the variables of a Service `pulsed-x` would look like pulsed's own"
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
    assert not [volume for volume in pod.get("volumes", []) if "hostPath" in volume]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in pod["containers"]:
        rights = one["securityContext"]
        assert rights == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not [port for port in one.get("ports", []) if "hostPort" in port]
        assert one["resources"]["requests"].keys() == {"cpu", "memory"}, "a pod without requests is the first to go"
        assert not [source for source in one.get("env", []) if "secretKeyRef" in source.get("valueFrom", {})]


def host_mount(manifests: Sequence[Manifest], path: Manifest) -> tuple[Manifest, str]:
    """Return the pod that mounts a path of the host, without that volume, and where its container has it."""
    (pod,) = (pod for pod in pods(manifests) if "hostPath" in str(pod))
    (volume,) = (volume for volume in pod["volumes"] if "hostPath" in volume)
    assert volume["hostPath"] == path
    (container,) = pod["containers"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == volume["name"])
    assert mount.keys() == {"name", "mountPath", "readOnly"}
    assert mount["readOnly"]
    pod["volumes"].remove(volume)
    return pod, str(mount["mountPath"])


def test_a_kernel_log_file_needs_a_group_and_nothing_else(tmp_path: Path) -> None:
    manifests = render({"kernelLog": {"enabled": True, "path": "/var/log/kernel/messages", "group": 104}})
    assert configured(manifests, tmp_path).health.kernel_log == "/var/log/node/messages"
    pod, mount = host_mount(manifests, {"path": "/var/log/kernel", "type": "Directory"})
    assert mount == "/var/log/node"
    assert pod["securityContext"].pop("supplementalGroups") == [104]
    check_restricted(pod, has_token=True)


def test_files_of_the_host_are_read_only_and_need_nothing_else(tmp_path: Path) -> None:
    manifests = render({"hostFiles": {"enabled": True}})
    root = configured(manifests, tmp_path).host.root
    pod = pod_template(manifests)["spec"]
    volumes = {volume["name"]: volume.pop("hostPath") for volume in pod["volumes"] if "hostPath" in volume}
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] in volumes}
    assert len(mounts) == 3
    for name, volume in volumes.items():
        assert volume.keys() == {"path", "type"}
        assert mounts[name].items() >= {"mountPath": f"{root}{volume['path']}", "readOnly": True}.items()
    check_restricted(pod, has_token=True)


def test_the_kernel_log_device_needs_a_privileged_container_and_nothing_else(tmp_path: Path) -> None:
    manifests = render({"kernelLog": {"enabled": True, "path": "/dev/kmsg"}})
    assert configured(manifests, tmp_path).health.kernel_log == "/dev/kmsg"
    pod, mount = host_mount(manifests, {"path": "/dev/kmsg", "type": "CharDevice"})
    assert mount == "/dev/kmsg"
    (container,) = pod["containers"]
    rights = {"privileged": True, "readOnlyRootFilesystem": True, "runAsNonRoot": False, "runAsUser": 0}
    assert container["securityContext"] == rights
    container["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    check_restricted(pod, has_token=True)


@pytest.mark.parametrize("own", ["", "/data"])
def test_state_outlives_a_container_without_a_folder_of_its_own(own: str, tmp_path: Path) -> None:
    mount = {"extraVolumeMounts": [{"name": "data", "mountPath": "/data"}]}
    manifests = render({"config": {"state_dir": own}, **mount} if own else {})
    mounts = {each["name"]: each["mountPath"] for each in container(manifests)["volumeMounts"]}
    volumes = {each["name"]: each for each in pod_template(manifests)["spec"]["volumes"]}
    assert configured(manifests, tmp_path).state_dir == (own or f"{mounts['state']}/state")
    assert volumes.get("state") == (None if own else {"name": "state", "emptyDir": {"sizeLimit": "256Mi"}})


def test_the_kubelets_socket_needs_root_without_capabilities_and_nothing_else(tmp_path: Path) -> None:
    manifests = render({"attribution": {"kubelet": {"enabled": True, "path": "/var/lib/k0s/kubelet/pod-resources"}}})
    pod, mount = host_mount(manifests, {"path": "/var/lib/k0s/kubelet/pod-resources", "type": "Directory"})
    assert configured(manifests, tmp_path).attribution.kubelet.socket == f"{mount}/kubelet.sock"
    rights = pod["containers"][0]["securityContext"]
    assert (rights.pop("runAsUser"), rights.pop("runAsNonRoot")) == (0, False)
    check_restricted(pod, has_token=True)


def rule(group: str, resource: str, *verbs: str) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs or ("get",))}


PODS = rule("", "pods", "get", "list", "watch")
CONTROLLERS = [rule("apps", "replicasets"), rule("batch", "jobs")]


def test_the_token_may_read_pods_and_what_controls_them_and_nothing_else() -> None:
    manifests = render({})
    assert only(manifests, "ClusterRole")["rules"] == [PODS, *CONTROLLERS]
    assert only(render(SINGLE["no workloads"]), "ClusterRole")["rules"] == [PODS]
    claims = [rule("resource.k8s.io", "resourceslices", "list"), rule("resource.k8s.io", "resourceclaims")]
    assert only(render(SINGLE["pods from the kubelet"]), "ClusterRole")["rules"] == [PODS, *CONTROLLERS, *claims]
    binding = only(manifests, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == only(manifests, "ClusterRole")["metadata"]["name"] == "monitoring-gpu-pulsed"
    account = only(manifests, "ServiceAccount")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "monitoring"}]


def test_conditions_need_two_rights_more_and_nothing_else(tmp_path: Path) -> None:
    manifests = render(SINGLE["conditions and the host engine"])
    assert only(manifests, "ClusterRole")["rules"] == [rule("", "nodes/status", "patch")]
    events = only(manifests, "Role")
    assert (events["metadata"]["namespace"], events["rules"]) == ("default", [rule("", "events", "create")])
    for kind in ("ClusterRole", "Role"):
        binding = only(manifests, f"{kind}Binding")
        assert (
            binding["roleRef"]["name"]
            == only(manifests, kind)["metadata"]["name"]
            == "monitoring-gpu-pulsed-conditions"
        )
        assert binding["subjects"][0]["namespace"] == "monitoring"
    seen = configured(manifests, tmp_path)
    assert (seen.kubernetes.conditions.enabled, seen.node) == (True, "node-a")
    both = [each["rules"] for each in render(SINGLE["conditions of the node"]) if each["kind"] == "ClusterRole"]
    assert both == [[PODS, *CONTROLLERS], [rule("", "nodes/status", "patch")]]
    assert not configured(render({}), tmp_path).kubernetes.conditions.enabled


@pytest.mark.parametrize(
    ("name", "namespaces"),
    [
        ("exporter pods of one namespace", ["gpu-operator"]),
        ("exporter pods of two namespaces", ["gpu-operator", "ml"]),
    ],
)
def test_with_named_namespaces_the_token_may_read_the_pods_of_these_only(name: str, namespaces: list[str]) -> None:
    manifests = render(SINGLE[name])
    assert not [each for each in manifests if each["kind"].startswith("ClusterRole")]
    roles = [each for each in manifests if each["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == namespaces
    assert [role["rules"] for role in roles] == [[PODS]] * len(namespaces)
    bindings = [each for each in manifests if each["kind"] == "RoleBinding"]
    assert [binding["metadata"]["namespace"] for binding in bindings] == namespaces
    for binding in bindings:
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": roles[0]["metadata"]["name"],
        }
        assert [subject["namespace"] for subject in binding["subjects"]] == ["monitoring"]


@pytest.mark.parametrize(
    ("values", "namespaces", "controllers"),
    [
        ({}, None, ("DaemonSet.apps",)),
        (SINGLE["exporter pods of two namespaces"], ("gpu-operator", "ml"), ("DaemonSet.kruise.io",)),
        (SINGLE["exporter pods of all namespaces"], ("all",), ()),
    ],
)
def test_pulsed_requires_of_exporter_pods_what_the_values_say(
    values: Values, namespaces: object, controllers: object, tmp_path: Path
) -> None:
    seen = configured(render(values), tmp_path).source.exporter.kubernetes
    assert (seen.namespaces, seen.controllers) == (namespaces, controllers)


def test_further_kinds_may_be_read_by_the_names_that_pulsed_requests(tmp_path: Path) -> None:
    manifests = render(SINGLE["workloads of pods"])
    given = configured(manifests, tmp_path).attribution.workloads
    kinds = [parse_kind(kind) for kind in given.kinds]
    assert [str(kind) for kind in kinds] == ["RayCluster.ray.io", "NetworkPolicy.x.io", "Process.x.io", "Gateway.x.io"]
    further = [rule(kind.group, resource_name(kind.name)) for kind in kinds]
    assert only(manifests, "ClusterRole")["rules"] == [PODS, *CONTROLLERS, *further]
    assert (given.enabled, given.name_labels) == (True, ("app.kubernetes.io/name",))
    assert given.pod_labels == ("team", "example.com/*")


@pytest.mark.parametrize(
    ("name", "enabled"),
    [
        ("exporter in a pod", True),
        ("exporter on the node", False),
        ("dcgmi on the node", False),
        ("exporter pods of one namespace", False),
        ("exporter pods of two namespaces", False),
        ("exporter pods of all namespaces", True),
        ("workloads of pods in one namespace", True),
        ("workloads with the host engine", True),
        ("workloads of the demo", False),
        ("no workloads", False),
        ("values of an older chart", False),
    ],
)
def test_workloads_are_resolved_where_the_values_say(name: str, enabled: bool, tmp_path: Path) -> None:
    manifests = render({**SOURCES, **SINGLE}[name])
    assert configured(manifests, tmp_path).attribution.workloads.enabled is enabled
    roles = [manifest for manifest in manifests if manifest["kind"] in ("ClusterRole", "Role")]
    assert any(each["resources"] == ["replicasets"] for role in roles for each in role["rules"]) is enabled
    assert not enabled or [role["kind"] for role in roles] == ["ClusterRole"]


def test_values_of_an_older_chart_keep_their_source(tmp_path: Path) -> None:
    manifests = render(SINGLE["values of an older chart"])
    assert configured(manifests, tmp_path).source.exporter.targets == (ExporterTarget(f"http://{HOST}:9401/metrics"),)
    assert pod_template(manifests)["spec"]["automountServiceAccountToken"] is False


def test_lint_is_strict_and_finds_nothing() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_each_value_has_a_comment() -> None:
    """`helm show values` is the reference of the values."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    comments = commented_paths()
    assert [path for path in leaves(values, comments) if path not in comments] == []


def test_the_values_that_the_readme_names_exist() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    paths = set(all_paths(values))
    rows = re.findall(r"^\|[^|]*\|(.*)\|$", (CHART / "README.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z]\w+(?:\.\w+)+)[`:]", row)}
    named -= {name for name in named if name.startswith("config.")}
    assert len(named) > 10
    assert {name for name in named if name.split(".")[0] in values and name not in paths} == set()


def commented_paths() -> set[str]:
    """Return the dotted paths of the keys of values.yaml that have a comment above."""
    paths: set[str] = set()
    parents: list[tuple[int, str]] = []
    is_commented = False
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        if key := re.match(r"( *)([A-Za-z]\w*):", line):
            indent = len(key[1])
            parents = [*((at, name) for at, name in parents if at < indent), (indent, key[2])]
            if is_commented:
                paths.add(".".join(name for _, name in parents))
        is_commented = line.lstrip().startswith("#")
    return paths


def leaves(values: dict[str, Any], comments: set[str], prefix: str = "") -> Iterator[str]:
    """Yield the paths of values that are set as a whole: also mappings whose keys have no comments of their own."""
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and any(each.startswith(f"{path}.") for each in comments):
            yield from leaves(value, comments, f"{path}.")
        else:
            yield path


def all_paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all values and of the mappings that they are in."""
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from all_paths(value, f"{prefix}{key}.")


def test_the_schema_knows_every_value() -> None:
    """A value that the schema does not know would be refused, so every default must pass; and be described by type."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["additionalProperties"] is False
    removed = {path for path in removed_values() if "." not in path}
    assert set(schema["properties"]) - removed - {"enabled"} == set(values)  # of the condition of a parent chart


def removed_values() -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load((CHART / "removed_values.yaml").read_text())
    return found


@pytest.mark.parametrize("path", removed_values())
def test_a_removed_value_names_what_takes_its_place(path: str) -> None:
    values: Values = {}
    for name in reversed(path.split(".")):
        values = {name: values}
    with pytest.raises(Refused, match=re.escape(f"{path} was removed: {removed_values()[path]}")):
        render(values)


def test_the_schema_has_the_keys_of_the_configuration() -> None:
    assert (CHART / "values.schema.json").read_text() == document(), "run `python -m tools.generate_chart_schema`"


def test_the_keys_that_the_chart_sets_are_those_of_the_configuration() -> None:
    assert set(SET_BY_CHART) <= all_keys(Config).keys()


SAMPLES = [True, 0, 1, -1, 0.5, 1.5, 12, "", "1", "0", "0s", "yes", "Off", "TRUE", "15s", " 1h30m", "1 s", "-1s"]
SAMPLES += ["64MiB", "1.5 GB", "64 miles", [1], {"a": 1}]


def test_the_schema_refuses_values_that_pulsed_refuses_and_no_others() -> None:
    kinds = {key.kind.name: key.kind for key in all_keys(Config).values() if key.kind and key.kind.name in KINDS}
    assert kinds.keys() == KINDS.keys()
    for name, kind in kinds.items():
        schema = jsonschema_rs.validator_for(dict(KINDS[name]))
        taken = [sample for sample in SAMPLES if _takes(kind, sample)]
        assert [sample for sample in taken if not schema.is_valid(sample)] == [], name
        others = [sample for sample in SAMPLES if not _takes(kind, sample) and sample not in ("0", "0s")]
        assert [sample for sample in others if schema.is_valid(sample)] == [], name


def _takes(kind: Kind, value: object) -> bool:
    try:
        kind.parse(value)
    except ValueError:
        return False
    return True


def test_a_package_renders_as_the_folder_does(tmp_path: Path) -> None:
    helm("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("pulsed-*.tgz")
    assert render({}, package) == render({})


def test_only_changes_that_a_reload_cannot_apply_restart_the_pods() -> None:
    def template(values: Values) -> Manifest:
        return pod_template(render(values))

    changed: Mapping[str, Any] = {
        "state_dir": "/tmp/state",
        "telemetry_path": "/page",
        "enable_lifecycle": True,
        "web": {"max_connections": 100},
        "history": {"seconds": "5m"},
        "events": {"heartbeat": "30s"},
    }
    assert {*changed, "listen"} == set(RESTART_KEYS)
    for key, value in changed.items():
        assert template({"config": {key: value}})["metadata"] != template({})["metadata"], key
    assert template({"port": 9500})["metadata"] != template({})["metadata"]
    assert template({"config": {"publish": {"passthrough": True}}}) == template({})
    assert template({**MONITORS["ServiceMonitor"], "service": {"annotations": {"a": "b"}}}) == template({})


def test_further_containers_variables_and_dns() -> None:
    values = {
        "extraContainers": [{"name": "proxy", "image": "registry.test/proxy", "args": ["{{ .Release.Name }}"]}],
        "envFrom": [{"secretRef": {"name": "proxy"}}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    }
    pod = pod_template(render(values))["spec"]
    own, proxy = pod["containers"]
    assert (proxy["name"], proxy["args"]) == ("proxy", ["gpu"])
    assert own["envFrom"] == values["envFrom"]
    assert pod["dnsConfig"] == values["dnsConfig"]


def test_probes_can_need_a_password() -> None:
    own = render({**WEB["users"], "config": {"web": {"open_probes": False, "keep_alive": "1m"}}})
    assert yaml.safe_load(config(own))["web"] == {"open_probes": False, "keep_alive": "1m"}


API_SERVER = [443, 6443, 8443, 16443]


@pytest.mark.parametrize(
    ("values", "ports"),
    [
        ({}, ["metrics", 9400, *API_SERVER]),
        ({"source": {"exporter": {"via": "hostIP", "port": 19400}}}, [19400]),
        (SINGLE["exporter pods of one namespace"], [9500, *API_SERVER]),
        ({"source": {"kind": "dcgmi"}}, [5555]),
        ({"source": {"kind": "demo"}}, []),
        (SOURCES["driver"], []),
        (SOURCES["exporters by URL"], [9400]),
        (
            {
                "source": {
                    "exporter": {"targets": [f"{at}/metrics" for at in ("https://a", "http://b", "http://[::1]:7")]}
                }
            },
            [443, 80, 7],
        ),
        ({"source": {"kind": "dcgmi", "dcgmi": {"host": "gpu1:5556"}}}, [5556]),
        ({"source": {"kind": "dcgmi", "dcgmi": {"host": "gpu1"}}}, [5555]),
        (SOURCES["dcgmi by its address"], []),
    ],
)
def test_the_network_policy_lets_the_source_through(values: Values, ports: list[object]) -> None:
    spec = only(render(values), "NetworkPolicy")["spec"]
    dns, *others = spec["egress"]
    assert {(each["protocol"], each["port"]) for each in dns["ports"]} >= {("UDP", 53), ("TCP", 53)}
    assert [port["port"] for rule in others for port in rule["ports"]] == ports
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == ["http"]
    assert not [rule for rule in spec["ingress"] if "from" in rule], "Prometheus may be anywhere"


def test_the_network_policy_admits_the_pod_of_helm_test() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    manifests = render({"networkPolicy": {"from": [peer]}})
    ((first, second),) = [rule["from"] for rule in only(manifests, "NetworkPolicy")["spec"]["ingress"]]
    labels = only(manifests, "Pod")["metadata"]["labels"].items()
    assert (first, second["podSelector"]["matchLabels"].items() <= labels) == (peer, True)


@pytest.mark.parametrize(
    ("web", "tls"),
    [
        (WEB["plain"], None),
        (WEB["users"], None),
        (WEB["TLS"], {"insecureSkipVerify": True}),
        (
            SINGLE["monitor that verifies the certificate"],
            {"ca": {"secret": {"name": "web", "key": "ca.crt"}}, "serverName": "gpu-pulsed.monitoring.svc"},
        ),
    ],
)
def test_the_monitors_carry_the_tls_of_the_daemon(web: Values, tls: object) -> None:
    (endpoint,) = only(render({**web, **MONITORS["PodMonitor"]}), "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint.get("tlsConfig") == tls
    own = render({**web, **SINGLE["whole ServiceMonitor"]})
    assert only(own, "ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"] == MONITOR["tlsConfig"]


def test_gpu_nodes_are_chosen_by_any_of_the_known_labels() -> None:
    def terms(values: Values) -> list[Any]:
        affinity = pod_template(render(values))["spec"].get("affinity", {})
        required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
        found: list[Any] = required.get("nodeSelectorTerms", [])
        return found

    assert {term["matchExpressions"][0]["key"] for term in terms({})} >= {
        "nvidia.com/gpu.present",
        "feature.node.kubernetes.io/pci-10de.present",
        "cloud.google.com/gke-accelerator",
    }
    assert all(len(term["matchExpressions"]) == 1 for term in terms({})), "terms are alternatives, not conditions"
    assert terms(SOURCES["demo"]) == []
    assert terms({"gpuNodes": {"only": False}}) == []
    assert len(terms(SINGLE["own affinity"])) == len(terms({})), "other affinity leaves the choice of nodes alone"
    assert terms({"affinity": {"nodeAffinity": {}}}) == []


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, f"{IMAGE}:{__version__}"),
        ({"source": {"kind": "dcgmi"}}, f"{IMAGE}:{__version__}-dcgmi"),
        ({"image": {"tag": "x"}, "source": {"kind": "dcgmi"}}, f"{IMAGE}:x"),
        (SINGLE["digest"], f"r.example/pulsed@sha256:{'0' * 64}"),
    ],
)
def test_the_image(values: Values, image: str) -> None:
    assert container(render(values))["image"] == image


ON_A_CLUSTER = ("--api-versions", "v1/Pod")
"""What a chart sees of an API server."""


@pytest.mark.parametrize("program", ["helm", "helm-3"])
def test_a_placeholder_instead_of_an_image_is_refused_by_helm_install(program: str) -> None:
    def install(image: Values) -> str:
        return helm("template", RELEASE, str(CHART), *ON_A_CLUSTER, values={"image": image}, program=program)

    with pytest.raises(Refused, match=r"image.repository is the placeholder r.example/pulsed, which no registry has"):
        install({"repository": "r.example/pulsed"})
    install({"repository": "r.example/pulsed", "pullPolicy": "Never"})
    install({"repository": "ghcr.io/example/pulsed"})
    notes = helm("install", RELEASE, str(CHART), "--dry-run=client", values={"image": {"repository": "r.example:5/p"}})
    assert "WARNING: image.repository is the placeholder r.example:5/p." in notes


def copied(folder: Path) -> Path:
    """The chart without its generated files."""
    chart = folder / "pulsed"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("*.json", "rules.yaml"))
    shutil.copy(CHART / "values.schema.json", chart)
    return chart


def test_dashboards_become_config_maps(tmp_path: Path) -> None:
    chart = copied(tmp_path)
    values = {"dashboards": {"enabled": True, "namespace": "grafana", "annotations": {"grafana_folder": "GPU"}}}
    folder = chart / "files" / "dashboards"
    folder.mkdir(parents=True, exist_ok=True)
    board = '{"title": "GPU {{ $labels }}", "panels": ["\\"quoted\\"", "a\\\\nb", "% ü"]}\n'
    (folder / "Fleet_view.json").write_text(board)
    manifests = render(values, chart)
    (found,) = (m for m in manifests if m["metadata"]["name"] == "gpu-pulsed-fleet-view")
    assert found["data"] == {"Fleet_view.json": board}
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["namespace"] == "grafana"
    assert complaints(manifests, KUBERNETES[-1]) == []
    assert [m["kind"] for m in render({}, chart)].count("ConfigMap") == 1


def test_rules_become_a_prometheus_rule(tmp_path: Path) -> None:
    chart = copied(tmp_path)
    for values, files in (("prometheusRule", r"files/rules\.yaml"), ("dashboards", "files/dashboards")):
        with pytest.raises(Refused, match=f"packaged without {files}"):
            render({values: {"enabled": True}}, chart)
    rule = {"alert": "Hot", "expr": 'x{a=~"b|c"} > 1', "annotations": {"summary": "{{ $labels.gpu }} is {{ $value }}"}}
    (chart / "files").mkdir(exist_ok=True)
    (chart / "files" / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": [rule]}]}))
    manifests = render({"prometheusRule": {"enabled": True}}, chart)
    assert only(manifests, "PrometheusRule")["spec"]["groups"] == [{"name": "a", "rules": [rule]}]
    assert complaints(manifests, KUBERNETES[-1]) == []


def test_alerts_and_groups_can_be_left_out() -> None:
    def groups(**values: object) -> dict[str, list[str]]:
        rule = only(render({"prometheusRule": {"enabled": True, **values}}), "PrometheusRule")
        return {
            group["name"]: [each.get("alert") or each["record"] for each in group["rules"]]
            for group in rule["spec"]["groups"]
        }

    every = groups()
    left = groups(exclude=["pulsed-alerts-use", "PulsedDaemonDown"])
    assert set(every) - set(left) == {"pulsed-alerts-use"}
    (name,) = set(every["pulsed-alerts-monitoring"]) - set(left["pulsed-alerts-monitoring"])
    assert name == "PulsedDaemonDown"
    assert left["pulsed-alerts-health"] == every["pulsed-alerts-health"]
    assert "PulsedGpuHealthCritical" in every["pulsed-alerts-health"]
    with pytest.raises(Refused, match="there is no alert or group PulsedDeamonDown; known: pulsed-recording-nodes, "):
        groups(exclude=["PulsedDeamonDown"])
    values = {"prometheusRule": {"enabled": True, "runbookUrl": "https://wiki/gpu"}}
    rules = only(render(values), "PrometheusRule")["spec"]["groups"]
    (idle,) = [rule for group in rules for rule in group["rules"] if rule.get("alert") == "PulsedGpuIdleHeld"]
    assert idle["annotations"]["runbook_url"] == "https://wiki/gpu#pulsedgpuidleheld"
    values = {"prometheusRule": {"enabled": True}, "config": {"web": {"external_url": "https://gpu.example/"}}}
    assert "https://gpu.example/docs/health#pulsedgpuidleheld" in str(only(render(values), "PrometheusRule"))


def test_the_rules_and_dashboards_of_this_chart_render() -> None:
    manifests = render({"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}})
    assert [m["kind"] for m in manifests].count("ConfigMap") == 1 + len(SHIPPED) - 1
    assert only(manifests, "PrometheusRule")["spec"] == yaml.safe_load((ROOT / SHIPPED["rules.yaml"]).read_text())
    assert complaints(manifests, KUBERNETES[-1]) == []


SHIPPED = {
    "rules.yaml": "deploy/prometheus/rules/pulsed.yaml",
    **{f"dashboards/{name}.json": f"deploy/grafana/{name}.json" for name in ("fleet", "gpu", "owners")},
}


def test_the_files_of_the_chart_are_the_shipped_ones_and_no_links() -> None:
    """Flux leaves links out."""
    for name, shipped in SHIPPED.items():
        assert (CHART / "files" / name).read_bytes() == (ROOT / shipped).read_bytes(), "make docs"
    assert [path for path in CHART.rglob("*") if path.is_symlink()] == []


def test_annotations_of_all_objects() -> None:
    wave = {"argocd.argoproj.io/sync-wave": "1"}
    values = {
        "commonAnnotations": wave,
        "service": {"annotations": {"own": "1"}, "nodeLocal": True},
        "nodeConditions": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
        **MONITORS["PodMonitor"],
    }
    manifests = render(values)
    lacking = [
        each["kind"] for each in manifests if not wave.items() <= each["metadata"].get("annotations", {}).items()
    ]
    assert lacking == []
    assert {each["metadata"]["annotations"].get("own") for each in manifests if each["kind"] == "Service"} == {
        "1",
        None,
    }


def notes(folder: Path, values: Values, *apis: str) -> str:
    """Return NOTES.txt in a cluster with further APIs; `helm template` prints it as part of a template only."""
    chart = folder / "pulsed"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    (chart / "templates" / "notes.yaml").write_text('notes: {{ include "pulsed/templates/NOTES.txt" . | toJson }}')
    options = [f"--api-versions={api}" for api in apis]
    rendered = helm("template", RELEASE, str(chart), "--show-only=templates/notes.yaml", *options, values=values)
    return str(yaml.safe_load(rendered)["notes"])


def test_the_notes_warn_of_user_workload_monitoring_on_openshift(tmp_path: Path) -> None:
    label, openshift = "openshift.io/cluster-monitoring=true", "monitoring.openshift.io/v1"
    assert label in notes(tmp_path, MONITORS["ServiceMonitor"], openshift)
    assert label not in notes(tmp_path, MONITORS["ServiceMonitor"])
    assert label not in notes(tmp_path, {}, openshift)


def test_the_notes_say_what_to_do_without_a_label_of_gpu_nodes(tmp_path: Path) -> None:
    assert "kubectl get nodes -l nvidia.com/gpu.present=true" in notes(tmp_path, {})
    for values in (SOURCES["demo"], SINGLE["fleet"], {"gpuNodes": {"only": False}}):
        assert "kubectl get nodes" not in notes(tmp_path, values)


@pytest.mark.parametrize("name", REFUSED)
def test_bad_values_are_refused_by_name(name: str) -> None:
    values, word = REFUSED[name]
    with pytest.raises(Refused) as refused:
        render(values)
    assert word in str(refused.value)


def test_check_config_passes_the_rendered_file(tmp_path: Path) -> None:
    file, secret = tmp_path / "config.yaml", tmp_path / "password"
    secret.write_text("of a volume of the pod")
    file.write_text(config(render(SINGLE["own configuration"])).replace("/run/password/it", str(secret)))
    done = pulsed("check-config", str(file))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("web", "prefix"),
    [
        ({"external_url": "https://example.org/a/pulsed/"}, "/a/pulsed"),
        ({"external_url": "https://example.org/pulsed", "route_prefix": "/"}, ""),
        ({"route_prefix": "pulsed"}, "/pulsed"),
    ],
)
def test_probes_and_monitors_have_the_route_prefix(web: dict[str, str], prefix: str, tmp_path: Path) -> None:
    manifests = render({"config": {"web": web}, **MONITORS["ServiceMonitor"]})
    assert configured(manifests, tmp_path).web.prefix == prefix
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container(manifests)[probe]["httpGet"]["path"] == f"{prefix}/-/healthy"
    (monitor,) = (each for each in manifests if each["kind"] == "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["path"] == f"{prefix}/metrics"
    (test,) = (each for each in manifests if each["kind"] == "Pod")
    assert test["spec"]["containers"][0]["command"][-1] == prefix


# --- parent charts


def images_and_secrets(values: Values) -> tuple[set[str], list[str]]:
    pods = [each["spec"]["template"]["spec"] for each in render(values) if each["kind"] in ("DaemonSet", "Deployment")]
    pods += [each["spec"] for each in render(values) if each["kind"] == "Pod"]
    secrets = [[secret["name"] for secret in pod.get("imagePullSecrets", [])] for pod in pods]
    assert len(pods) == 2
    assert secrets == secrets[:1] * 2
    return {container["image"] for pod in pods for container in pod["containers"]}, secrets[0]


@pytest.mark.parametrize(
    ("repository", "image"),
    [
        ("registry.local/team/pulsed", "mirror.local:5000/cache/team/pulsed:1"),
        ("localhost:5000/pulsed", "mirror.local:5000/cache/pulsed:1"),
        ("team/pulsed", "mirror.local:5000/cache/team/pulsed:1"),
    ],
)
def test_registry_and_secrets_of_all_charts(repository: str, image: str) -> None:
    own = {
        "image": {"repository": repository, "tag": "1"},
        "imagePullSecrets": [{"name": "own"}, {"name": "mirror"}],
    }
    assert images_and_secrets(own) == ({f"{repository}:1"}, ["own", "mirror"])
    everywhere = {"imageRegistry": "mirror.local:5000/cache", "imagePullSecrets": ["mirror", {"name": "other"}]}
    assert images_and_secrets({"global": everywhere, **own}) == ({image}, ["mirror", "other", "own"])


def test_a_parent_chart_enables_it_by_a_condition(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    (parent / "charts").mkdir(parents=True)
    shutil.copytree(CHART, parent / "charts/pulsed")
    dependency = {"name": "pulsed", "version": "*", "repository": "", "condition": "pulsed.enabled"}
    chart = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [dependency]}
    (parent / "Chart.yaml").write_text(json.dumps(chart))
    kinds = {each["kind"] for each in render({"pulsed": {"enabled": True}, "global": {"other": 1}}, parent)}
    assert "DaemonSet" in kinds
    assert render({"pulsed": {"enabled": False}}, parent) == []


@pytest.mark.parametrize("values", sorted((CHART / "ci").glob("*-values.yaml")), ids=lambda path: path.name)
def test_helm_lint_finds_nothing_in_the_values_of_chart_testing(values: Path) -> None:
    output = helm("lint", "--strict", str(CHART), f"--values={values}")
    assert "[" not in output.replace("[INFO]", ""), output


def test_the_chart_names_what_registries_show() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {"home", "sources", "icon", "maintainers", "annotations"} <= chart.keys()
    links = yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    assert [link["name"] for link in links] == ["Documentation", "Issues"]
