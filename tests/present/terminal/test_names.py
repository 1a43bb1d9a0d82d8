"""Names of nodes, owners and GPUs in narrow tables keep what distinguishes them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pulsed.present.terminal.frame import frame
from pulsed.present.terminal.lists import jobs
from pulsed.present.terminal.model import Model
from pulsed.present.terminal.text import distinguished
from pulsed.present.terminal.view_state import ViewState
from pulsed.printable import clean
from tests.present.terminal.fleet_model import model, with_documents


@pytest.mark.parametrize(
    ("names", "width", "shown"),
    [
        (["node1", "node2"], 8, ["node1", "node2"]),
        (["gpu-node-001", "gpu-node-096"], 8, ["…001", "…096"]),
        (["gpu-a1.cluster.local", "gpu-b1.cluster.local"], 8, ["gpu-a1", "gpu-b1"]),
        (["gpu-node-001/0", "gpu-node-002/0"], 6, ["…001/0", "…002/0"]),
        (["pod ml/llama-70b-worker-0", "pod ml/llama-70b-worker-1"], 16, ["…70b-worker-0", "…70b-worker-1"]),
        (["training/llama-worker-0", "free"], 10, ["tra…rker-0", "free"]),
        (["dgx-a100-pod1-rack07"] * 2, 8, ["dg…ack07"] * 2),
    ],
)
def test_what_is_common_is_left_out(names: list[str], width: int, shown: list[str]) -> None:
    found = distinguished(names, width)
    assert [found[name] for name in names] == shown


@given(st.lists(st.text(), min_size=1), st.integers(0, 20))
def test_every_name_fits(names: list[str], width: int) -> None:
    names = [clean(name) for name in names]
    found = distinguished(names, width)
    assert set(found) == set(names)
    assert all(cell_len(shown) <= width for shown in found.values())


def several_nodes() -> Model:
    """Return nodes and pods with long names that differ at the end."""
    shown = model()
    gpus = tuple(replace(gpu, node=f"gpu-node-{at:03d}.cluster.local") for at, gpu in enumerate(shown.gpus))
    (job,) = shown.daemons[0].documents["jobs"]["jobs"]
    (part, *_) = job["gpus"]
    pods = [
        {
            **job,
            "owner": {**job["owner"], "kind": "pod", "id": f"training/llama-70b-worker-{at}"},
            "gpus": [{**part, "node": gpu.node, "gpu": gpu.gpu, "uuid": gpu.uuid, "mig_id": gpu.mig_id or None}],
        }
        for at, gpu in enumerate(gpus)
    ]
    return with_documents(replace(shown, gpus=gpus), jobs={"jobs": pods}, processes={"processes": []})


@pytest.mark.parametrize("width", [80, 120])
def test_rows_of_gpus_and_owners_are_told_apart(width: int) -> None:
    shown = several_nodes()
    texts = [each.plain for each in frame(shown, ViewState(layout="rows"), width, 24).lines]
    assert all(any(f"{at:03d}" in text for text in texts) for at in range(len(shown.gpus)))
    _, *rows, _ = jobs(shown, ViewState(view="work"), shown.gpus, width, 24).lines
    assert len(rows) == len(shown.gpus)
    for at, row in enumerate(rows):
        assert f"{at} " in row.plain[:40]
        assert f"{at:03d}" in row.plain
