"""The host of GPUs whose series do not name one."""

from __future__ import annotations

from socket import gethostname

import pytest

from pulsed.collector.source_factory import node_of_source, open_sources
from pulsed.config.load import load

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
