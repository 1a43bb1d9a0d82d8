"""The documented shapes, held against documents of boards that nobody would think of."""

from __future__ import annotations

import json
import re
from math import isfinite

from hypothesis import given

from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.documents import GPU, GPUS, gpu_document, gpus_document
from pulsed.present.api.gpu_matches import find
from pulsed.present.api.schema import DocumentModel
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from tests.present.strategies import NOW, boards
from tests.support.documents import has_shape
from tests.support.examples import examples


def holds(shape: type[DocumentModel], document: object) -> None:
    """A document is exactly of its shape, and can be sent."""
    assert has_shape(shape, document)
    json.dumps(document, allow_nan=False)


@given(boards())
@examples(150)
def test_every_document_has_its_shape(board: TargetStore) -> None:
    document = gpus_document(board, Monotonic(NOW), 1767225600.0, "ai")
    holds(GPUS, document)
    for name in ("0", "GPU-a", "0:7", "GPU-b:1", ""):
        for match in find(board, name, now=Monotonic(NOW)):
            holds(GPU, gpu_document(match, Monotonic(NOW), "ai"))


@given(boards())
@examples(100)
def test_the_page_has_the_readings_of_fresh_gpus_that_are_not_null(board: TargetStore) -> None:
    """The page says of fresh GPUs what the document says, except what no Prometheus counter can be."""
    listed = [
        f"pulsed_gpu_{name}"
        for one in gpus_document(board, Monotonic(NOW), 1767225600.0, "ai")["gpus"]
        if not one["stale"]
        for name, value in one["metrics"].items()
        if value is not None and (value >= 0 or not name.endswith("_total"))
    ]
    page = Pages(board, Telemetry(board)).page(Monotonic(NOW), openmetrics=False, gzip=False).decode()
    names = {f"pulsed_gpu_{name}" for name in QUANTITIES}
    shown = [match for match in re.findall(r"^(\w+)\{.*\} (\S+)$", page, re.MULTILINE) if match[0] in names]
    assert sorted(name for name, _ in shown) == sorted(listed)
    assert all(isfinite(float(value)) for _, value in shown)
