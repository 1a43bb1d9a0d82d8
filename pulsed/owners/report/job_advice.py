"""Advice about a job, from the document of its account: seconds by class, idle runs, peaks and events.

Each piece of advice names its numbers. Being memory bound is not a fault. Without enough coverage the only advice is
about GPUs that do not answer, which comes first, and about hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pulsed.compute.sample import GAP_INTERVALS
from pulsed.json_text import duration_text, moment_of
from pulsed.model.clocks import Unix
from pulsed.owners.findings import STEP_SECONDS
from pulsed.owners.findings.hangs import FIRST, Stop, StopState, first_text
from pulsed.owners.report.job_numbers import (
    Account,
    by_state,
    domain_of,
    gpu_name,
    has_several_nodes,
    idle_seconds,
    is_of_board,
    mean,
    memory_ratios,
    percent,
    seconds,
)


class Unjudged(NamedTuple):
    """A finding about a running job that is not judged, because the inputs `missing` are absent."""

    finding: str
    missing: str


def unjudged(account: Account) -> Iterator[Unjudged]:
    """Yield the findings about a running job that are not judged."""
    gpus = account["gpus"] if account["state"] == "running" else ()
    yield from dict.fromkeys(
        Unjudged(name, verdict["missing"])
        for gpu in gpus
        for name, verdict in gpu["findings"].items()
        if verdict["state"] == "not_judged"
    )


def stops_of(account: Account) -> Iterator[Stop]:
    """Yield how the GPUs of a job that hangs stopped to work."""
    newest = max((_seconds(gpu, "last_sample_time") or 0.0 for gpu in account["gpus"]), default=0.0)
    for gpu in account["gpus"]:
        last_sample = _seconds(gpu, "last_sample_time")
        if last_sample is None:
            continue
        interval = gpu["observed_seconds"] / max(gpu["samples"], 1)
        state: StopState = "idle" if gpu["idle_runs"]["last_seconds"] > 0.0 else "spins"
        if newest - last_sample > max(STEP_SECONDS, GAP_INTERVALS * interval):
            state = "silent"
        name = gpu_name(gpu, with_node=True)
        yield Stop(name, gpu["node"], _seconds(gpu, "last_work_time"), last_sample, interval, state)


def _seconds(gpu: Account, name: str) -> Unix | None:
    """Return a time of a GPU as Unix time; None if there was no such sample."""
    return Unix(moment_of(gpu[name]).timestamp()) if gpu[name] else None


MIN_COVERAGE = 0.9
MIN_SAMPLES = 10
MIN_SECONDS = 180.0
"""Below any of these there are numbers, but no advice."""

IDLE_GPU_RATIO = 0.95
IDLE_GPU_SECONDS = 600.0
IDLE_TAIL_SECONDS = 1800.0
IDLE_TAIL_RATIO = 0.20
IMBALANCE_RATIO = 0.30
IO_RATIO = 0.20
UNDERFED_SM_RATIO = 0.15
THROTTLED_RATIO = 0.10
SMALL_MEMORY_RATIO = 0.25
MEDIA_RATIO = 0.05
SMALL_REAL_UTILIZATION_RATIO = 0.20


class Advice(NamedTuple):
    """An advice: id, the numbers it follows from, and what to do."""

    id: str
    evidence: str
    text: str


def advice_of(account: Account) -> list[Advice]:
    """Return the advice about an account, the most important first; without enough observed time only that about GPUs
    that do not answer and hangs, and of an exempt owner only the former."""
    samples = max((gpu["samples"] for gpu in account["gpus"]), default=0)
    has_enough = (account["coverage"] or 0.0) >= MIN_COVERAGE and account["elapsed_seconds"] >= MIN_SECONDS
    if account["exempt"]:
        return list(_unanswered(account))
    if not has_enough or samples < MIN_SAMPLES:
        return [*_unanswered(account), *_hang(account)]
    return [advice for rule in _RULES for advice in rule(account)]


def _unanswered(account: Account) -> Iterator[Advice]:
    """Yield the GPUs that are lost, or whose readings are absent or old, until the end."""
    for gpu in account["gpus"]:
        conditions = {each["check"]: each for each in gpu["conditions"] if each["until"] is None}
        condition = conditions.get("gpu_lost") or conditions.get("telemetry")
        if condition is not None:
            yield _of_health(account, gpu, condition)


def _of_health(account: Account, gpu: Account, condition: Account) -> Advice:
    """Return the advice about a check that was raised."""
    moment = _moment(condition["since"])
    when = f"since {moment}, before the owner had the GPU" if condition["was_raised"] else f"at {moment}"
    evidence = f"{_name(account, gpu)}: {condition['message']}, {when}"
    return Advice("health", evidence, condition["remedy"] or "See the health of this GPU.")


def _hang(account: Account) -> Iterator[Advice]:
    """Yield advice about a hang from all GPUs together: the GPUs of all daemons show which one stopped first."""
    hung = [(gpu, each) for gpu in account["gpus"] for each in gpu["conditions"] if each["check"] == "hang"]
    if not hung:
        return
    gpu, condition = min(hung, key=lambda each: str(each[1]["since"]))
    more = f" and {len(hung) - 1} more" if len(hung) > 1 else ""
    what = condition["message"].partition(FIRST)[0]
    goes_on = condition["until"] is None
    first = first_text(stops_of(account)) if goes_on else ""
    evidence = f"{_name(account, gpu)}{more}: {what}, at {_moment(condition['since'])}{first}"
    yield Advice("hang", evidence, FINDING_TEXTS["hang"])


def _events(account: Account) -> Iterator[Advice]:
    """Yield what was wrong with the GPUs: health problems, also older ones, and findings."""
    first = set(_unanswered(account))
    slow: list[tuple[Account, Account]] = []
    for gpu in account["gpus"]:
        for condition in gpu["conditions"]:
            check, advice = condition["check"], _of_health(account, gpu, condition)
            if check == "straggler":
                slow.append((gpu, condition))
            elif check in FINDING_TEXTS:
                if check != "hang":
                    yield Advice(check, advice.evidence, FINDING_TEXTS[check])
            elif advice not in first:
                yield advice
    if slow:
        gpu, condition = slow[0]
        names = ", ".join(
            gpu_name(each, with_node=has_several_nodes(account), domain=domain_of(account)) for each, _ in slow
        )
        nodes = {each["node"] for each, _ in slow}
        if len(slow) > 1 and len(slow) == sum(each["node"] in nodes for each in account["gpus"]):
            names = f"all {len(slow)} of node {', '.join(sorted(nodes))}"
        advice = _of_health(account, gpu, condition)
        evidence = advice.evidence.replace(_name(account, gpu), f"GPU{'s' if len(slow) > 1 else ''} {names}", 1)
        yield Advice("straggler", evidence, FINDING_TEXTS["straggler"])


FINDING_TEXTS: Mapping[str, str] = {
    "hang": "A deadlocked collective looks like this: see the logs of all ranks, and their stacks (py-spy dump).",
    "leaked_memory": "A process without a job or pod still has the memory: find it (nvidia-smi, fuser /dev/nvidia*) and"
    " end it, or reset the GPU.",
    "straggler": "All GPUs of a synchronous job wait for the slowest: compare this GPU and its rank with the others.",
}


IDLE_TEXT = "Its program has ended, waits or has stopped: end the job when the work is done."


def _idle(account: Account) -> Iterator[Advice]:
    """Yield GPUs that were never used, and GPUs that were not used at the end."""
    gpus = account["gpus"]
    never = [gpu for gpu in gpus if _is_unused(gpu) and not is_of_board(account["owner"], gpu)]
    for gpu in never:
        yield Advice(
            "idle_gpu",
            f"{_name(account, gpu)}: idle {duration_text(idle_seconds(gpu))} of {duration_text(gpu['gpu_seconds'])}",
            "The GPU was held and not used: request fewer GPUs, or check that a rank runs on it.",
        )
    for gpu in gpus:
        last, held = gpu["idle_runs"]["last_seconds"], gpu["held_seconds"]
        is_long = last >= IDLE_TAIL_SECONDS or last >= IDLE_TAIL_RATIO * held
        if gpu not in never and last > 0.0 and is_long and not is_of_board(account["owner"], gpu):
            yield Advice(
                "idle_tail",
                f"{_name(account, gpu)}: idle for the last {duration_text(last)} of {duration_text(held)}",
                IDLE_TEXT,
            )


def _is_unused(gpu: Account) -> bool:
    observed = float(gpu["gpu_seconds"])
    return observed >= IDLE_GPU_SECONDS and idle_seconds(gpu) >= IDLE_GPU_RATIO * observed


def _imbalance(account: Account) -> Iterator[Advice]:
    if account.get("parts"):  # they do not work in step
        return
    means = {
        gpu_name(gpu, with_node=True, domain=domain_of(account)): mean([gpu], "real_utilization")
        for gpu in _used_alone(account)
    }
    ratios = {name: ratio for name, ratio in means.items() if ratio is not None}
    if len(ratios) < 2:
        return
    most, least = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    average = sum(ratios.values()) / len(ratios)
    if ratios[most] > 0.0 and 1.0 - average / ratios[most] >= IMBALANCE_RATIO:
        yield Advice(
            "imbalance",
            f"real work {percent(ratios[most])} on GPU {most}, {percent(ratios[least])} on GPU {least}, "
            f"{percent(average)} on average",
            f"If its GPUs work in step, the others wait for GPU {most}, which has the most work: distribute it evenly.",
        )


def _fed(account: Account) -> Iterator[Advice]:
    """Yield how much the GPUs waited for data, or for their program."""
    total = account["total"]
    observed = float(total["gpu_seconds"])
    waited = by_state(total, "workload_class_seconds").get("io_or_data_loading", 0.0)
    if observed > 0.0 and waited >= IO_RATIO * observed:
        link = "PCIe or C2C" if total["counters"].get("observed_c2c_receive_bytes") else "PCIe"
        yield Advice(
            "io",
            f"{link} was busy and SMs were not for {percent(waited / observed)} of the time "
            f"({duration_text(waited)} of {duration_text(observed)})",
            "Use more loader workers, pinned memory and prefetching, or keep the data on the GPU.",
        )
        return
    used = _used_alone(account)
    busy = sum(gpu["gpu_seconds"] - seconds(gpu, "sm_active_unknown_seconds") - idle_seconds(gpu) for gpu in used)
    active = sum(seconds(gpu, "sm_active_seconds") for gpu in used)
    if busy >= MIN_SECONDS and active < UNDERFED_SM_RATIO * busy and mean(used, "sm_active") is not None:
        yield Advice(
            "underfed",
            f"SMs were active for {percent(active / busy)} of the {duration_text(busy)} in which GPUs were not idle",
            "The program starts too little work at a time: use larger batches, or CUDA graphs.",
        )


def _throttled(account: Account) -> Iterator[Advice]:
    observed = float(account["total"]["gpu_seconds"])
    for name, cause, text in (
        ("thermal_violation_seconds_total", "heat", "Check the cooling of the node."),
        (
            "power_violation_seconds_total",
            "the power limit",
            "Expected under full load; otherwise check the power limit in force.",
        ),
    ):
        lost = sum(gpu["violations"].get(name) or 0.0 for gpu in account["gpus"] if gpu["shared_by"] == 1)
        if observed > 0.0 and lost > THROTTLED_RATIO * observed:
            evidence = f"{cause} lowered clocks for {percent(lost / observed)} of the time ({duration_text(lost)})"
            yield Advice("throttled", evidence, text)


def _small(account: Account) -> Iterator[Advice]:
    used = _used_alone(account)
    shares, ratio = memory_ratios(used), mean(used, "real_utilization")
    if not shares or len(shares) < len(used) or ratio is None:
        return
    if max(shares) < SMALL_MEMORY_RATIO and ratio < SMALL_REAL_UTILIZATION_RATIO:
        yield Advice(
            "small",
            f"real work {percent(ratio)}, peak memory {percent(max(shares))} of the device's",
            "A smaller GPU, a MIG instance or a share of a GPU is enough.",
        )


_RULES: Sequence[Callable[[Account], Iterator[Advice]]] = (
    _unanswered,
    _hang,
    _events,
    _idle,
    _imbalance,
    _fed,
    _throttled,
    _small,
)


def _used_alone(account: Account) -> list[Account]:
    """Return the GPUs that the owner used for other work than video, and did not share."""
    return [gpu for gpu in account["gpus"] if gpu["shared_by"] == 1 and not (_is_unused(gpu) or _is_for_media(gpu))]


def _is_for_media(gpu: Account) -> bool:
    """Return whether media engines work on the GPU, which neither SMs nor the real utilization show."""
    return float(gpu["media_active_seconds"]) >= MEDIA_RATIO * float(gpu["gpu_seconds"]) > 0.0


def _name(account: Account, gpu: Account) -> str:
    return f"GPU {gpu_name(gpu, with_node=has_several_nodes(account), domain=domain_of(account))}"


def _moment(time: str) -> str:
    return f"{moment_of(time):%Y-%m-%d %H:%M} UTC"
