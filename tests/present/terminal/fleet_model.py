"""A model of ten GPUs in all kinds of doubt, from documents of the real API with fixed times."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from pulsed.compute.class_table import RULES
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import Health
from pulsed.model.interval import Interval, exactly
from pulsed.model.owner import Owner
from pulsed.model.result import RealUtilization, Result, Saturation, ShownClass, Workload
from pulsed.model.vocabulary import Reading
from pulsed.present.terminal.focus import HISTORY_FIELDS
from pulsed.present.terminal.model import SUMMARY_FIELDS, Answers, Model, model_of
from tests.present.api.test_application import Known
from tests.present.boards import COUNTED, NOT_SATURATED, OPEN, SETTLED, SICK, TIME, gpu, mig
from tests.present.boards import Gpu as BoardGpu

WELL = Health("ok", 1.0, ())
OWNER = Owner("slurm_job", "4711", user="ann", account="lab")
POD = Owner("pod", "ml/train-0/main", namespace="ml", name="train-0", container="main", uid="7f3c")

READING = {
    "gpu_utilization_ratio": 0.98,
    "graphics_engine_active_ratio": 0.97,
    "sm_active_ratio": 0.85,
    "sm_occupancy_ratio": 0.32,
    "tensor_active_ratio": 0.64,
    "dram_active_ratio": 0.45,
    "memory_utilization_ratio": 0.5,
    "memory_bytes": 80 * 2.0**30,
    "memory_used_bytes": 61 * 2.0**30,
    "power_watts": 412.0,
    "power_limit_watts": 700.0,
    "temperature_celsius": 62.0,
    "memory_temperature_celsius": 71.0,
    "pcie_receive_bytes_per_second": 1.2e9,
    "pcie_transmit_bytes_per_second": 3.0e8,
    "nvlink_receive_bytes_per_second": 6.0e9,
    "nvlink_transmit_bytes_per_second": 6.5e9,
    "pcie_replays_total": 3.0,
    "sm_clock_hertz": 1.98e9,
    "memory_clock_hertz": 2.619e9,
    "energy_joules_total": 1.25e6,
    "pcie_link_generation": 5.0,
    "pcie_link_width": 16.0,
    "performance_state": 0.0,
    "ecc_mode": 1.0,
    "xid_last_code": 0.0,
}


def result(ratio: float | None, lower: float, upper: float, name: str, bottleneck: str, **changes: Any) -> Result:
    made = Result(
        RealUtilization(Interval(lower, ratio, upper), 1.0),
        Workload(name, bottleneck),
        Saturation(exactly(0.7), "dram", (0.3, 0.0, 0.25, 0.0, 0.1, 0.7, 0.2, 0.05), 0.3, 0.7),
        ShownClass(name, bottleneck, Unix(TIME - 840), used=None if name == "unknown" else name != "idle"),
        COUNTED,
        WELL,
    )
    return made._replace(**changes)


def made(number: int, shown: Result, reading: Mapping[str, float | None]) -> BoardGpu:
    return gpu(number, result=shown)._replace(reading=Reading(**reading))


def owned(board: BoardGpu, *owners: Owner) -> BoardGpu:
    return board._replace(owners=owners)


BOUNDED = result(None, 0.38, 0.61, "unknown", "unknown", saturation=NOT_SATURATED)._replace(
    real_utilization=RealUtilization(Interval(0.38, None, 0.61, ("tensor_active_ratio",)), 0.6),
    workload=Workload("unknown", "unknown", ("memory_bound", "mixed_or_moderate")),
)
NAMELESS: dict[str, float | None] = {**READING, "tensor_active_ratio": None, "memory_temperature_celsius": None}


def boards() -> list[BoardGpu]:
    """One GPU per case: busy, bounds, sick, idle but held, free, io, without any reading, split, and stale."""
    idle: dict[str, float | None] = {
        **READING,
        **dict.fromkeys([name for name in READING if name.endswith("_active_ratio")], 0.0),
    }
    idle |= {"gpu_utilization_ratio": 0.0, "power_watts": 71.0, "temperature_celsius": 31.0}
    return [
        owned(made(0, result(0.62, 0.62, 0.62, "tensor_heavy_compute", "compute"), READING), OWNER),
        owned(made(1, BOUNDED, NAMELESS), OWNER, POD),
        owned(
            made(2, SETTLED._replace(health=SICK), {**READING, "tensor_active_ratio": 0.3, "dram_active_ratio": 0.7}),
            POD,
        ),
        owned(made(3, result(0.0, 0.0, 0.0, "idle", "idle", idle_kind="held"), idle), OWNER),
        owned(made(4, result(0.0, 0.0, 0.0, "idle", "idle", idle_kind="free"), {**idle, "memory_used_bytes": 0.0})),
        made(5, result(0.12, 0.12, 0.12, "io_or_data_loading", "io"), READING),
        gpu(6, result=OPEN),
        mig(7, 3, sm_active_ratio=0.2),
        made(8, result(0.5, 0.5, 0.5, "compute_heavy", "compute"), READING),
    ]


def documents(made: Sequence[BoardGpu]) -> dict[str, Any]:
    """What the API answers about these GPUs, at a fixed time."""
    known = Known(made)
    known.board.targets[0].arrived = Monotonic(time.monotonic())

    async def get(path: str) -> Any:
        return (await known.get(path))[1]

    async def read() -> dict[str, Any]:
        fields = ",".join(SUMMARY_FIELDS)
        return {
            "summary": await get(f"/gpus?view=summary&fields={fields}"),
            "detail": await get("/gpus/2"),
            "class": await get("/gpus/2/class"),
            "host": {
                "cpu_count": 64, "cpu_busy_ratio": 0.125, "load_average": 3.5,
                "memory_bytes": 512 * 2**30, "memory_used_bytes": 30 * 2**30,
            },
        }  # fmt: skip

    with ThreadPoolExecutor(1) as beside:  # the caller may be in an event loop
        found = beside.submit(asyncio.run, read()).result()
    text = json.dumps(found)
    fixed: dict[str, Any] = json.loads(text)
    summary = fixed["summary"]
    summary["time"] = "2026-01-01T00:00:00.700Z"
    summary["stale"] = [number == 8 for number in range(len(summary["stale"]))]
    summary["sample_time"] = [TIME - 41 if is_stale else TIME for is_stale in summary["stale"]]
    for source in (summary["source"], *summary["sources"]):
        source |= {"up": True, "error": None, "last_sample_time": "2026-01-01T00:00:00.100Z"}
    return fixed


EVENT_HEAD = {"gpu": "2", "uuid": "GPU-node1-0002", "mig_id": None, "node": "node1"}
OWNER_DOCUMENT: dict[str, Any] = {
    "kind": "slurm_job", "id": "4711", "user": "ann", "user_id": None, "account": "lab", "partition": None,
    "cluster": None, "name": None, "namespace": None, "container": None, "uid": None, "workload": None,
    "workload_kind": None, "labels": {},
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"id": 7, "event": "workload_class", "time": "2025-12-31T23:46:00.100Z", **EVENT_HEAD, "before": "idle",
     "after": "memory_bound", "bottleneck": "memory"},
    {"id": 6, "event": "owner", "time": "2025-12-31T23:45:00.100Z", **EVENT_HEAD, "change": "begin",
     "owner": OWNER_DOCUMENT},
]  # fmt: skip
INCIDENTS: list[dict[str, Any]] = [
    {**EVENT_HEAD, "kind": "xid", "cause": "48", "state": "crit", "since": "2025-12-31T23:59:58.100Z", "until": None,
     "message": "uncorrectable (double-bit) ECC error", "remedy": "stop the jobs on this GPU and reset it", "times": 2,
     "consequences": [{"kind": "health", "id": "ecc_uncorrectable", "state": "crit", "message": "ECC errors"}]},
    {**EVENT_HEAD, "kind": "health", "cause": "row_remap_pending", "state": "warn", "remedy": "Reset the GPU",
     "since": "2025-12-31T23:59:50.100Z", "until": None, "message": "A memory repair waits for a reset", "times": 1,
     "consequences": []},
    {**EVENT_HEAD, "kind": "finding", "cause": "hang", "state": "suspected", "message": "no progress for 5 min",
     "since": "2025-12-31T23:44:00.100Z", "until": "2025-12-31T23:50:00.000Z", "remedy": "", "times": 1,
     "consequences": []},
]  # fmt: skip


def job() -> dict[str, Any]:
    summary = {"idle_seconds": 600.0, "idle_ratio": 0.25, "joules": 3.6e6}
    parts = [
        {"node": "node1", "gpu": str(number), "uuid": f"GPU-node1-{number:04}", "mig_id": None,
         "held_seconds": 2400.0, "summary": summary}
        for number in (0, 1, 3)
    ]  # fmt: skip
    return {"owner": OWNER_DOCUMENT, "gpus": parts}


PROCESS = {
    "pid": 12345, "slurm_job": "4711", "pod_uid": None, "user": "ann", "memory_bytes": 3 * 2**30,
    "start": "2025-12-31T23:00:00.000Z", "command": "python train.py --epochs 90",
    "gpus": [{"gpu": "0", "uuid": "GPU-node1-0000", "mig_id": None, "memory_bytes": 12 * 2**30,
              "sm_utilization_ratio": 0.43, "mean_utilization_ratio": None, "peak_memory_bytes": None}],
}  # fmt: skip


STRAY: dict[str, Any] = {
    "pid": 777, "slurm_job": None, "pod_uid": None, "user": None, "memory_bytes": None, "start": None, "command": None,
    "gpus": [{"gpu": "7", "uuid": "GPU-node1-0007", "mig_id": "3", "memory_bytes": 2**30,
              "sm_utilization_ratio": None, "mean_utilization_ratio": None, "peak_memory_bytes": None}],
}  # fmt: skip
HIDDEN = {**STRAY, "pid": 778, "gpus": None}


def points() -> dict[str, Any]:
    """The history of all GPUs: a wave with a gap."""
    times = [TIME - 600 + 5 * point for point in range(120)]

    def wave(number: int) -> dict[str, Any]:
        mean = [None if 40 <= at < 50 else round(((at * (number + 1)) % 60) / 60, 3) for at in range(120)]
        return {"min": mean, "mean": mean, "max": mean}

    classes = [None if 40 <= at < 50 else "idle" if at < 40 else "memory_bound" for at in range(120)]
    gpus = [
        {"gpu": str(number), "uuid": f"GPU-node1-{number:04}", "mig_id": None, "node": "node1", "interval_seconds": 1.0,
         "fields": {"workload_class": classes, "real_utilization_ratio": wave(number), "sm_active_ratio": wave(2),
                    "pcie_receive_bytes_per_second": _scaled(wave(1), 6e10),
                    "pcie_transmit_bytes_per_second": _scaled(wave(1), 6e10)}}
        for number in range(9)
    ]  # fmt: skip
    return {"seconds": 600.0, "step_seconds": 5.0, "time": times, "gpus": gpus}


def _scaled(values: dict[str, Any], factor: float) -> dict[str, Any]:
    return {name: [None if one is None else one * factor for one in column] for name, column in values.items()}


@functools.cache
def _documents_of_boards() -> str:
    return json.dumps(documents(boards()))


def answers(made: Sequence[BoardGpu] | None = None) -> Answers:
    found = json.loads(_documents_of_boards()) if made is None else documents(made)
    by_name = {
        "summary": found["summary"],
        "host": found["host"],
        "version": {"version": "0.1.0"},
        "config": {"history": {"fields": list(HISTORY_FIELDS)}},
        "detail": found["detail"],
        "class": found["class"],
        "catalog": {"rules": [{"class": rule.name, "bottleneck": rule.bottleneck} for rule in RULES]},
        "history": points(),
        "events": {"changes": EVENTS},
        "incidents": {"incidents": INCIDENTS},
        "jobs": {"jobs": [job()]},
        "processes": {"published": True, "processes": [PROCESS, STRAY, HIDDEN]},
    }
    return Answers("http://node1:9401", documents=by_name, arrived=100.0, seconds=0.0042)


def model() -> Model:
    return model_of([answers()], 100.3, TIME + 0.9)


def with_documents(shown: Model, **documents: Any) -> Model:
    """Return a model with other documents of its only daemon."""
    (daemon,) = shown.daemons
    return replace(shown, daemons=(replace(daemon, documents={**daemon.documents, **documents}),))
