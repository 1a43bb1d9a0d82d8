"""The report of a job for people, rendered from its document of `/jobs`. Columns add up to their totals as printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import floor
from typing import Any, NamedTuple

from pulsed.json_text import duration_text
from pulsed.owners.report.job_advice import FINDING_TEXTS, MIN_COVERAGE, MIN_SAMPLES, MIN_SECONDS
from pulsed.owners.report.job_numbers import (
    JOULES_PER_KWH,
    MAX_UNKNOWN_RATIO,
    MISSING,
    Account,
    by_state,
    domain_of,
    gpu_key,
    gpu_name,
    has_several_nodes,
    idle_seconds,
    is_of_board,
    job_name,
    joules,
    mean,
    percent,
    seconds,
    without_energy,
)
from pulsed.owners.report.job_statistics import (
    JOB_QUANTITIES,
    balance_rows,
    cpu_joules,
    known_ratio,
    shared_ratio,
    sparkline,
)
from pulsed.owners.report.text_table import aligned, demo_lines
from pulsed.owners.report.verdict import outlier_text, verdict_of
from pulsed.printable import clean

GIBIBYTE = 2**30
MAX_GPU_ROWS = 32
"""GPUs with a row of their own in a report; the rest is one row."""

MAX_EARLIER = 3
"""Earlier accounts that are named."""


class _Unit(NamedTuple):
    name: str
    size: float


class JobReport(NamedTuple):
    """The texts of a report.

    Attributes:
        title: kind, id, and user.
        summary: its GPUs, nodes, time and state, and how much of it was seen.
        facts: title and text of known facts; empty texts are left out.
        statistics: the table of mean and spread, with its head; empty if nothing is known.
        balance: the table of the activity of links and network; empty if nothing is known.
        advice: what to do, or why there is nothing to do.
        unknown: what the report does not cover.
    """

    title: str
    summary: str
    facts: Sequence[tuple[str, str]]
    statistics: Sequence[Sequence[str]]
    balance: Sequence[Sequence[str]]
    advice: Sequence[str]
    unknown: Sequence[str]


def report_of(account: Account) -> JobReport:
    """Return the texts about one job."""
    total, gpus = account["total"], account["gpus"]
    time, energy = _time_unit(total["gpu_seconds"]), _energy_unit(joules(total))
    facts = [
        ("Verdict", verdict_of(account)),
        ("Real work", _real_work(account)),
        ("Life", _life(account)),
        ("Time", _classes(total, time)),
        ("Energy", "; ".join(filter(None, (_energy(total, gpus, energy), _cpu_energy(account, energy))))),
        ("Cost", _cost(account["cost"], total)),
        ("Allocated", _allocated(account, time, energy)),
        ("Memory", _memory(gpus)),
        ("Host", _host(account)),
        ("Earlier", _earlier(account)),
    ]
    problems = [f"{each['evidence']}. {each['text']}" for each in account["advice"]]
    return JobReport(
        job_title(account),
        f"{_extent(account)}, seen {percent(account['coverage'], 1)}",
        [fact for fact in facts if fact[1]],
        _statistic_rows(account),
        balance_rows(account),
        problems or [_no_advice(account)],
        list(_unknown(account)),
    )


def job_report(account: Account) -> str:
    """Return the report of one job: sums, a row per GPU, advice, and what is not known."""
    report, total = report_of(account), account["total"]
    lines = [*demo_lines(account["gpus"]), job_head(account)]
    lines += [f"{title:<12}{text}" for title, text in report.facts]
    gpu_rows = _gpu_rows(account, _time_unit(total["gpu_seconds"]), _energy_unit(joules(total)))
    tables = [aligned(rows) for rows in (report.statistics, report.balance, gpu_rows) if rows]
    lines += ["", *(line for table in tables for line in (*table, ""))]
    lines += _list("What to do", report.advice)
    lines += _list("Not known", report.unknown)
    return "\n".join(map(clean, lines)) + "\n"


def job_head(account: Account) -> str:
    """Return the line that names a job."""
    return f"{job_title(account)}   {_extent(account)}   seen {percent(account['coverage'], 1)}"


def job_title(account: Account) -> str:
    """Return kind, id, user and name of a job."""
    owner = account["owner"]
    container = owner["container"] or ""
    containers = container if owner["kind"] == "pod" and container not in owner["id"] else ""
    who = ", ".join(filter(None, (owner["user"], owner["account"], containers)))
    kind = "Job" if owner["kind"] == "slurm_job" else owner["kind"].capitalize()
    name = owner["name"] if owner["name"] and owner["name"] not in owner["id"] else ""
    return "  ".join(filter(None, (f"{kind} {job_name(owner)}" + (f" ({who})" if who else ""), name)))


def _extent(account: Account) -> str:
    gpus = account["gpus"]
    models = Counter(_model(gpu) for gpu in {gpu_key(gpu): gpu for gpu in gpus}.values())
    if len(models) == 1:
        models = Counter(dict.fromkeys(models, account["gpu_count"]))
    nodes = len({gpu["node"] for gpu in gpus})
    facts = [
        " + ".join(f"{count} x {model}" for model, count in models.items()),
        *_parts(account),
        f"{nodes} node{'s' if nodes != 1 else ''}",
        duration_text(account["elapsed_seconds"]),
        account["state"],
    ]
    return ", ".join(facts)


def _parts(account: Account) -> Iterator[str]:
    """Yield the number of the tasks of an array, or of the components of a heterogeneous job."""
    if parts := account.get("parts"):
        count = max(account["part_count"], len(parts))
        word = "component" if "+" in parts[0]["id"] else "task"
        of_all = f"the newest {len(parts)} of " if len(parts) < count else ""
        yield f"{of_all}{count} {word}{'s' if count != 1 else ''}"


def _model(gpu: Account) -> str:
    words = (gpu["model"] or "GPU").removeprefix("NVIDIA ").split()
    return words[0] + (" MIG" if gpu["mig_id"] else "")


def _real_work(account: Account) -> str:
    total = account["total"]
    return f"{percent(mean([total], 'real_utilization'))} of what the GPUs can do"


def _life(account: Account) -> str:
    line = sparkline(account)
    return f"{line}  {duration_text(account['timeline']['bucket_seconds'])} a block" if line else ""


def _statistic_rows(account: Account) -> Sequence[Sequence[str]]:
    """Return the table of mean and spread of quantities."""
    rows = [["", "mean", "+- over GPUs", "+- over time", ""]]
    for name, title, size, unit in JOB_QUANTITIES:
        if (statistic := account["statistics"].get(name)) is not None:
            ratio = known_ratio(statistic, account["total"])
            spreads = [
                MISSING if statistic[of] is None else f"{statistic[of] / size:.0f}" for of in ("over_gpus", "over_time")
            ]
            note = f"known for {percent(ratio)} of the time" if ratio < 1.0 - MAX_UNKNOWN_RATIO else ""
            rows.append([title, f"{statistic['mean'] / size:.0f} {unit}", *spreads, note])
    return rows if len(rows) > 1 else ()


def _classes(total: Account, unit: _Unit) -> str:
    observed = float(total["gpu_seconds"])
    if observed <= 0.0:
        return "nothing was observed"
    classes = by_state(total, "workload_class_seconds")
    most = sorted(classes, key=lambda name: (name == "idle", -classes[name]))
    percents = [100.0 * classes[name] / observed for name in most]
    rounded = _rounded(percents, sum(percents), 0)
    shares = [
        f"{share:.0f} % {name.replace('_', ' ')}" for name, share in zip(most, rounded, strict=True) if share >= 1.0
    ]
    unused = idle_seconds(total)
    waste = f" = {unused / unit.size:.1f} {unit.name} unused" if unused else ""
    return f"{observed / unit.size:.1f} {unit.name}: {', '.join(shares)}{waste}"


def _energy(total: Account, gpus: Sequence[Account], unit: _Unit) -> str:
    used = joules(total)
    if used is None:
        return ""
    idle = sum(by_state(total, "idle_energy_joules").values())
    mark = "at least " if without_energy(gpus) else "about " if total["estimated_joules"] else ""
    texts = [f"{mark}{used / unit.size:.1f} {unit.name}", f"{idle / unit.size:.1f} of it while idle" if idle else ""]
    if mark == "about ":
        texts.append("by the slices of MIG instances in use")
    return ", ".join(filter(None, texts))


def _cost(cost: Mapping[str, Any] | None, total: Account) -> str:
    if cost is None:
        return ""
    parts = []
    if cost["per_gpu_hour"] is not None:
        parts.append(f"{total['gpu_seconds'] / 3600.0:.3f} GPU hours x {cost['per_gpu_hour']:g}")
    if cost["per_kwh"] is not None:
        used = None if cost["energy"] is None else joules(total)
        parts.append(f"{'unknown' if used is None else f'{used / JOULES_PER_KWH:.3f}'} kWh x {cost['per_kwh']:g}")
    amount = "unknown" if cost["total"] is None else f"{cost['total']:.2f}"
    reason = f" (unknown: {cost['unknown']})" if cost["unknown"] else ""
    return f"{amount} {cost['currency']} = {' + '.join(parts)}{reason}"


def _allocated(account: Account, time: _Unit, energy: _Unit) -> str:
    """Return time, energy and cost by the parts of GPUs that the scheduler gave the job."""
    total, cost = account["total"], account["cost"] or {}
    if (seconds := total["allocated_gpu_seconds"]) is None:
        return ""
    texts = [f"{seconds / time.size:.1f} {time.name}"]
    if (used := total["allocated_joules"]) is not None:
        texts.append(f"{used / energy.size:.1f} {energy.name}")
    if (amount := cost.get("allocated")) is not None:
        texts.append(f"{amount:.2f} {cost['currency']}")
    return f"{', '.join(texts)}, by the parts of GPUs that the scheduler gave it"


def _memory(gpus: Sequence[Account]) -> str:
    peaks = [(peak, gpu["memory_bytes"]) for gpu in gpus if (peak := gpu["peaks"]["memory_used_bytes"]) is not None]
    if not peaks:
        return ""
    peak, size = max(peaks, key=lambda each: each[0])
    of = f" of {size / GIBIBYTE:.0f}" if size else ""
    return f"peak {peak / GIBIBYTE:.0f}{of} GiB of a GPU (reserved by the program, perhaps not needed)"


def _host(account: Account) -> str:
    hosts = account["hosts"]
    cpu = [host["cpu_seconds"] for host in hosts if host["cpu_seconds"] is not None]
    peaks = [host for host in hosts if host["memory_peak_bytes"] is not None]
    texts = []
    if cpu and account["elapsed_seconds"] > 0.0:
        texts.append(f"{sum(cpu) / account['elapsed_seconds']:.1f} CPUs busy on average")
    if peaks:
        most = max(peaks, key=lambda host: float(host["memory_peak_bytes"]))
        limit = most["memory_limit_bytes"]
        of = f" of {limit / GIBIBYTE:.0f}" if limit else ""
        texts.append(f"memory peak {most['memory_peak_bytes'] / GIBIBYTE:.0f}{of} GiB of a node, with page cache")
    return ", ".join(texts)


def _gpu_rows(account: Account, time: _Unit, energy: _Unit) -> Sequence[Sequence[str]]:
    """Return the table of GPUs, whose columns add up, and its total."""
    gpus, total = account["gpus"], account["total"]
    several = has_several_nodes(account)
    groups: list[tuple[str, Sequence[Account]]] = [
        (gpu_name(gpu, with_node=several, domain=domain_of(account)), [gpu]) for gpu in gpus
    ]
    if len(gpus) > MAX_GPU_ROWS:
        rest = gpus[MAX_GPU_ROWS - 1 :]
        groups[MAX_GPU_ROWS - 1 :] = [(f"{len(rest)} more", rest)]

    def column(amount: Callable[[Account], float | None], unit: _Unit) -> list[float]:
        sums = [sum(amount(gpu) or 0.0 for gpu in group) / unit.size for _, group in groups]
        return _rounded(sums, (amount(total) or 0.0) / unit.size, 1)

    hours = column(lambda part: float(part["gpu_seconds"]), time)
    idle, spent = column(idle_seconds, time), column(joules, energy)
    has_energy = [any(joules(gpu) is not None for gpu in group) for _, group in groups]
    rows = [["GPU", time.name, "real work", "idle", energy.name, "peak GiB", ""]]
    for at, (name, group) in enumerate(groups):
        peaks = [peak for gpu in group if (peak := gpu["peaks"]["memory_used_bytes"]) is not None]
        rows.append(
            [
                name,
                f"{hours[at]:.1f}",
                percent(mean(group, "real_utilization")),
                f"{idle[at]:.1f}",
                f"{spent[at]:.1f}" if has_energy[at] else MISSING,
                f"{max(peaks) / GIBIBYTE:.1f}" if peaks else MISSING,
                _shared(group),
            ]
        )
    if len(groups) > 1:
        sums = [f"{sum(values):.1f}" for values in (hours, idle, spent)]
        ratio = percent(mean([total], "real_utilization"))
        rows.append(["all", sums[0], ratio, sums[1], sums[2] if any(has_energy) else MISSING, "", ""])
    return rows


def _shared(group: Sequence[Account]) -> str:
    most = max(gpu["shared_by"] for gpu in group)
    return f"a share of a GPU with {most} owners" if most > 1 else ""


_QUESTIONS = {"hang": "whether it hangs", "straggler": "whether a GPU is slower than its peers"}


def not_judged_text(unjudged: Mapping[str, Any]) -> str:
    """Return a finding that is not evaluated, and why."""
    return f"{_QUESTIONS.get(unjudged['finding'], unjudged['finding'])} (not evaluated: {unjudged['missing']})"


def _no_advice(account: Account) -> str:
    if account["coverage"] is None or account["coverage"] < MIN_COVERAGE:
        return f"no advice: less than {percent(MIN_COVERAGE)} of the time was seen"
    if outlier_text(account):
        return FINDING_TEXTS["straggler"]
    few = all(gpu["samples"] < MIN_SAMPLES for gpu in account["gpus"])
    if few or account["elapsed_seconds"] < MIN_SECONDS:
        return f"no advice before {duration_text(MIN_SECONDS)} and {MIN_SAMPLES} samples"
    return "nothing stands out"


def _unknown(account: Account) -> Iterator[str]:
    """Yield what the report does not cover."""
    total = account["total"]
    missing = account.get("missing_nodes") or []
    if missing:
        nodes = len(missing) + account["answered_nodes"]
        names = ", ".join(f"{each['node']} ({each['reason']})" for each in missing)
        yield f"{len(missing)} of {nodes} nodes: {names}"
    if account["coverage"] is not None and account["coverage"] < 0.995:
        yield f"{percent(1.0 - account['coverage'], 1)} of the time, in which the GPUs were not observed"
    for word, name in (("real_utilization", "real work"), ("energy", "energy")):
        unknown = seconds(total, f"{word}_unknown_seconds")
        if unknown > 0.01 * total["gpu_seconds"] > 0.0:
            yield f"{name} of {percent(unknown / total['gpu_seconds'])} of the observed time"
    for each in account["not_judged"]:
        yield not_judged_text(each)
    low, high = (total[bound] for bound in ("lower", "upper"))
    if any(is_of_board(account["owner"], gpu) for gpu in account["gpus"]):
        yield (
            "which MIG instances are this job's: its claim names the board; let gres.conf have AutoDetect=nvml, or name"
            " files GPU.INSTANCE"
        )
    if any(gpu["shared_by"] > 1 for gpu in account["gpus"]):
        least, most = (float(each.get("real_utilization_seconds") or 0.0) for each in (low, high))
        yield f"who did what on shared GPUs: {least:.0f} to {most:.0f} seconds of full use are this owner's"
    if (shared := shared_ratio(account)) > 0.0:
        yield f"whose traffic the network's is: other owners had GPUs of its nodes for {percent(shared)} of the time"
    if account["boundary_seconds"] >= 1.0:
        yield f"{account['boundary_seconds']:.0f} s of samples in which it got or lost a GPU; they are in no sum"
    yield ("" if _host(account) else "host CPU and memory; ") + "whether this is good for this program"


def _time_unit(total: float) -> _Unit:
    if total >= 7200.0:
        return _Unit("GPU hours", 3600.0)
    return _Unit("GPU minutes", 60.0) if total >= 120.0 else _Unit("GPU seconds", 1.0)


def _energy_unit(total: float | None) -> _Unit:
    return _Unit("kWh", JOULES_PER_KWH) if (total or 0.0) >= JOULES_PER_KWH else _Unit("Wh", 3600.0)


def _rounded(values: Sequence[float], total: float, decimals: int) -> list[float]:
    """Round values so that their sum is the total as printed: those with the largest remainders are rounded up."""
    scale = 10.0**decimals
    floors = [floor(value * scale) for value in values]
    up = round(round(total, decimals) * scale) - sum(floors)
    order = sorted(range(len(values)), key=lambda at: floors[at] - values[at] * scale)
    for at in order[:up]:
        floors[at] += 1
    return [whole / scale for whole in floors]


def _cpu_energy(account: Account, unit: _Unit) -> str:
    """Return the energy of the processors of the job's nodes, where it is known."""
    used = cpu_joules(account)
    return f"processors of its nodes {used / unit.size:.1f} {unit.name}" if used else ""


def _earlier(account: Account) -> str:
    """Return when earlier accounts of the same name were."""
    earlier = account.get("earlier", [])  # absent in lists
    spans = [f"{_minute(each['begin'])} to {_minute(each['end']) or 'now'}" for each in earlier[:MAX_EARLIER]]
    rest = f" and {len(earlier) - MAX_EARLIER} more" if len(earlier) > MAX_EARLIER else ""
    return f"{', '.join(spans)}{rest}; not in these numbers" if spans else ""


def _minute(time: str | None) -> str:
    return time[:16].replace("T", " ") if time else ""


def _list(title: str, texts: Sequence[str]) -> Iterator[str]:
    for at, text in enumerate(texts):
        yield f"{'' if at else title:<12}{text}"
