"""A real Kubernetes API server for tests: etcd and kube-apiserver of `tests.support.kubernetes.build_servers`.

It has no nodes and no kubelets: what they report of pods is written by the tests.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.certificates import Pair, make
from tests.support.daemon import free_port
from tests.support.kubernetes.build_servers import SERVERS, VERSION
from tests.support.kubernetes.fake_api_server import KINDS, Pod, reference
from tests.support.waiting import SECONDS, until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"

ADMIN, READER = "admin", "reader"
"""Users. The tokens of READER are `first` and `second`."""

_TOKENS = f'{ADMIN},{ADMIN},{ADMIN},"system:masters"\nfirst,{READER},{READER}\nsecond,{READER},{READER}\n'
_ROLE = "reads-everything"
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["ResponseStarted", "ResponseComplete"],
    "rules": [{"level": "Metadata", "users": [READER]}, {"level": "None"}],
}


_LABELS = {"app": "web"}
_TEMPLATE = {
    "metadata": {"labels": _LABELS},
    "spec": {"containers": [{"name": "web", "image": "web"}], "restartPolicy": "Always"},
}
_SET = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
SPECS: Mapping[str, Mapping[str, object]] = {
    "Deployment": _SET,
    "ReplicaSet": _SET,
    "StatefulSet": {**_SET, "serviceName": "web"},
    "DaemonSet": _SET,
    "Job": {"template": {"spec": {"containers": [{"name": "web", "image": "web"}], "restartPolicy": "Never"}}},
}
"""What the built-in kinds require."""

CREATED = (
    "/apis/autoscaling/v1 horizontalpodautoscalers",
    *(f"/apis/apps/v1 {plural}" for plural in ("deployments", "replicasets", "statefulsets", "daemonsets")),
    "/apis/batch/v1 jobs",
    "/api/v1 pods",
    "/api/v1 services",
)
"""Kinds of objects that tests create, beside custom resources: those before what they control."""


OPERATED: Mapping[str, tuple[str, str, str]] = {
    "PodMonitor": ("monitoring.coreos.com/v1", "podmonitors", "Namespaced"),
    "ServiceMonitor": ("monitoring.coreos.com/v1", "servicemonitors", "Namespaced"),
    "PrometheusRule": ("monitoring.coreos.com/v1", "prometheusrules", "Namespaced"),
    "Azure's PodMonitor": ("azmonitoring.coreos.com/v1", "podmonitors", "Namespaced"),
    "ClusterPodMonitoring": ("monitoring.googleapis.com/v1", "clusterpodmonitorings", "Cluster"),
    "VMPodScrape": ("operator.victoriametrics.com/v1beta1", "vmpodscrapes", "Namespaced"),
    "ScaledObject": ("keda.sh/v1alpha1", "scaledobjects", "Namespaced"),
}
"""API version, plural and scope of kinds of operators."""


def program(name: str = "kube-apiserver") -> str:
    """Return the path of a server; skip the test where it was not built, in CI too, whose run is too short for it."""
    path = SERVERS / name
    if not path.exists():
        pytest.skip(f"{path} is missing: `make kubernetes` builds Kubernetes {VERSION} once for this user")
    return str(path)


@dataclass
class RealApiServer:
    """A cluster without nodes.

    Attributes:
        token: of the user READER, in `token_file`.
    """

    folder: Path
    url: str = ""
    token: str = "first"
    front_proxy: Pair = field(default_factory=lambda: make("front-proxy-ca", authority=True))
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        authority = make("ca", authority=True)
        self.ca_file, _ = authority.write(self.folder, "ca")
        make("server", authority).write(self.folder, "server")
        make("service-accounts").write(self.folder, "service-accounts")
        self.front_proxy.write(self.folder, "front-proxy-ca")
        make("front-proxy-client", self.front_proxy).write(self.folder, "front-proxy")
        (self.folder / "tokens.csv").write_text(_TOKENS)
        (self.folder / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
        self.token_file = self.folder / "token"
        self.token_file.write_text(self.token)
        self._ports = {name: free_port() for name in ("etcd", "peer", "secure")}
        context = ssl.create_default_context(cafile=str(self.ca_file))
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", self._ports["secure"], timeout=SECONDS, context=context
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Run the servers; gives the URL."""
        try:
            self._start("etcd", [program("etcd"), *self._etcd_options()])
            self.start()
            rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
            self.done(f"{RBAC}/clusterroles", {"metadata": {"name": _ROLE}, "rules": rules})
            self.denied = False
            yield self.url
        finally:
            for name in reversed(list(self._processes)):
                self._end(name)
            self._connection.close()
            shutil.rmtree(self.folder / "etcd-data", ignore_errors=True)

    @property
    def denied(self) -> bool:
        """Whether READER may read nothing."""
        return self.request(f"{RBAC}/clusterrolebindings/{_ROLE}")[0] == 404

    @denied.setter
    def denied(self, denied: bool) -> None:
        if denied:
            self.done(f"{RBAC}/clusterrolebindings/{_ROLE}", method="DELETE")
        elif self.denied:
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE}
            binding = {"metadata": {"name": _ROLE}, "roleRef": role, "subjects": [{"kind": "User", "name": READER}]}
            self.done(f"{RBAC}/clusterrolebindings", binding)
        status = 403 if denied else 200  # roles apply a moment later
        until(lambda: self.request("/api/v1/pods?limit=1", token=self.token)[0] == status)

    def start(self) -> None:
        """Start the API server, and wait until it is ready."""
        self._start("kube-apiserver", [program(), *self._options()])
        self.url = f"https://127.0.0.1:{self._ports['secure']}"
        deadline = time.monotonic() + SECONDS
        while not self._is_ready():
            assert self._processes["kube-apiserver"].poll() is None, self.log("kube-apiserver")
            assert time.monotonic() < deadline, self.log("kube-apiserver")
            time.sleep(0.1)

    def restart(self) -> None:
        """Restart the API server, which keeps no changes in memory."""
        self._end("kube-apiserver")
        self.start()

    @contextlib.contextmanager
    def controllers(self, *options: str) -> Iterator[None]:
        """Run kube-controller-manager."""
        config = self.kubeconfig(ADMIN)
        manager = [program("kube-controller-manager"), f"--kubeconfig={config}", "--leader-elect=false", "--port=0"]
        self._start("kube-controller-manager", [*manager, "--secure-port=0", *options])
        try:
            yield
        finally:
            self._end("kube-controller-manager")

    def log(self, name: str) -> str:
        """Return the end of a program's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def kubeconfig(self, token: str) -> Path:
        """Return a file for clients that identify themselves by a token."""
        path = self.folder / f"kubeconfig-{token}"
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(json.dumps(config))
        return path

    def request(
        self,
        path: str,
        body: object = None,
        method: str = "",
        token: str = ADMIN,
        content: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of an answer. Without a method, a request with a body is a POST."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body)
        if data is not None:
            sent["Content-Type"] = content
        words = (method or ("POST" if data else "GET"), path, data, {**sent, **(headers or {})})
        try:
            return self._answer(*words)
        except (OSError, http.client.HTTPException):  # the server was restarted
            self._connection.close()
            return self._answer(*words)

    def _answer(
        self, method: str, path: str, data: str | None, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def requests(self) -> list[str]:
        """Return the verbs and URIs of all requests of READER."""
        lines = (self.folder / "audit.log").read_text().splitlines()
        return [f"{each['verb']} {each['requestURI']}" for each in map(json.loads, lines)]

    def done(self, path: str, body: object = None, method: str = "", content: str = "application/json") -> Any:
        """Return the object of a request that succeeds."""
        status, _, text = self.request(path, body, method, content=content)
        assert 200 <= status < 300, f"{method or 'request'} {path}: {status} {text[:500]!r}"
        return json.loads(text)

    def patched(self, path: str, body: object) -> Any:
        """Return an object after a merge patch."""
        return self.done(path, body, "PATCH", "application/merge-patch+json")

    def need_namespace(self, name: str) -> None:
        """Create a namespace that does not exist."""
        if self.request(f"/api/v1/namespaces/{name}")[0] == 404:
            self.done("/api/v1/namespaces", {"metadata": {"name": name}})

    def put(self, new: Pod) -> None:
        """Create a pod, or change its labels and status."""
        namespace, name = new["metadata"]["namespace"], new["metadata"]["name"]
        self.need_namespace(namespace)
        path = f"/api/v1/namespaces/{namespace}/pods"
        status, _, before = self.request(f"{path}/{name}")
        if status == 404:
            self.done(path, new)
        else:
            gone = dict.fromkeys(json.loads(before)["metadata"].get("labels", {}))
            self.patched(f"{path}/{name}", {"metadata": {"labels": {**gone, **new["metadata"]["labels"]}}})
        self.patched(f"{path}/{name}/status", {"status": new["status"]})

    def put_object(self, version: str, plural: str, name: str, owner: object = None) -> dict[str, Any]:
        """Create an object in the namespace `ml`, with its custom resource if need be; return the reference to it."""
        self.need_namespace("ml")
        kind, group = KINDS[plural], version.rpartition("/")[0]
        if "." in group:
            self.define(version, plural, kind)
        metadata = {"name": name, "ownerReferences": [owner] if owner else []}
        path = f"/apis/{version}/namespaces/ml/{plural}"
        made = self.done(path, {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": SPECS.get(kind, {})})
        return {**reference(version, kind, name), "uid": made["metadata"]["uid"]}

    def clear(self) -> None:
        """Delete what tests create, but for namespaces, custom resources, and what helm uninstalls."""
        for service in self.done(APISERVICES)["items"]:
            if service["spec"].get("service"):  # without one, it is the server's own
                self.done(f"{APISERVICES}/{service['metadata']['name']}", method="DELETE")
        custom = [
            f"/apis/{spec['group']}/{spec['versions'][0]['name']} {spec['names']['plural']}"
            for spec in (each["spec"] for each in self.done(CRDS)["items"])
        ]
        for version, plural in (words.split() for words in (*CREATED, *custom)):
            for item in self.done(f"{version}/{plural}")["items"]:
                name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
                if (namespace, name) != ("default", "kubernetes"):
                    path = f"{version}{f'/namespaces/{namespace}' if namespace else ''}/{plural}/{name}"
                    # In the background: no controller removes the finalizers that other policies add.
                    self.done(f"{path}?gracePeriodSeconds=0&propagationPolicy=Background", method="DELETE")

    def rotate(self, token: str) -> None:
        """Renew the token."""
        self.token = token
        self.token_file.write_text(token)

    def define_operated(self, definitions: Path | None) -> None:
        """Create the kinds of operators, by the definitions of a folder; without one they take any fields."""
        if definitions:
            self.define_all([yaml.safe_load(path.read_text()) for path in sorted(definitions.glob("*.yaml"))])
        for kind, (version, plural, scope) in OPERATED.items():
            self.define(version, plural, kind.rpartition(" ")[2], scope)

    def define(self, version: str, plural: str, kind: str, scope: str = "Namespaced") -> None:
        """Create a custom resource that takes any fields, unless it exists."""
        group, _, number = version.rpartition("/")
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {"name": number, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {"group": group, "names": {"plural": plural, "kind": kind}, "scope": scope, "versions": [served]}
        self.define_all([{"metadata": {"name": f"{plural}.{group}"}, "spec": spec}])

    def define_all(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Create custom resources that do not exist, and wait until the server has them."""
        for each in definitions:
            path = f"{CRDS}/{each['metadata']['name']}"
            if self.request(path)[0] == 404:
                self.done(CRDS, each)
            spec = each["spec"]
            served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            until(partial(self._has, served))

    def _has(self, path: str) -> bool:
        return self.request(path)[0] == 200

    def delete(self, name: str, namespace: str = "gpu-operator") -> None:
        """Delete a pod at once."""
        self.done(f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0", method="DELETE")

    def compact(self) -> None:
        """Make etcd forget all versions before now, and the API server all changes."""
        version = int(self.done("/api/v1/pods?limit=1")["metadata"]["resourceVersion"])
        connection = http.client.HTTPConnection("127.0.0.1", self._ports["etcd"], timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("POST", "/v3/kv/compaction", json.dumps({"revision": version, "physical": True}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
        self.restart()

    def service_account_token(self, namespace: str, name: str) -> str:
        """Return a new token of a ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.done(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("/readyz")[0] == 200
        return False

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait(SECONDS)

    def _etcd_options(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peer"))
        return [
            f"--data-dir={self.folder / 'etcd-data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ]

    def _options(self) -> list[str]:
        options = {
            "etcd-servers": f"http://127.0.0.1:{self._ports['etcd']}",
            "bind-address": "127.0.0.1",
            "advertise-address": "192.0.2.1",  # a loopback address is refused
            "secure-port": self._ports["secure"],
            "service-cluster-ip-range": "10.0.0.0/24",
            "tls-cert-file": "server.crt",
            "tls-private-key-file": "server.key",
            "token-auth-file": "tokens.csv",
            "authorization-mode": "RBAC",
            "allow-privileged": "true",
            "disable-admission-plugins": "ServiceAccount",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": "service-accounts.crt",
            "service-account-signing-key-file": "service-accounts.key",
            "requestheader-client-ca-file": "front-proxy-ca.crt",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": "front-proxy.crt",
            "proxy-client-key-file": "front-proxy.key",
            "audit-policy-file": "audit-policy.json",
            "audit-log-path": "audit.log",
        }
        return [f"--{name}={value}" for name, value in options.items()]
