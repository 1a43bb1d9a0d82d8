"""What follows from the GPUs in the document of an account: sums, coverage, cost and advice; of one daemon, or of
several that each have the GPUs of their node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.json_text import moment_of
from pulsed.owners.accounting.activity import Timeline
from pulsed.owners.report.incidents import account_incidents
from pulsed.owners.report.job_advice import advice_of, unjudged
from pulsed.owners.report.job_numbers import (
    Account,
    Prices,
    cost_of,
    gpu_count,
    gpu_key,
    job_key,
    prices_of,
    summary_of,
)
from pulsed.owners.report.job_statistics import timeline_numbers, total_statistics
from pulsed.owners.report.sums import added, ratio_of

_NUMBERS = ("gpu_seconds", "observed_seconds", "bridged_joules")
_NULLABLE = ("estimated_joules", "allocated_gpu_seconds", "allocated_joules")
_COUNTERS = ("counters", "lower", "upper")


def with_totals(account: dict[str, Any], gpus: list[dict[str, Any]], prices: Prices | None) -> dict[str, Any]:
    """Return an account with its GPUs and all that follows from them; without prices the cost is unknown."""
    observed, held = (sum(gpu[name] for gpu in gpus) for name in ("observed_seconds", "held_seconds"))
    account |= {
        "gpu_count": gpu_count(account["owner"], gpus),
        "coverage": ratio_of(observed, held),
        "boundary_seconds": sum(gpu["boundary_seconds"] for gpu in gpus),
        "total": {
            **dict.fromkeys(_NUMBERS, 0.0),
            **dict.fromkeys(_NULLABLE),
            **{name: {} for name in _COUNTERS},
            **(added({name: gpu.get(name) for name in (*_NUMBERS, *_NULLABLE, *_COUNTERS)} for gpu in gpus) or {}),
        },
        "gpus": gpus,
    }
    account["total"]["summary"] = summary_of(account["total"])._asdict()
    account["statistics"] = total_statistics(gpus)
    account["cost"] = None if prices is None else cost_of(account["total"], gpus, prices)
    account["not_judged"] = [each._asdict() for each in unjudged(account)]
    account["incidents"] = account_incidents(gpus)
    account["advice"] = [advice._asdict() for advice in advice_of(account)]
    return account


MAX_PARTS = 100
"""Tasks of an array that one account has."""


def group_account(name: str, parts: Mapping[str, Account], part_count: int) -> dict[str, Any]:
    """Return one account of the tasks of an array or the components of a heterogeneous job.

    Args:
        name: id of the array or the job.
        parts: the account of each, by its name.
        part_count: how many there are.
    """
    gpus = [{**gpu, "part": part} for part, account in parts.items() for gpu in account["gpus"]]
    listed = [{"id": part} | {name: each[name] for name in ("state", "begin", "end")} for part, each in parts.items()]
    account = _joined(list(parts.values()), gpus, parts=listed)
    return account | {"owner": {**account["owner"], "id": name, "labels": {}}, "part_count": part_count}


def is_same_job(account: Account, newest: Account) -> bool:
    """Return whether an account was running at the same time as the newest of its id: ids are used again. The parts
    of an array may run one after the other."""
    if account.get("parts") and newest.get("parts"):
        return True
    return newest is account or account["end"] is None or str(account["end"]) >= str(newest["begin"])


def merged_account(accounts: Sequence[Account], missing: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return one account with the GPUs of all, which must be of the same job; `total` and `advice` are recomputed, as
    is `cost` if the nodes have the same prices.

    Args:
        accounts: of some nodes, at least one. A GPU that several of them have counts once.
        missing: `node` and `reason` of nodes without an account.
    """
    gpus = {(gpu.get("part"), *gpu_key(gpu)): gpu for each in accounts for gpu in each["gpus"]}
    parts = {part["id"]: part for each in reversed(accounts) for part in each.get("parts", ())}
    account = _joined(accounts, list(gpus.values()), parts=list(parts.values()))
    account["part_count"] = max(len(parts), *(each.get("part_count", 0) for each in accounts))
    return account | {"answered_nodes": len(accounts), "missing_nodes": [dict(each) for each in missing]}


def merged_accounts(by_daemon: Mapping[str, Sequence[Account]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the accounts of several daemons, merged by job, and texts that name the GPUs of owners that several
    daemons report."""
    merged: dict[tuple[str, str, str], list[list[Account]]] = {}
    reported: dict[tuple[str, str, str], str] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for daemon, accounts in by_daemon.items():
        own = {gpu_key(gpu) for account in accounts for gpu in account["gpus"]}
        for key in sorted(own & reported.keys()):
            shared.setdefault((reported[key], daemon), []).append(key[1])
        reported = dict.fromkeys(own, daemon) | reported
    for account in sorted((each for accounts in by_daemon.values() for each in accounts), key=_begin):
        groups = merged.setdefault(job_key(account["owner"]), [])
        same = next((group for group in groups if any(_overlap(account, each) for each in group)), None)
        if same is None:
            groups.append([account])
        else:
            same.append(account)
    joined = [
        merged_account(group) if len(group) > 1 else dict(group[0]) for groups in merged.values() for group in groups
    ]
    duplicates = [
        f"{len(gpus)} GPUs, such as {gpus[0]}, are reported by two daemons, {first} and {second}: they count once"
        for (first, second), gpus in shared.items()
    ]
    return joined, duplicates


def _begin(account: Account) -> str:
    return str(account["begin"])


def _overlap(account: Account, other: Account) -> bool:
    """Return whether two accounts of an id are of one job: both ran at a time; requeued ones follow each other."""
    return str(account["begin"]) < (other["end"] or "~") and str(other["begin"]) < (account["end"] or "~")


def pod_account(containers: Sequence[Account]) -> dict[str, Any]:
    """Return one account with the GPUs of several containers of a pod, which have `container` names in its owner."""
    owner = containers[0]["owner"]
    names = ", ".join(sorted(each["owner"]["container"] or "?" for each in containers))
    account = _joined(containers, [gpu for each in containers for gpu in each["gpus"]])
    return account | {"owner": {**owner, "id": f"{owner['namespace']}/{owner['name']}", "container": names}}


def _joined(
    accounts: Sequence[Account], gpus: list[dict[str, Any]], parts: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the account of all; the first has what they have in common."""
    ends = [each["end"] for each in accounts]
    prices = {prices_of(each) for each in accounts}
    account: dict[str, Any] = {
        **accounts[0],
        "state": "running" if None in ends else "ended",
        "begin": min(each["begin"] for each in accounts),
        "end": None if None in ends else max(ends),
        "last_sample_time": max(each["last_sample_time"] for each in accounts),
        "elapsed_seconds": _elapsed(accounts),
        "parts": list(parts),
        "timeline": _merged_timeline(accounts),
        "hosts": list({host["node"]: host for each in accounts for host in each["hosts"]}.values()),
    }
    return with_totals(account, gpus, prices.pop() if len(prices) == 1 else None)


def _elapsed(accounts: Sequence[Account]) -> float:
    """Return the seconds from the first begin to the last sample of all."""
    begins = [moment_of(each["begin"]).timestamp() for each in accounts]
    ends = [begin + each["elapsed_seconds"] for begin, each in zip(begins, accounts, strict=True)]
    return float(max(max(ends) - min(begins), *[each["elapsed_seconds"] for each in accounts]))


def _merged_timeline(accounts: Sequence[Account]) -> dict[str, Any]:
    """Return the timeline of the GPUs of all accounts, whose begins may differ, from the first begin on."""
    parts = [(moment_of(each["begin"]), each["timeline"]) for each in accounts]
    merged = Timeline(max((line["bucket_seconds"] for _, line in parts), default=0.0))
    first = min(moment_of(each["begin"]) for each in accounts)
    for begin, line in parts:
        offset, width = (begin - first).total_seconds(), line["bucket_seconds"]
        for at, (seconds, integral) in enumerate(
            zip(line["gpu_seconds"], line["real_utilization_seconds"], strict=True)
        ):
            if seconds > 0.0:
                merged.add(offset + (at + 0.5) * width, width, seconds, integral / seconds)
    return timeline_numbers(merged)._asdict()
