"""Accounts of jobs, from counters by name."""

from __future__ import annotations

from typing import Any

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner
from pulsed.owners.accounting.account import GpuAccount, OwnerAccount, OwnerEvent
from pulsed.owners.accounting.activity import Extremes, Moments
from pulsed.owners.accounting.counter_vector import load
from pulsed.owners.report.job_numbers import NO_PRICES, Prices
from pulsed.present.api.account_documents import account_document

BEGIN = 1767225600.0
"""2026-01-01T00:00:00Z."""

HOUR = 3600.0
ANN = Owner("slurm_job", "4711", begin=Unix(BEGIN), user="ann", account="lab", name="train")


def gpu_account(
    index: int,
    hours: float = 4.0,
    *,
    real: float = 0.4,
    sm: float = 0.5,
    idle: float = 0.0,
    io: float = 0.0,
    c2c: float | None = None,
    usual: str = "tensor_compute",
    watts: float = 500.0,
    peak: float = 0.6,
    last_idle: float = 0.0,
    node: str = "gpu01",
    sharers: int = 1,
    samples: int = 1000,
    seen: float = 1.0,
    violations: tuple[float | None, float | None] = (0.0, 0.0),
    events: tuple[OwnerEvent, ...] = (),
) -> GpuAccount:
    """Return an account of a GPU: `real`, `sm`, `idle` and `io` are shares of its observed time, `c2c` bytes."""
    observed = seen * hours * HOUR
    counters = load(
        {
            "observed_seconds": observed,
            "workload_class_seconds:idle": idle * observed,
            "workload_class_seconds:io_or_data_loading": io * observed,
            f"workload_class_seconds:{usual}": (1.0 - idle - io) * observed,
            "idle_seconds:held": idle * observed,
            f"class_energy_joules:{usual}": (1.0 - idle) * observed * watts,
            "class_energy_joules:idle": idle * observed * 100.0,
            "idle_energy_joules:held": idle * observed * 100.0,
            "energy_unknown_seconds": 0.0,
            "real_utilization_seconds": real * observed,
            "real_utilization_unknown_seconds": 0.0,
            "sm_active_seconds": sm * observed,
            "sm_active_unknown_seconds": 0.0,
            **({} if c2c is None else {"observed_c2c_receive_bytes": c2c}),
        }
    )
    account = GpuAccount(
        Device(Entity("gpu", gpu=str(index), uuid=f"GPU-{node}-{index}", node=node), "NVIDIA H100 80GB HBM3"),
        held=hours * HOUR,
        memory_bytes=80.0 * 2**30,
        extremes=Extremes(peak * 80.0 * 2**30, watts, 60.0, samples, last_idle, last_idle),
        violations=list(violations),
    )
    account.charge(counters, sharers, 1.0 / sharers)
    account.moments = Moments.load(
        {
            name: (observed, mean * observed, mean * mean * observed)
            for name, mean in (("real_utilization_ratio", real), ("sm_active_ratio", sm), ("power_watts", watts))
        }
    )
    for event in events:
        account.add_event(event)
    return account


def document(
    *gpus: GpuAccount, owner: Owner = ANN, hours: float = 4.0, begin: float = BEGIN, prices: Prices = NO_PRICES
) -> dict[str, Any]:
    """Return the document of a job that has ended."""
    end = begin + hours * HOUR
    account = OwnerAccount(
        owner, Unix(begin), Unix(begin), Unix(end), Unix(end), gpus={each.device.entity.key: each for each in gpus}
    )
    account.elapsed = hours * HOUR
    return account_document(account, "here", prices)
