"""The verdict about a job in one sentence, from its document: what stands out most, otherwise how well it works."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pulsed.json_text import moment_of
from pulsed.owners.report.job_advice import IDLE_GPU_RATIO, MIN_SECONDS
from pulsed.owners.report.job_numbers import (
    Account,
    domain_of,
    gpu_name,
    has_several_nodes,
    idle_seconds,
    is_of_board,
    mean,
    percent,
)
from pulsed.owners.report.sums import ratio_of

PEERS = 2
"""Minimum number of GPUs that one is compared with."""

LESS_WORK_RATIO = 0.75
"""A GPU with less of the work of its peers stands out."""

WORKS_WELL_RATIO = 0.3
"""Real utilization of a job that works well if nothing stands out."""


def verdict_of(account: Account) -> str:
    """Return the verdict about a job."""
    gpus, total = account["gpus"], account["total"]
    if total["gpu_seconds"] < MIN_SECONDS or (ratio := mean([total], "real_utilization")) is None:
        return "Too little was observed for a verdict."
    count = f"{account['gpu_count']} GPU{'s' if account['gpu_count'] != 1 else ''}"
    work = f"{percent(ratio)} real utilization on {count}"
    if any(is_of_board(account["owner"], gpu) for gpu in gpus):
        return f"Not known: which MIG instances of the board are this job's ({work} if all jobs did the same)."
    if account["exempt"]:
        return f"Exempt from findings ({account['exempt']}): {work}."
    by_advice = {each["id"]: each["evidence"] for each in account["advice"]}
    if "hang" in by_advice:
        return f"Hangs: {by_advice['hang']}."
    unused = [gpu for gpu in gpus if _idle_ratio(gpu) >= IDLE_GPU_RATIO]
    if len(unused) == len(gpus):
        idle = ratio_of(idle_seconds(total), total["gpu_seconds"])
        return f"Does nothing: {count} idle for {percent(idle)} of the time."
    if unused:
        were = "was" if len(unused) == 1 else "were"
        return f"{len(unused)} of {len(gpus)} GPUs {were} not used ({_names(account, unused)}): {work}."
    if (text := outlier_text(account)) is not None:
        return text
    if account["advice"]:
        first = account["advice"][0]
        return f"{work}, but {first['id'].replace('_', ' ')}: {first['evidence']}."
    return f"Works well: {work}." if ratio >= WORKS_WELL_RATIO else f"Nothing stands out: {work}."


def outlier_text(account: Account) -> str | None:
    """Return the sentence about the GPU that did the least work, if it did much less than its peers."""
    works = [(each, gpu) for gpu in account["gpus"] if (each := mean([gpu], "real_utilization")) is not None]
    if len(works) <= PEERS or account.get("parts"):
        return None
    least, gpu = min(works, key=lambda each: each[0])
    usual = median([each for each, other in works if other is not gpu])
    if least >= LESS_WORK_RATIO * usual:
        return None
    causes = [f"{percent(_idle_ratio(gpu))} idle"] if _idle_ratio(gpu) >= 0.01 else []
    for condition in gpu["conditions"]:
        over = f", over since {_clock(condition['until'])}" if condition["until"] is not None else ""
        causes.append(f"{condition['message'] or condition['check']} at {_clock(condition['since'])}{over}")
    share = f"{percent(least / usual)} of the work" if usual > 0.0 else "less work"
    text = f"GPU {_names(account, [gpu])} did {share} of its peers ({percent(least)}, others {percent(usual)})"
    return text + (f": {'; '.join(causes)}." if causes else ".")


def _idle_ratio(gpu: Account) -> float:
    return ratio_of(idle_seconds(gpu), gpu["gpu_seconds"]) or 0.0


def _names(account: Account, gpus: Sequence[Account]) -> str:
    several = has_several_nodes(account)
    names = [gpu_name(gpu, with_node=several, domain=domain_of(account)) for gpu in gpus]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _clock(time: str) -> str:
    return f"{moment_of(time):%H:%M} UTC"
