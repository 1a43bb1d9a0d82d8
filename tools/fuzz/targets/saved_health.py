"""Saved health: whatever is in it, GPUs are evaluated, and what is written then can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pulsed.collector.collector import Pipeline
from pulsed.collector.pool import SavedHealth
from pulsed.compute.gpu_table import GpuTable
from pulsed.json_text import json_bytes
from pulsed.model.clocks import Unix
from tools.bench.ticks import raw_ticks
from tools.fuzz.json_mutator import mutate_json
from tools.fuzz.target import FuzzTarget

_TARGET = "bench"
_TICKS = raw_ticks(2, 3)
_NOW = 10.0


def _read(data: bytes) -> bytes | None:
    """Return what a run saves which began with this; None if it was refused."""
    saved = SavedHealth()
    try:
        saved.load(json.loads(data))
    except (ValueError, RecursionError):
        return None
    pipeline = Pipeline(GpuTable(), "node")
    saved.restore(_TARGET, pipeline.health_evaluator, Unix(_NOW))
    for tick in _TICKS:
        pipeline.process(tick)
    return json_bytes(saved.dump({_TARGET: pipeline.health_evaluator}))


def _verify(data: bytes, outcome: Any) -> None:
    if outcome is None:
        return
    documents: dict[str, Any] = json.loads(outcome)
    pipeline = Pipeline(GpuTable(), "node")
    pipeline.health_evaluator.restore(documents[_TARGET], Unix(_NOW + 3))
    assert pipeline.health_evaluator.dump() == documents[_TARGET], "another state after a restart"


def _seeds() -> Iterator[bytes]:
    pipeline = Pipeline(GpuTable(), "node")
    for tick in raw_ticks(2, 8):
        pipeline.process(tick)
    document: Any = json.loads(json.dumps(SavedHealth().dump({_TARGET: pipeline.health_evaluator})))
    yield json.dumps(document).encode()
    gpus: dict[str, Any] = document[_TARGET]["gpus"]
    gpu = next(iter(gpus.values()))
    xid = {"last": 1.0, "dated": True, "cleared": False, "count": 2, "source": "gauge", "bursts": [[1.0, ["7"]]]}
    gpu |= {"xids": {"79": xid, "45": xid}, "last_xid": 79, "gauge": 79, "boot_id": "a", "driver_version": "535.1"}
    gpu["states"] = {"xid": ["crit", 1.0, 2.0]}
    yield json.dumps(document).encode()
    gpus.clear()
    gpus["gone"] = gpu
    yield json.dumps(document, separators=(",", ":")).encode()


SAVED_HEALTH = FuzzTarget(
    "saved_health",
    _read,
    (),
    _verify,
    _seeds,
    (
        *(b'"bench":', b'"gpus":{', b'"xids":{', b'"held":{', b'"states":{', b'"resets":'),
        *(b"NaN", b"Infinity", b"-Infinity", b"1e308", b"null", b"true", b"[]", b"{}", b"-1", b'"crit"', b"\\ud800"),
    ),
    mutate_json,
)
