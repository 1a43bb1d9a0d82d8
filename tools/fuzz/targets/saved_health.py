"""The file of latched health: whatever is in it, GPUs are evaluated, and what is written then can be read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsed.collector.collector import Pipeline
from pulsed.collector.state_file import SavedHealth, StateFile
from pulsed.compute.gpu_table import GpuTable
from tools.bench.ticks import raw_ticks
from tools.fuzz.json_mutator import mutate_json
from tools.fuzz.target import FuzzTarget

_FILE = Path(tempfile.mkdtemp(prefix="pulsed-fuzz-")) / "health.json"
_TARGET = "bench"
_TICKS = raw_ticks(2, 3)
_NOW = 10.0


def _read(data: bytes) -> bytes | None:
    """Return the file that a run writes which began with this one; None if it was set aside."""
    _FILE.write_bytes(data)
    saved = SavedHealth(StateFile(_FILE))
    return _result(saved) if _FILE.exists() else None


def _result(saved: SavedHealth) -> bytes:
    pipeline = Pipeline(GpuTable(), "node")
    saved.restore(_TARGET, pipeline.health_evaluator, _NOW)
    for tick in _TICKS:
        pipeline.process(tick)
    _FILE.unlink(missing_ok=True)
    saved.write({_TARGET: pipeline.health_evaluator})
    assert _FILE.exists(), "the state of a run cannot be written"
    return _FILE.read_bytes()


def _verify(data: bytes, outcome: Any) -> None:
    if outcome is None:
        return
    documents: dict[str, Any] = json.loads(outcome)["targets"]
    pipeline = Pipeline(GpuTable(), "node")
    pipeline.health_evaluator.restore(documents[_TARGET], _NOW + 3)
    assert pipeline.health_evaluator.dump() == documents[_TARGET], "another state after a restart"


def _seeds() -> Iterator[bytes]:
    pipeline = Pipeline(GpuTable(), "node")
    for tick in raw_ticks(2, 8):
        pipeline.process(tick)
    saved = SavedHealth(StateFile(_FILE))
    saved.write({_TARGET: pipeline.health_evaluator})
    document = json.loads(_FILE.read_bytes())
    yield _FILE.read_bytes()
    gpus: dict[str, Any] = document["targets"][_TARGET]["gpus"]
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
        *(b'{"version":1,"targets":{', b'"bench":', b'"gpus":{', b'"xids":{', b'"held":{', b'"states":{', b'"resets":'),
        *(b"NaN", b"Infinity", b"-Infinity", b"1e308", b"null", b"true", b"[]", b"{}", b"-1", b'"crit"', b"\\ud800"),
    ),
    mutate_json,
)
