"""Pages of other nodes are refused, whichever label names the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.collector.exporter_discovery import DiscoveredExporter
from pulsed.collector.exporter_pages import GpuClaims, OwnNodeExporter
from pulsed.errors import OtherNode
from pulsed.kubernetes.exporter_pods import ExporterEndpoint
from pulsed.reader.exporter import ExporterSettings
from pulsed.reader.exporter.source import ExporterSource

GPU = 'gpu="0",UUID="GPU-a"'
POD = "nvidia-dcgm-exporter-x7k2p"


def source(folder: Path, *rows: str) -> ExporterSource:
    """Return the source of a saved page with these labels beside those of the GPU."""
    page = folder / "page.prom"
    page.write_text("".join(f"DCGM_FI_DEV_GPU_UTIL{{{GPU}{row}}} 5\n" for row in rows))
    return ExporterSource(str(page), ExporterSettings(interval=1.0))


def discovered(folder: Path, *rows: str) -> DiscoveredExporter:
    """Return the same as the page of a pod on node-a."""
    endpoint = ExporterEndpoint("gpu-operator/nvidia-dcgm-exporter", "http://10.0.0.1/", "gpu-operator", POD)
    return DiscoveredExporter(endpoint, "node-a", source(folder, *rows), GpuClaims(1.0))


@pytest.mark.parametrize(
    ("row", "host"),
    [
        ("", ""),
        (',Hostname="node-a"', ""),
        (',hostname="NODE-A.example.com"', ""),
        (',Hostname="localhost"', ""),
        (',Hostname="node-a",instance="10.0.0.5:9400"', ""),
        (',Hostname="node-b"', "node-b"),
        (',hostname="node-b"', "node-b"),
        (',node="node-b"', "node-b"),
        (',kubernetes_node="node-b"', "node-b"),
        (',exported_hostname="node-b"', "node-b"),
        (f',Hostname="{POD}"', POD),
    ],
)
async def test_the_host_that_a_page_names_is_that_of_the_node(row: str, host: str, tmp_path: Path) -> None:
    """It is the host that Translate would take."""
    exporter = OwnNodeExporter(source(tmp_path, row), "node-a")
    if host:
        with pytest.raises(OtherNode, match=f"has the GPUs of node {host}, not of node-a"):
            await exporter.read()
    else:
        tick = await exporter.read()
        assert dict(tick.layout.series[0].labels).items() >= {"gpu": "0", "UUID": "GPU-a"}.items()
    await exporter.close()


@pytest.mark.parametrize(
    ("row", "labels"),
    [
        ("", {}),
        (',Hostname="node-a"', {"Hostname": "node-a"}),
        (',Hostname="node-a.example.com"', {"Hostname": "node-a"}),
        (f',Hostname="{POD}"', {"Hostname": "node-a"}),
        # What follows are labels of a tenant's pod, which the exporter has copied.
        (',Hostname="node-a",hostname="node-b"', {"Hostname": "node-a", "hostname": "node-a"}),
        (',Hostname="node-b",hostname="node-a"', {"Hostname": "node-a", "hostname": "node-a"}),
        (',node="node-b",instance="node-b"', {"node": "node-a", "instance": "node-a"}),
        (',Hostname="node-a",exported_pod="x",exported_namespace="y"', {"Hostname": "node-a"}),
    ],
)
async def test_the_node_of_a_discovered_exporter_is_that_of_its_pod(
    row: str, labels: dict[str, str], tmp_path: Path
) -> None:
    exporter = discovered(tmp_path, row)
    tick = await exporter.read()
    assert dict(tick.layout.series[0].labels) == {"gpu": "0", "UUID": "GPU-a", **labels}
    await exporter.close()


async def test_a_discovered_exporter_of_another_host_engine_is_refused(tmp_path: Path) -> None:
    exporter = discovered(tmp_path, ',Hostname="node-b"')
    with pytest.raises(OtherNode, match=f"of pod {POD} has the GPUs of node node-b, not of node-a"):
        await exporter.read()
    await exporter.close()
