"""A dozen looks at the whole program with real parts: one for each way in and out. `tests/system` has the rest."""

from __future__ import annotations

import re
import signal
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.attacks.watch import LOGIN, serving_with_tls
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.exporters import Exporter, exporting
from tests.support.exporters import page as exporter_page
from tests.support.kubernetes.fake_api_server import FakeApiServer, pod
from tests.support.kubernetes.fake_kubelet import container, kubelet, pods
from tests.support.prometheus import CONFIG, prometheus
from tests.support.standin.install import Standin
from tests.support.standin.scenario import Scenario, gpus
from tests.support.tools import tool
from tests.support.waiting import until

GOLDEN = Path(__file__).parent / "golden"
PAGE = """\
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100"} 300
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",modelName="NVIDIA H100"} 70
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving(tmp_path_factory.mktemp("demo"), "--source", "demo") as daemon:
        yield daemon


def test_the_demo_is_served(demo: Daemon) -> None:
    families = {family.name: family for family in text_string_to_metric_families(demo.get("/metrics").text)}
    assert len(families["pulsed_gpu_sm_active_ratio"].samples) == 8
    assert len(demo.get("/gpus").json()["gpus"]) == 8
    assert demo.get("/", {"Accept": "text/html"}).headers["content-type"].startswith("text/html")


def test_promtool_accepts_the_page(demo: Daemon) -> None:
    page = demo.get("/metrics").body
    command = [tool("promtool", "prometheus"), "check", "metrics"]
    done = subprocess.run(command, input=page, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_prometheus_scrapes_it(demo: Daemon, tmp_path: Path) -> None:
    with prometheus(tmp_path, CONFIG.format(interval="1s", address=demo.address)) as server:
        server.wait_for('count(pulsed_gpu_real_utilization_ratio{job="pulsed"}) == 8')


def test_top_prints_a_frame(demo: Daemon) -> None:
    done = pulsed("top", "--once", f"http://{demo.address}", COLUMNS="110", LINES="34")
    assert (done.returncode, done.stderr) == (0, "")
    assert "GPUs 8 | " in done.stdout
    assert "\x1b" not in done.stdout


def test_a_saved_page_with_mig_instances_is_served(tmp_path: Path) -> None:
    page = GOLDEN / "pages" / "exporter-4.8-mig.prom"
    expected = (GOLDEN / "expected" / "exporter-4.8-mig.metrics.txt").read_text()
    with serving(tmp_path, "--source", "exporter", "--set", f"source.exporter.targets={page}") as daemon:
        served = daemon.get("/metrics").text
    pattern = re.compile(r'^pulsed_gpu_sm_active_ratio\{node="[^"]*",(.*)$', re.MULTILINE)
    assert pattern.findall(served) == pattern.findall(expected)
    assert "mig_profile=" in "".join(pattern.findall(served))


def test_a_capture_is_replayed(tmp_path: Path) -> None:
    capture = tmp_path / "capture.txt"
    capture.write_text("#Entity   SMACT   POWER\nID\nGPU 0     0.500   300.000\nGPU 0     0.700   310.000\n")
    done = pulsed(
        "export", "--source", "replay", "--set", f"source.replay.path={capture}", "--columns", "sm_active_ratio"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["sm_active_ratio", "0.5", "0.7"]


def test_dcgmi_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    standin = Standin(folder, Scenario(version="4.5.3", gpus=gpus("ampere", 2)))
    settings = (f"--set=source.dcgmi.path={standin.path}", "--set=source.interval=100ms")
    with serving(tmp_path, "--source", "dcgmi", *settings) as daemon:
        found = daemon.get("/gpus").json()["gpus"]
    assert [gpu["gpu"] for gpu in found] == ["0", "1"]
    assert all(gpu["metrics"]["sm_active_ratio"] is not None for gpu in found)


def test_tls_and_a_login_are_required(tmp_path: Path) -> None:
    with serving_with_tls(tmp_path, "--source", "demo") as daemon:
        assert daemon.get("/metrics").status == 401
        login = {"Authorization": f"Basic {b64encode(':'.join(LOGIN).encode()).decode()}"}
        assert daemon.get("/metrics", login).status == 200


def test_sighup_reloads_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yaml"
    file.write_text("source: {kind: demo}\n")
    with serving(tmp_path, "--config.file", str(file)) as daemon:
        file.write_text("source: {kind: demo}\ncompute: {real_utilization: {preset: hpc}}\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: daemon.get("/gpus").json()["gpus"][0]["real_utilization"]["preset"] == "hpc")
        assert daemon.stop() == 0


def test_the_kubelet_names_the_owners(tmp_path: Path) -> None:
    page, path = tmp_path / "page.prom", tmp_path / "kubelet.sock"
    page.write_text(PAGE)
    settings = [f"source.exporter.targets={page}", f"attribution.kubelet.socket={path}", "source.interval=1"]
    response = pods({"name": "train-0", "namespace": "ml", "containers": [container("main", "GPU-a")]})
    with (
        kubelet(path, lambda _: response),
        serving(tmp_path, "--source", "exporter", *(f"--set={each}" for each in settings)) as daemon,
    ):
        until(lambda: 'pulsed_pod_gpus{namespace="ml",pod="train-0",container="main"} 1' in daemon.get("/metrics").text)


def test_the_exporter_of_the_node_is_found_by_the_kubernetes_api(tmp_path: Path) -> None:
    fake = FakeApiServer(tmp_path)
    page = exporter_page(0, 0.5).replace('Hostname="node"', 'Hostname="node-a"')
    with fake.running() as api, exporting({"metrics": Exporter(page)}) as url:
        fake.put(pod("exporter-a", port=int(url.rstrip("/").rsplit(":", 1)[1])))
        host, port = api.removeprefix("https://").split(":")
        variables: dict[str, Any] = {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "PULSED_KUBERNETES__TOKEN_FILE": str(fake.token_file),
            "PULSED_KUBERNETES__CA_FILE": str(fake.ca_file),
            "PULSED_NODE": "node-a",
            "PULSED_SOURCE__EXPORTER__DISCOVERY": "kubernetes",
        }
        with serving(tmp_path, "--source", "exporter", **variables) as daemon:
            assert [gpu["node"] for gpu in daemon.get("/gpus").json()["gpus"]] == ["node-a"]
