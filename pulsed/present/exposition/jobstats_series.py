"""The `nvidia_gpu_*` series of the exporter of jobstats, for jobstats, jobscope and dashboards made for them.

A GPU has a row of every family; one that several jobs share has one per job. A board that is split by MIG has a row of
its own, without a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pulsed.model.gpu import Device, node_of
from pulsed.model.owner import Owner
from pulsed.model.tick import GpuRow
from pulsed.model.vocabulary import Reading, Value
from pulsed.present.exposition.text_format import header, label_pairs

PERCENT_DIGITS = 6
"""Ratios become percents without the noise of binary fractions."""


class JobstatsFamily(NamedTuple):
    """A gauge; `get` returns its value for a GPU and the job that has it, None where the row is absent."""

    name: str
    help: str
    get: Callable[[Device, Reading, Owner | None], Value]


def _job_id(device: Device, reading: Reading, job: Owner | None) -> Value:
    return float(raw) if (raw := _raw_id(job)) else None


def _user_id(device: Device, reading: Reading, job: Owner | None) -> Value:
    return float(job.user_id) if job is not None and job.user_id.isdecimal() else None


def _duty_cycle(device: Device, reading: Reading, job: Owner | None) -> Value:
    ratio = reading.gpu_utilization_ratio if device.entity.kind == "gpu" else None
    return None if ratio is None else round(100.0 * ratio, PERCENT_DIGITS)


FAMILIES = (
    JobstatsFamily("nvidia_gpu_jobId", "Slurm job that has the GPU", _job_id),
    JobstatsFamily("nvidia_gpu_jobUid", "User id of the job that has the GPU", _user_id),
    JobstatsFamily("nvidia_gpu_duty_cycle", "GPU utilization in percent, not of MIG instances", _duty_cycle),
    JobstatsFamily(
        "nvidia_gpu_memory_used_bytes", "Device memory in use", lambda device, reading, job: reading.memory_used_bytes
    ),
    JobstatsFamily("nvidia_gpu_memory_total_bytes", "Device memory", lambda device, reading, job: reading.memory_bytes),
    JobstatsFamily(
        "nvidia_gpu_graphics_util_percent",
        "Activity of the graphics engine, from 0 to 1",
        lambda device, reading, job: reading.graphics_engine_active_ratio,
    ),
)


def jobstats_lines(gpus: Sequence[GpuRow], here: str, openmetrics: bool) -> Iterator[str]:
    """Yield the families that have samples; `here` is the node of GPUs whose source does not name one."""
    rows = list(_rows(gpus, here))
    for family in FAMILIES:
        lines = [
            f"{family.name}{{{labels}}} {value!r}\n"
            for device, reading, job, labels in rows
            if (value := family.get(device, reading, job)) is not None
        ]
        if lines:
            yield header(family.name, "gauge", family.help, openmetrics)
            yield from lines


def _rows(gpus: Sequence[GpuRow], here: str) -> Iterator[tuple[Device, Reading, Owner | None, str]]:
    """Yield each GPU with each job that has it, None without one, and the labels of their row."""
    for row in gpus:
        device, reading = row.device, row.reading
        if device.entity.kind == "vgpu":
            continue
        owners = () if row.is_split else row.owners or ()
        jobs: list[Owner | None] = [owner for owner in owners if owner.kind == "slurm_job"]
        for job in jobs or [None]:
            yield device, reading, job, label_pairs(_labels(device, job, here))


def _labels(device: Device, job: Owner | None, here: str) -> Iterator[tuple[str, str]]:
    entity = device.entity
    minor = device.device.removeprefix("nvidia")
    yield "ordinal", entity.gpu
    yield "minor_number", minor if minor.isdecimal() else entity.gpu
    yield "uuid", device.mig_uuid if entity.kind == "mig" else entity.uuid
    yield "name", f"{device.model} MIG {entity.mig_profile}".strip() if entity.kind == "mig" else device.model
    yield "GPU_I_ID", entity.mig_id
    yield "jobid", _raw_id(job)
    yield "userid", "" if job is None else job.user_id
    yield "node", node_of(device, here)


def _raw_id(job: Owner | None) -> str:
    """Return the number of a job, which elements of arrays have in addition to their id; empty without a number."""
    if job is None:
        return ""
    raw = dict(job.labels).get("job_id", job.id)
    return raw if raw.isdecimal() else ""
