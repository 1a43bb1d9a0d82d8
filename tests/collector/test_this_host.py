"""What is derived from the configuration of the sources: the host of their GPUs, and its epoch."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname

import pytest

from pulsed.collector.source_factory import open_sources
from pulsed.collector.this_host import HostEpoch, host_epoch_of, node_of_pods, node_of_source
from pulsed.config.configuration import load
from pulsed.model.clocks import Unix
from pulsed.model.raw_tick import UNKNOWN_EPOCH, Epoch

REMOTE, LOCAL = "http://gpu-7:9400/metrics", "http://127.0.0.1:9400/metrics"


@pytest.mark.parametrize(
    ("targets", "node", "nodes"),
    [
        ([REMOTE, "https://user:secret@gpu-8/metrics"], None, ["gpu-7", "gpu-8"]),
        ([REMOTE, LOCAL], "fleet", ["gpu-7", "fleet"]),
        ([REMOTE], "configured", ["configured"]),
        ([REMOTE], None, ["gpu-7"]),
        (["http://localhost:9400/metrics", "/var/page.prom"], None, [gethostname(), gethostname()]),
    ],
)
async def test_it_is_that_of_the_target_else_this_one(targets: list[str], node: str | None, nodes: list[str]) -> None:
    overrides = ["source.kind=exporter", f"source.exporter.targets={targets}"]
    config = load(None, (*overrides, *([f"node={node}"] if node else [])), {})
    sources = open_sources(config)
    assert [node_of_source(source, config) for source in sources] == nodes
    for source in sources:
        await source.close()


@pytest.mark.parametrize(
    ("overrides", "node"),
    [
        (["source.kind=dcgmi"], "here"),
        (["source.kind=auto"], "here"),
        (["source.kind=exporter"], "here"),
        (
            ["source.kind=exporter", "source.exporter.discovery=kubernetes", f"source.exporter.targets=[{REMOTE}]"],
            "here",
        ),
        (["source.kind=exporter", f"source.exporter.targets=[{REMOTE}]"], "here"),
        (["source.kind=exporter", f"source.exporter.targets=[{REMOTE}, {LOCAL}]"], ""),
        (["source.kind=auto", f"source.exporter.targets=[{REMOTE}, {LOCAL}]"], ""),
        (
            ["source.kind=exporter", f"source.exporter.targets=[{REMOTE}, {LOCAL}]", "source.exporter.own_node=true"],
            "here",
        ),
        (["source.kind=exporter", f"source.exporter.targets=[{REMOTE}]", "node=null"], ""),
        (["source.kind=exporter", f"source.exporter.targets=[{LOCAL}]", "node=null"], gethostname()),
    ],
)
def test_pods_are_those_of_this_node_unless_exporters_of_others_are_read(overrides: list[str], node: str) -> None:
    assert node_of_pods(load(None, ("node=here", *overrides), {})) == node


def boot_of(epoch: HostEpoch | None) -> str:
    return "" if epoch is None else epoch.completed(UNKNOWN_EPOCH).boot


HERE = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@pytest.mark.parametrize(
    ("target", "here"),
    [
        ("http://localhost:9400/metrics", True),
        ("http://127.0.0.2:9400/metrics", True),
        ("http://[::1]:9400/metrics", True),
        (f"https://{gethostname().upper()}/metrics", True),
        (f"http://{gethostname()}x:9400/metrics", False),
        ("http://localhost.example.com/metrics", False),
        (REMOTE, False),
        ("/var/lib/pages/localhost.prom", False),
    ],
)
def test_the_boot_id_of_an_exporter_is_known_on_this_host(target: str, here: bool) -> None:
    for kind, targets in (("exporter", target), ("auto", f"['{target}', {REMOTE}/other]")):
        config = load(None, (f"source.kind={kind}", f"source.exporter.targets={targets}"), {})
        assert boot_of(host_epoch_of(config, target)) == (HERE if here else "")


@pytest.mark.parametrize(
    ("kind", "host", "here"), [("dcgmi", "null", True), ("dcgmi", "far", False), ("demo", "null", False)]
)
def test_the_boot_id_of_a_host_engine_is_known_on_this_host(kind: str, host: str, here: bool) -> None:
    config = load(None, (f"source.kind={kind}", f"source.dcgmi.host={host}"), {})
    assert boot_of(host_epoch_of(config, "dcgmi dmon")) == (HERE if here else "")


def test_a_driver_that_is_loaded_again_is_another_generation(tmp_path: Path) -> None:
    folder = tmp_path / "nvidia"
    host, source = HostEpoch("a", Unix(5.0), folder), Epoch(engine="1", exporter="2")
    unloaded = host.completed(source)
    assert unloaded == Epoch("a", "", "1", "2", Unix(5.0))
    folder.mkdir()
    loaded = host.completed(source)
    assert loaded.driver
    assert host.completed(source) == loaded
    folder.rename(tmp_path / "before")
    folder.mkdir()
    assert host.completed(source).driver not in ("", loaded.driver)
    assert host.completed(Epoch(engine="3")).engine == "3"
