"""What the chart starts, started: the daemon with the rendered arguments, variables and files, probed as rendered."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml

from tests.support.certificates import make
from tests.support.daemon import Daemon, environment, free_port
from tests.support.exporters import Exporter, exporting
from tests.support.exporters import page as exporter_page
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod, reference
from tests.support.nightly import nightly_after
from tests.support.waiting import SECONDS, until
from tests.system.deploy.cases import HOST, WEB
from tests.system.deploy.chart import Manifest, Values, config, container, environment_of, render


@contextlib.contextmanager
def deployed(
    values: Values, folder: Path, host: str = HOST, pod_name: str = "gpu-pulsed-0", **extra: str
) -> Iterator[Daemon]:
    """The daemon as the container would run it, with its arguments, variables and files; alive as its probes have it.

    What the Secret of the web configuration holds is to be in `folder`; `extra` are variables of the container.
    """
    port = free_port()
    manifests = render({**values, "port": port})
    mounted = config(manifests).replace("/var/lib/pulsed/", f"{folder}/")
    (folder / "config.yaml").write_text(mounted)
    arguments = [re.sub(r"=/etc/pulsed(-web)?/", f"={folder}/", argument) for argument in container(manifests)["args"]]
    log_path = folder / "pulsed.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsed", *arguments],
            stdout=log,
            stderr=log,
            text=True,
            env=environment(**environment_of(manifests, host, pod_name), **extra),
        )
    daemon = Daemon(process, port, log_path)
    try:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            deadline = time.monotonic() + SECONDS
            while not passes(container(manifests)[name], port):
                assert process.poll() is None, daemon.log()
                assert time.monotonic() < deadline, f"{name}: {daemon.log()}"
                time.sleep(0.05)
        yield daemon
    finally:
        process.kill()
        process.wait(SECONDS)


def passes(probe: Manifest, port: int) -> bool:
    """Ask as the kubelet does, which does not verify certificates."""
    with contextlib.suppress(OSError):
        if "tcpSocket" in probe:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return True
        return asked(f"{probe['httpGet']['scheme'].lower()}://127.0.0.1:{port}{probe['httpGet']['path']}") == 200
    return False


def asked(url: str, **headers: str) -> int:
    """The status of an answer; certificates are not verified."""
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5, context=context) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_rendered_daemon_reads_the_exporter_of_its_node(tmp_path: Path) -> None:
    page = exporter_page(0).replace('Hostname="node"', 'Hostname="node-a"')
    with exporting({"metrics": Exporter(page)}) as url:
        port = int(url.rstrip("/").rsplit(":", 1)[1])
        values = {"source": {"exporter": {"via": "hostIP", "port": port}}, "config": {"source": {"interval": "1s"}}}
        with deployed(values, tmp_path, "127.0.0.1") as daemon:
            assert daemon.wait_for("/-/ready").status == 200
            page = daemon.get("/metrics").text
            assert re.search(r"^pulsed_source_up\{[^}]*\} 1(\.0)?$", page, re.MULTILINE), page
            assert daemon.get("/gpus").json()["node"] == "node-a"


def test_the_rendered_daemon_refuses_the_page_of_another_node(tmp_path: Path) -> None:
    """As of a Service that does not route to the pod of the node."""
    given = Exporter(exporter_page(0).replace('Hostname="node"', 'Hostname="node-b"'))
    with exporting({"metrics": given}) as url:
        exporter = {"via": "hostIP", "port": int(url.rstrip("/").rsplit(":", 1)[1])}
        values: dict[str, Any] = {"source": {"exporter": exporter}, "config": {"source": {"interval": "1s"}}}
        with deployed(values, tmp_path, "127.0.0.1") as daemon:
            until(lambda: "has the GPUs of node node-b, not of node-a" in daemon.log())
            assert daemon.get("/gpus").json()["gpus"] == []
            assert "internalTrafficPolicy: Local" in daemon.log()
            given.body = given.body.replace("node-b", "nvidia-dcgm-exporter-x7k2p")
            until(lambda: "has the GPUs of node nvidia-dcgm-exporter-x7k2p, not of node-a" in daemon.log())
            assert (
                "If that is the name of the exporter's pod, set its variable NODE_NAME from spec.nodeName"
                in daemon.log()
            )
            given.body = given.body.replace("nvidia-dcgm-exporter-x7k2p", "node-b")
            given.body = given.body.replace("node-b", "node-a.example.com")
            assert daemon.wait_for("/-/ready").status == 200
        values["config"]["source"]["exporter"] = {"own_node": False}
        given.body = given.body.replace("node-a.example.com", "node-b")
        with deployed(values, tmp_path, "127.0.0.1") as daemon:
            assert daemon.wait_for("/-/ready").status == 200


STOCK: dict[str, dict[str, Any]] = {
    "GPU operator": {"labels": {"app": "nvidia-dcgm-exporter"}},
    "GPU operator with DRA": {"labels": {"app": "nvidia-dcgm-exporter-dra"}, "owner": "nvidia-dcgm-exporter-dra"},
    "dcgm-exporter's chart": {
        "labels": {"app.kubernetes.io/name": "dcgm-exporter", "app.kubernetes.io/instance": "x"},
        "namespace": "monitoring",
        "owner": "dcgm-exporter",
    },
}
"""The exporter's pods of the stock installations, as they come."""


@pytest.mark.parametrize("installation", nightly_after(1, STOCK))
def test_the_default_values_read_a_stock_installation(installation: str, tmp_path: Path) -> None:
    fake = FakeApiServer(tmp_path)
    page = exporter_page(0).replace('Hostname="node"', 'Hostname="node-a",namespace="ml",pod="web-1",container="main"')
    with exporting({"metrics": Exporter(page)}) as url, fake.running() as server:
        fake.put(pod("exporter-x7k2p", port=int(url.rstrip("/").rsplit(":", 1)[1]), **STOCK[installation]))
        fake.put(pod("exporter-other", "127.0.0.2", node="node-b", **STOCK[installation]))
        port = int(url.rstrip("/").rsplit(":", 1)[1])
        fake.put(pod("tenant", port=port, **{**STOCK[installation], "namespace": "ml"}))  # reading it would be an error
        mounted = {  # what the kubelet adds
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": server.rsplit(":", 1)[1],
            "PULSED_KUBERNETES__TOKEN_FILE": str(fake.token_file),
            "PULSED_KUBERNETES__CA_FILE": str(fake.ca_file),
        }
        owner = reference("apps/v1", "ReplicaSet", "web-7d4")
        fake.put(pod("web-1", namespace="ml", owner=owner))
        fake.put_object("apps/v1", "replicasets", "web-7d4", reference("apps/v1", "Deployment", "web"))
        with deployed({}, tmp_path, **mounted) as daemon:
            assert daemon.wait_for("/-/ready").status == 200
            assert re.search(r"^pulsed_gpu_sm_active_ratio\{", daemon.get("/metrics").text, re.MULTILINE)
            until(lambda: 'pulsed_workload_pods{namespace="ml",workload="web"' in daemon.get("/metrics").text)
            assert [gpu["node"] for gpu in daemon.get("/gpus").json()["gpus"]] == ["node-a"]
        watched = {(each.path, str(selectors(each.query))) for each in fake.requests if "watch" in each.query}
        assert watched == {("/api/v1/pods", str({"fieldSelector": "spec.nodeName=node-a"}))}


def selectors(query: dict[str, str]) -> dict[str, str]:
    """The selectors among the parameters of a request."""
    return {name: value for name, value in query.items() if name.endswith("Selector")}


def test_the_rendered_daemon_runs_the_demo(tmp_path: Path) -> None:
    with deployed({"source": {"kind": "demo"}, "config": {"log": {"format": "json"}}}, tmp_path) as daemon:
        daemon.wait_for("/-/ready")
        assert len(daemon.get("/gpus").json()["gpus"]) == 8
        json.loads(daemon.log().splitlines()[0])


def web_configuration(folder: Path, *, users: bool = True, tls: bool = True, clients: bool = False) -> None:
    """What the Secret holds."""
    written: dict[str, object] = {}
    if users:
        written["basic_auth_users"] = {"prometheus": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()}
    if tls:
        make("server").write(folder, "tls")
        written["tls_server_config"] = {"cert_file": "tls.crt", "key_file": "tls.key"}
        if clients:
            client = {"client_ca_file": "tls.crt", "client_auth_type": "RequireAndVerifyClientCert"}
            written["tls_server_config"] = {"cert_file": "tls.crt", "key_file": "tls.key", **client}
    (folder / "web-config.yml").write_text(yaml.safe_dump(written))


def test_the_rendered_daemon_serves_tls_and_asks_for_users_but_not_the_probes(tmp_path: Path) -> None:
    web_configuration(tmp_path)
    with deployed({"source": {"kind": "demo"}, **WEB["TLS"]}, tmp_path) as daemon:
        url = f"https://127.0.0.1:{daemon.port}"
        assert asked(f"{url}/-/healthy") == 200
        assert asked(f"{url}/metrics") == 401
        basic = base64.b64encode(b"prometheus:secret").decode()
        assert asked(f"{url}/metrics", Authorization=f"Basic {basic}") == 200


def helm_test(values: Values, port: int, seconds: int = 60) -> subprocess.CompletedProcess[str]:
    """Run the program of `helm test`, as rendered, against one pod."""
    (test,) = (manifest for manifest in render(values) if manifest["kind"] == "Pod")
    python, option, program, service, _, scheme, _, prefix = test["spec"]["containers"][0]["command"]
    assert (python, option, service) == ("python", "-c", "gpu-pulsed")
    command = [sys.executable, "-W", "error", "-c", program, "127.0.0.1", str(port), scheme, str(seconds), prefix]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)


@pytest.mark.parametrize("name", nightly_after(1, WEB))
def test_the_helm_test_tells_a_daemon_from_none(name: str, tmp_path: Path) -> None:
    web_configuration(tmp_path, tls=name != "users", clients=name == "client certificates")
    values = {"source": {"kind": "demo"}, **WEB[name]}
    with deployed(values, tmp_path) as daemon:
        done = helm_test(values, daemon.port)
    assert done.returncode == 0, done
    assert helm_test(values, free_port(), 0).returncode != 0


@pytest.mark.parametrize("name", ["plain", "TLS"])
def test_the_helm_test_names_the_source_that_is_down(name: str, tmp_path: Path) -> None:
    web_configuration(tmp_path)
    target = f"http://127.0.0.1:{free_port()}/metrics"
    values = {"source": {"exporter": {"targets": [target]}}, "config": {"source": {"interval": "1s"}}, **WEB[name]}
    with deployed(values, tmp_path) as daemon:
        until(lambda: "source failed" in daemon.log())
        done = helm_test(values, daemon.port, 0)
    assert done.returncode == 1
    assert target in done.stdout
    assert "Connect" in done.stdout or "connect" in done.stdout
