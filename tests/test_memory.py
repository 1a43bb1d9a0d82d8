"""Garbage collection: full collections stay short, and GPUs are freed without any."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.settings import ComputeSettings
from pulsed.memory import MANY_GPUS, THRESHOLDS, THRESHOLDS_OF_MANY, FullCollections
from tools.bench.ticks import raw_ticks


@pytest.fixture
def collector() -> Iterator[None]:
    """Undo what a test excludes from collections."""
    yield
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("long_seconds", "generation", "is_excluded"), [(0.0, 2, True), (0.0, 1, False), (9.0, 2, False)]
)
def test_what_a_long_full_collection_found_alive_is_excluded(
    collector: None, long_seconds: float, generation: int, is_excluded: bool
) -> None:
    gc.unfreeze()
    callback = FullCollections(long_seconds)
    gc.callbacks.append(callback)
    try:
        gc.collect(generation)
    finally:
        gc.callbacks.remove(callback)
    assert (gc.get_freeze_count() > 0) is is_excluded


@pytest.mark.slow
def test_reference_counts_free_the_state_of_gpus() -> None:
    ticks = raw_ticks(40, 3)
    gc.collect()
    gc.disable()
    try:
        pipeline = Pipeline(ComputeSettings(), "node")
        for raw in ticks:
            pipeline.process(raw)
        del pipeline
        assert gc.collect() < 40, "objects in cycles"
    finally:
        gc.enable()


def test_collections_are_rare_where_there_are_many_gpus(collector: None) -> None:
    before, gpus = gc.get_threshold(), MANY_GPUS
    callback = FullCollections(gpus=lambda: gpus)
    gc.callbacks.append(callback)
    try:
        gc.collect(1)
        assert gc.get_threshold() == THRESHOLDS_OF_MANY
        gpus = 8
        gc.collect(1)
        assert gc.get_threshold() == THRESHOLDS
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*before)
