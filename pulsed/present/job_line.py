"""The line about a job for a scheduler's comment, made of its document."""

from __future__ import annotations

from collections.abc import Mapping

from pulsed.present.demo_notice import has_demo
from pulsed.present.job_balance import network_shares
from pulsed.present.job_numbers import JOULES_PER_KWH, Account, by_state, joules, mean, memory_ratios, without_energy
from pulsed.printable import clean

LINE_STATISTICS = {
    "sm": "sm_active_ratio",
    "occ": "sm_occupancy_ratio",
    "tensor": "tensor_active_ratio",
    "dram": "dram_active_ratio",
    "w": "power_watts",
    "mfu": "mfu_ratio",
}
"""Means in the line, by name."""


def job_line(account: Account) -> str:
    """Return one line of `name=value` for a scheduler's comment; what is not known is absent."""
    total, gpus = account["total"], account["gpus"]
    used = None if without_energy(gpus) else joules(total)
    held = by_state(total, "idle_seconds").get("held", 0.0)
    network = network_shares(account)
    numbers: Mapping[str, float | None] = {
        "h": total["gpu_seconds"] / 3600.0,
        "ru": mean([total], "real_utilization"),
        "held_idle_h": held / 3600.0,
        "kwh": None if used is None else used / JOULES_PER_KWH,
        "mem": max(memory_ratios(gpus), default=None),
        **{word: account.get("statistics", {}).get(name, {}).get("mean") for word, name in LINE_STATISTICS.items()},
        "net": network.mean,
        "net_wait": network.waiting,
    }
    flags = ",".join(dict.fromkeys(each["id"] for each in account["advice"]))
    fields = [*(["demo=1"] if has_demo(gpus) else []), f"gpus={len(gpus)}"]
    fields += [*(f"{name}={_short(value)}" for name, value in numbers.items() if value is not None)]
    fields += [f"flags={flags}"] if flags else []
    if account["coverage"] is not None:
        fields.append(f"cov={_short(account['coverage'])}")
    if missing := account.get("missing_nodes"):
        fields.append(f"nodes={account['answered_nodes']}/{account['answered_nodes'] + len(missing)}")
    return clean(f"pulsed/1 {' '.join(fields)}") + "\n"


def _short(value: float) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text.removeprefix("0") if text.startswith("0.") else text
