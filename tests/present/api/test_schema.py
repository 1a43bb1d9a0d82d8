"""The documented shapes, held against documents of boards that nobody would think of."""

from __future__ import annotations

import json
import re
from math import inf, isfinite, nan

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsed.collector.target_store import Target, TargetStore
from pulsed.compute.health.model import NOT_JUDGED
from pulsed.compute.tick import RealUtilization, Result, Workload
from pulsed.compute.workload.class_table import WORKLOAD_CLASSES
from pulsed.compute.workload.result import BOTTLENECK_STATES
from pulsed.present.api import schema
from pulsed.present.api.documents import find, gpu_document, gpus_document
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.translate.tick import Device, Entity
from pulsed.translate.vocabulary import NOTHING, QUANTITIES
from tests.present.boards import NOT_SATURATED, SATURATED, SICK, Gpu, tick

NOW = 100.0

texts = st.text(max_size=12)
ratios = st.floats(0, 1)
numbers = st.none() | st.floats(0, 1e18) | st.sampled_from([0, 0.0, -1.0, nan, inf, -inf, 1e300])
readings = st.dictionaries(st.sampled_from(tuple(QUANTITIES)), numbers, max_size=8).map(
    lambda values: NOTHING._replace(**values)
)
entities = st.builds(
    Entity,
    st.sampled_from(["gpu", "mig", "vgpu"]),
    st.sampled_from(["", "0", "1", "2"]),
    st.sampled_from(["", "GPU-a", "GPU-b"]),
    st.sampled_from(["", "1", "7"]),
    texts,
    st.sampled_from(["", "here", "there"]),
)
devices = st.builds(Device, entities, texts, texts, texts, texts, texts)
utilizations = st.builds(
    RealUtilization,
    st.none() | ratios,
    ratios,
    ratios,
    ratios,
    st.lists(st.sampled_from(tuple(QUANTITIES)), max_size=3).map(tuple),
)
workloads = st.builds(
    Workload,
    st.sampled_from(WORKLOAD_CLASSES),
    st.sampled_from(BOTTLENECK_STATES),
    st.lists(st.sampled_from(WORKLOAD_CLASSES), max_size=3).map(tuple),
)
saturations = st.sampled_from([SATURATED, NOT_SATURATED])
results = st.tuples(utilizations, workloads, saturations, st.sampled_from([SICK, NOT_JUDGED])).map(
    lambda parts: Result(*parts[:3], health=parts[3])
)
gpus = st.builds(Gpu, devices, readings, results)


@st.composite
def boards(draw: st.DrawFn) -> TargetStore:
    targets = []
    for number in range(draw(st.integers(0, 3))):
        target = Target(draw(st.sampled_from(["exporter", "replay", "demo"])), f"target {number}", 1.0, 3.0)
        if draw(st.booleans()):
            target.accept(tick(draw(st.lists(gpus, max_size=4))), NOW - draw(st.sampled_from([0.0, 2.0, 60.0])))
        if draw(st.booleans()):
            target.fail("scrape_failed", draw(texts))
        targets.append(target)
    return TargetStore("here", targets)


def holds(shape: type[schema.Shape], document: object) -> None:
    """A document is exactly of its shape, and can be sent."""
    assert shape.model_validate(document, strict=True).model_dump(by_alias=True) == document
    json.dumps(document, allow_nan=False)


@given(boards())
@settings(max_examples=150)
def test_every_document_has_its_shape(board: TargetStore) -> None:
    document = gpus_document(board, NOW, 1767225600.0, "ai")
    holds(schema.Gpus, document)
    for name in ("0", "GPU-a", "0:7", "GPU-b:1", ""):
        for match in find(board, name, now=NOW):
            holds(schema.Gpu, gpu_document(match, NOW, "ai"))


@given(boards())
@settings(max_examples=100)
def test_what_is_null_is_absent_and_what_is_stale_is_gone(board: TargetStore) -> None:
    """The page says of fresh GPUs what the document says, except what no Prometheus counter can be."""
    listed = [
        f"pulsed_gpu_{name}"
        for one in gpus_document(board, NOW, 1767225600.0, "ai")["gpus"]
        if not one["stale"]
        for name, value in one["metrics"].items()
        if value is not None and (value >= 0 or not name.endswith("_total"))
    ]
    page = Pages(board, Telemetry(board)).page(NOW, openmetrics=False, gzip=False).decode()
    names = {f"pulsed_gpu_{name}" for name in QUANTITIES}
    shown = [match for match in re.findall(r"^(\w+)\{.*\} (\S+)$", page, re.MULTILINE) if match[0] in names]
    assert sorted(name for name, _ in shown) == sorted(listed)
    assert all(isfinite(float(value)) for _, value in shown)
