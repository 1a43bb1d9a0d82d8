"""The compose file and what it mounts: judged by docker-compose, promtool, and a real Prometheus on the demo."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsed.config.configuration import load
from tests.support.daemon import serving
from tests.support.prometheus import prometheus
from tests.support.tools import tool
from tests.support.waiting import SECONDS
from tests.system.deploy.tools import fetched

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "container"

Service = dict[str, Any]
PULSED = {"demo": "pulsed-demo", "gpu": "pulsed"}


@functools.cache
def services(profile: str) -> dict[str, Service]:
    """The services of a profile as docker-compose understands them."""
    done = subprocess.run(
        [fetched("docker-compose"), "-f", FOLDER / "compose.yaml", "--profile", profile, "config", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Service] = json.loads(done.stdout)["services"]
    return found


def test_the_demo_needs_no_gpu() -> None:
    assert set(services("demo")) == {"pulsed-demo", "prometheus", "grafana"}
    assert not [name for name, service in services("demo").items() if "deploy" in service]


def test_the_gpu_goes_to_the_exporter_alone() -> None:
    found = services("gpu")
    assert set(found) == {"dcgm-exporter", "pulsed", "prometheus", "grafana"}
    (device,) = found["dcgm-exporter"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert [name for name, service in found.items() if service.get("cap_add") or service.get("privileged")] == [
        "dcgm-exporter"
    ]


@pytest.mark.parametrize("profile", PULSED)
def test_pulsed_takes_its_environment_and_is_locked_up(profile: str) -> None:
    service = services(profile)[PULSED[profile]]
    config = load(None, [], service["environment"])
    assert config.source.kind == {"demo": "demo", "gpu": "exporter"}[profile]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    build = service["build"]
    assert (Path(build["context"]) / build["dockerfile"]).is_file()
    if profile == "gpu":
        assert [target.url for target in config.source.exporter.targets] == ["http://dcgm-exporter:9400/metrics"]


@pytest.mark.parametrize("profile", PULSED)
def test_what_is_mounted_is_there_and_read_only(profile: str) -> None:
    for name, service in services(profile).items():
        for volume in service.get("volumes", []):
            if volume["type"] == "bind":
                assert Path(volume["source"]).exists(), f"{name}: {volume['source']}"
                assert volume["read_only"] is True
        assert not [port for port in service.get("ports", []) if port["host_ip"] != "127.0.0.1"]
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+", service["image"]), "a fixed version"


@pytest.mark.parametrize("profile", PULSED)
def test_everything_finds_what_it_reads(profile: str) -> None:
    found = services(profile)
    names = set(found)
    for service in found.values():
        for network in service["networks"].values():
            names |= set((network or {}).get("aliases", []))
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    targets = [target for job in scrape for config in job["static_configs"] for target in config["targets"]]
    source = yaml.safe_load((FOLDER / "grafana" / "datasources" / "prometheus.yaml").read_text())["datasources"][0]
    assert {target.split(":")[0] for target in targets} <= names
    assert re.fullmatch(r"http://(\w+):9090", source["url"])
    assert source["url"].split("/")[2].split(":")[0] in names
    provider = yaml.safe_load((FOLDER / "grafana" / "dashboards" / "pulsed.yaml").read_text())["providers"][0]
    mounted = {volume["target"]: volume["source"] for volume in found["grafana"]["volumes"]}
    assert mounted[provider["options"]["path"]] == str(ROOT / "deploy" / "grafana")
    assert mounted["/etc/grafana/provisioning"] == str(FOLDER / "grafana")


def test_promtool_passes_the_configuration(tmp_path: Path) -> None:
    """With the rules where the compose file mounts them."""
    shutil.copy(FOLDER / "prometheus.yml", tmp_path)
    shutil.copytree(ROOT / "helm" / "pulsed" / "files", tmp_path / "rules")
    done = subprocess.run(
        [tool("promtool", "prometheus"), "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_the_demo_as_configured(tmp_path: Path) -> None:
    environment = services("demo")["pulsed-demo"]["environment"]
    with serving(tmp_path, **environment) as daemon:
        text = (FOLDER / "prometheus.yml").read_text()
        text = text.replace("pulsed:9401", daemon.address).replace("scrape_interval: 15s", "scrape_interval: 1s")
        with prometheus(tmp_path, text) as server:
            server.wait_for('up{job="pulsed"} == 1')
            server.wait_for("count(pulsed_gpu_real_utilization_ratio) == 8")


def test_the_exporter_counts_what_pulsed_can_use() -> None:
    for volume in services("gpu")["dcgm-exporter"]["volumes"]:
        assert Path(volume["source"]).is_file()
