"""One account from those that several daemons have of a job: each has the GPUs of its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.present.job_advice import advice_of
from pulsed.present.job_cost import cost_of, prices_of
from pulsed.present.job_counters import Account

_COUNTED = ("gpu_seconds", "observed_seconds", "bridged_joules", "counters", "lower", "upper")


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
    held = sum(gpu["held_seconds"] for gpu in gpus)
    observed = sum(gpu["observed_seconds"] for gpu in gpus)
    account: dict[str, Any] = {
        **accounts[0],
        "state": "running" if None in ends else "ended",
        "begin": min(each["begin"] for each in accounts),
        "end": None if None in ends else max(ends),
        "last_sample_time": max(each["last_sample_time"] for each in accounts),
        "elapsed_seconds": max(each["elapsed_seconds"] for each in accounts),
        "gpu_count": len(gpus),
        "coverage": min(observed / held, 1.0) if held > 0.0 else None,
        "boundary_seconds": sum(gpu["boundary_seconds"] for gpu in gpus),
        "total": {name: _sum([gpu[name] for gpu in gpus]) for name in _COUNTED},
        "gpus": gpus,
        "answered_nodes": len(accounts),
        "missing_nodes": [dict(each) for each in missing],
    }
    prices = {prices_of(each) for each in accounts}
    account["cost"] = cost_of(account["total"], prices.pop()) if len(prices) == 1 else None
    account["advice"] = [advice._asdict() for advice in advice_of(account)]
    return account


def _sum(values: Sequence[Any]) -> Any:
    """Return the sum of numbers, or of dictionaries by key; None is left out."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], Mapping):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: _sum([value.get(name) for value in known]) for name in names}
    return sum(known)
