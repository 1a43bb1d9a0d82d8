"""Sums and shares of the counters in a document of `/jobs/{id}`, for its report and advice, and what the job costs.

A share is of the observed time in which its input was present; None without any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pulsed.config.settings import Problem, Settings, setting
from pulsed.config.values import Factor, Text
from pulsed.model.job_names import ARRAY, COMPONENT
from pulsed.model.node_names import shared_domain
from pulsed.model.vocabulary import UNKNOWN
from pulsed.owners.report.sums import added, mean_of, ratio_of

Account = Mapping[str, Any]
"""The document of an owner, as `/jobs/{id}` has it; or its part about one GPU, or its `total`."""

MISSING = "-"
"""Mark of an unknown value in tables."""


def seconds(part: Account, name: str) -> float:
    """Return a counter of seconds; 0 if it is null, as the time without its input is another counter."""
    return float(part["counters"].get(name) or 0.0)


def by_state(part: Account, name: str) -> Mapping[str, float]:
    """Return a counter with states; states that are 0 are absent."""
    return part["counters"].get(name) or {}


def idle_seconds(part: Account) -> float:
    """Return the observed idle seconds."""
    return sum(by_state(part, "idle_seconds").values())


def mean(parts: Iterable[Account], word: str) -> float | None:
    """Return the mean over time of `real_utilization`, `sm_active`, `tensor_active` or `dram_active` of some parts."""
    known = [part for part in parts if part["counters"].get(f"{word}_seconds") is not None]
    return mean_of(word, added(part["counters"] for part in known) or {}, sum(part["gpu_seconds"] for part in known))


def joules(part: Account) -> float | None:
    """Return the energy, also of the time in which pulsed did not run; None if it was never known."""
    observed = by_state(part, "class_energy_joules")
    if not observed and seconds(part, "energy_unknown_seconds") >= part["gpu_seconds"] and not part["bridged_joules"]:
        return None
    return sum(observed.values()) + float(part["bridged_joules"])


class PartSummary(NamedTuple):
    """Means and sums of the counters of an owner, or of its part of a GPU, as all views show them.

    Idle time and its energy are null while no class was known; `joules` is also of the time in which pulsed did not
    run, and null if energy was never known.
    """

    real_utilization_ratio: float | None
    idle_ratio: float | None
    idle_seconds: float | None
    idle_joules: float | None
    joules: float | None


def summary_of(part: Account) -> PartSummary:
    """Return the summary of a part."""
    idle = idle_joules = None
    if set(by_state(part, "workload_class_seconds")) - {UNKNOWN}:
        idle, idle_joules = idle_seconds(part), sum(by_state(part, "idle_energy_joules").values())
    return PartSummary(
        mean([part], "real_utilization"),
        None if idle is None else ratio_of(idle, part["gpu_seconds"]),
        idle,
        idle_joules,
        joules(part),
    )


MAX_UNKNOWN_RATIO = 0.01
"""Share of the observed time without energy from which energy is not known."""


def without_energy(gpus: Iterable[Account]) -> list[str]:
    """Return the names of the GPUs with unknown energy, which make the total unknown."""
    return [
        gpu_name(gpu, with_node=False)
        for gpu in gpus
        if seconds(gpu, "energy_unknown_seconds") > MAX_UNKNOWN_RATIO * gpu["gpu_seconds"]
    ]


def memory_ratios(gpus: Iterable[Account]) -> list[float]:
    """Return the peak of the memory in use of each GPU where it is known, as a share of its size."""
    sizes = [(gpu["peaks"]["memory_used_bytes"], gpu["memory_bytes"]) for gpu in gpus]
    return [peak / size for peak, size in sizes if peak is not None and size]


def percent(ratio: float | None, decimals: int = 0) -> str:
    """Return a ratio as a text."""
    return "unknown" if ratio is None else f"{100.0 * ratio:.{decimals}f} %"


def gpu_key(gpu: Account) -> tuple[str, str, str]:
    """Return what identifies a GPU in the documents of several daemons: its UUID, otherwise its node and index."""
    return ("" if gpu["uuid"] else gpu["node"], gpu["uuid"] or gpu["gpu"], gpu["mig_id"] or "")


def is_of_board(owner: Mapping[str, Any], gpu: Account) -> bool:
    """Return whether a MIG instance is an owner's by a claim on its board: Slurm gives an instance to one job only."""
    return owner["kind"] == "slurm_job" and bool(gpu["mig_id"]) and gpu["shared_by"] > 1


def gpu_count(owner: Mapping[str, Any], gpus: Iterable[Account]) -> int:
    """Return how many GPUs an owner had.

    A whole board counts as one GPU, together with its MIG instances. Instances of a board that several jobs claim are
    divided by the number of jobs.
    """
    by_key = {gpu_key(gpu): gpu for gpu in gpus}
    by_key = {key: gpu for key, gpu in by_key.items() if not gpu["mig_id"] or (*key[:2], "") not in by_key}
    claimed = [1.0 / gpu["shared_by"] for gpu in by_key.values() if is_of_board(owner, gpu)]
    return len(by_key) - len(claimed) + (max(1, round(sum(claimed))) if claimed else 0)


def gpu_name(gpu: Account, *, with_node: bool, domain: str = "") -> str:
    """Return the name of a GPU or MIG instance: `3`, `3:7`, `gpu01/3`; of a part of an array `3 (500_1)`.

    Args:
        with_node: whether it has the node.
        domain: that all nodes share, which is left out.
    """
    name = (gpu["gpu"] or gpu["uuid"] or "?") + (f":{gpu['mig_id']}" if gpu["mig_id"] else "")
    name += f" ({part})" if (part := gpu.get("part")) else ""
    return f"{gpu['node'].removesuffix(domain)}/{name}" if with_node else name


def domain_of(account: Account) -> str:
    """Return the domain that all nodes of an owner share."""
    return shared_domain(gpu["node"] for gpu in account["gpus"])


def job_key(owner: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what identifies a job among the documents of several daemons at a time."""
    return (owner["kind"], owner.get("cluster") or "", job_name(owner))


def job_name(owner: Mapping[str, Any]) -> str:
    """Return the id of a job as its users see it: of the task of an array, or of a component."""
    labels = owner.get("labels") or {}
    return str(labels.get(ARRAY) or labels.get(COMPONENT) or owner["id"])


def has_several_nodes(account: Account) -> bool:
    """Return whether the GPUs of an account are on several nodes."""
    return len({gpu["node"] for gpu in account["gpus"]}) > 1


JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Prices(Settings):
    """Prices in one currency, which turn GPU hours and energy of jobs into money; None: no price."""

    gpu_hour: Factor | None = setting(None, "Price of a GPU hour. Unset: none.", example=2.5)
    kwh: Factor | None = setting(None, "Price of a kWh. Unset: none.", example=0.3)
    currency: Text = setting("EUR", "Currency of the prices.")
    co2_grams_per_kwh: Factor | None = setting(
        None, "Carbon intensity of the energy, for a column of `/report`. Unset: none.", example=350.0
    )

    def of_time(self, gpu_seconds: float) -> float:
        """Return what GPU time costs; 0 without a price."""
        return (self.gpu_hour or 0.0) * gpu_seconds / 3600.0

    def of_energy(self, joules: float) -> float:
        """Return what energy costs; 0 without a price."""
        return (self.kwh or 0.0) * joules / JOULES_PER_KWH

    def co2_grams(self, joules: float | None) -> float | None:
        """Return the grams of CO2 of energy; None if it is unknown, or without an intensity."""
        if joules is None or self.co2_grams_per_kwh is None:
            return None
        return self.co2_grams_per_kwh * joules / JOULES_PER_KWH

    def without_effect(self) -> Iterator[Problem]:
        """Yield the currency of no price."""
        if self.gpu_hour is None and self.kwh is None:
            yield "currency", "it needs a price"


NO_PRICES = Prices()


def cost_of(total: Account, gpus: Iterable[Account], prices: Prices) -> dict[str, Any] | None:
    """Return the cost of observed GPU time, of shared GPUs a share, and of energy; None without prices.

    If energy has a price and the energy of a GPU is unknown, `energy` and `total` are None; `unknown` names the GPU.
    """
    if prices.gpu_hour is None and prices.kwh is None:
        return None
    lacking = without_energy(gpus)
    used = None if lacking else joules(total)
    time, allocated = prices.of_time(total["gpu_seconds"]), allocated_cost(total, prices)
    energy = 0.0 if prices.kwh is None else None if used is None else prices.of_energy(used)
    return {
        "currency": prices.currency,
        "per_gpu_hour": prices.gpu_hour,
        "per_kwh": prices.kwh,
        "gpu_time": time,
        "energy": energy,
        "total": None if energy is None else time + energy,
        "allocated": allocated,
        "unknown": f"energy of GPU {', '.join(lacking)}" if energy is None and lacking else None,
    }


def allocated_cost(total: Account, prices: Prices) -> float | None:
    """Return the cost of the time and energy by allocation; None if one of both is not known and has a price."""
    hours, energy = total.get("allocated_gpu_seconds"), total.get("allocated_joules")
    if hours is None or (energy is None and prices.kwh is not None):
        return None
    return prices.of_time(hours) + prices.of_energy(energy or 0.0)


def prices_of(account: Account) -> Prices:
    """Return the prices that the cost of an account was calculated with."""
    cost = account["cost"]
    return NO_PRICES if cost is None else Prices(cost["per_gpu_hour"], cost["per_kwh"], cost["currency"])
