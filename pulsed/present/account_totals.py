"""What follows from the GPUs in the document of an account: sums, coverage, cost and advice; of one daemon, or of
several that each have the GPUs of their node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.present.job_advice import advice_of
from pulsed.present.job_numbers import Account, Prices, cost_of, prices_of

_NUMBERS = ("gpu_seconds", "observed_seconds", "bridged_joules")
_COUNTERS = ("counters", "lower", "upper")


def with_totals(account: dict[str, Any], gpus: list[dict[str, Any]], prices: Prices | None) -> dict[str, Any]:
    """Return an account with its GPUs and all that follows from them.

    Args:
        prices: None: the GPUs have different ones, so that the cost is unknown.
    """
    observed, held = (sum(gpu[name] for gpu in gpus) for name in ("observed_seconds", "held_seconds"))
    account |= {
        "gpu_count": len(gpus),
        "coverage": coverage(observed, held),
        "boundary_seconds": sum(gpu["boundary_seconds"] for gpu in gpus),
        "total": {
            **{name: sum(gpu[name] for gpu in gpus) for name in _NUMBERS},
            **{name: _sum([gpu[name] for gpu in gpus]) or {} for name in _COUNTERS},
        },
        "gpus": gpus,
    }
    account["cost"] = None if prices is None else cost_of(account["total"], gpus, prices)
    account["advice"] = [advice._asdict() for advice in advice_of(account)]
    return account


def coverage(observed: float, held: float) -> float | None:
    """Return the share of the time with GPUs in which they were observed; None if no time has passed."""
    return min(observed / held, 1.0) if held > 0.0 else None


def is_same_job(account: Account, newest: Account) -> bool:
    """Return whether an account was running at the same time as the newest of its id: ids are used again."""
    return newest is account or account["end"] is None or str(account["end"]) >= str(newest["begin"])


def merged_account(accounts: Sequence[Account], missing: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return one account with the GPUs of all, which must be of the same job; `total` and `advice` are recomputed, as
    is `cost` if the nodes have the same prices.

    Args:
        accounts: of some nodes, at least one. A GPU that several of them have counts once.
        missing: `node` and `reason` of nodes without an account.
    """
    gpus = list(
        {
            (gpu["node"], gpu["uuid"] or gpu["gpu"], gpu["mig_id"]): gpu for each in accounts for gpu in each["gpus"]
        }.values()
    )
    ends = [each["end"] for each in accounts]
    prices = {prices_of(each) for each in accounts}
    account: dict[str, Any] = {
        **accounts[0],
        "state": "running" if None in ends else "ended",
        "begin": min(each["begin"] for each in accounts),
        "end": None if None in ends else max(ends),
        "last_sample_time": max(each["last_sample_time"] for each in accounts),
        "elapsed_seconds": max(each["elapsed_seconds"] for each in accounts),
        "answered_nodes": len(accounts),
        "missing_nodes": [dict(each) for each in missing],
    }
    return with_totals(account, gpus, prices.pop() if len(prices) == 1 else None)


def _sum(values: Sequence[Any]) -> Any:
    """Return the sum of numbers, or of dictionaries by key; None is left out."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], Mapping):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: _sum([value.get(name) for value in known]) for name in names}
    return sum(known)
