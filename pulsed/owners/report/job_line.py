"""Lines about a job for a scheduler's comment, made of its document: pulsed's own, and the summary of jobstats.

jobstats keeps its summary in Slurm's AdminComment: `JS1:`, then base64 of gzipped JSON. jobstats, jobscope and
reportseff read it, and ignore other keys. CPU and host memory come from jobstats alone, so that GPUs are only added to
a summary that is there.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Mapping
from typing import Any

from pulsed.errors import PulsedError
from pulsed.json_text import json_bytes
from pulsed.owners.report.job_numbers import (
    JOULES_PER_KWH,
    Account,
    by_state,
    joules,
    mean,
    memory_ratios,
    without_energy,
)
from pulsed.owners.report.job_statistics import network_shares
from pulsed.owners.report.text_table import has_demo
from pulsed.owners.report.verdict import verdict_of
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
    """Return one line for a scheduler's comment: the verdict, then `pulsed/1` and the known numbers as `name=value`."""
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
    fields = [*(["demo=1"] if has_demo(gpus) else []), f"gpus={account['gpu_count']}"]
    fields += [*(f"{name}={_short(value)}" for name, value in numbers.items() if value is not None)]
    fields += [f"flags={flags}"] if flags else []
    if account["coverage"] is not None:
        fields.append(f"cov={_short(account['coverage'])}")
    if missing := account.get("missing_nodes"):
        fields.append(f"nodes={account['answered_nodes']}/{account['answered_nodes'] + len(missing)}")
    return clean(f"{verdict_of(account)} pulsed/1 {' '.join(fields)}") + "\n"


def _short(value: float) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text.removeprefix("0") if text.startswith("0.") else text


PREFIX = "JS1:"

MAX_BYTES = 16 * 2**20
"""Of the JSON: 1,000 nodes with 8 GPUs need 1 MB."""

WITHOUT_NUMBERS = ("Short", "None")
"""jobstats' texts for a job that is too short, or has no data."""


class NotJobstatsSummary(PulsedError):
    """The text is not a summary of jobstats."""


def with_gpus(summary: str, account: Account) -> str:
    """Return a summary of jobstats with the GPUs of an account.

    Values that it has stay. Nodes are matched by name, also without domain; a GPU is keyed by its index.
    `gpu_utilization` is the real utilization in percent, and `pulsed` the line of `job_line`.

    Raises:
        NotJobstatsSummary: it is not such a summary.
    """
    text = summary.strip()
    if text.startswith(PREFIX) and text.removeprefix(PREFIX) in WITHOUT_NUMBERS:
        return text
    document = _decoded(text)
    for gpu in account["gpus"]:
        node = document["nodes"].get(gpu["node"]) or document["nodes"].get(gpu["node"].partition(".")[0])
        if node is None or gpu["mig_id"]:
            continue
        ratio = mean([gpu], "real_utilization")
        for name, value in (
            ("gpu_total_memory", gpu["memory_bytes"]),
            ("gpu_used_memory", gpu["peaks"]["memory_used_bytes"]),
            ("gpu_utilization", None if ratio is None else round(100.0 * ratio, 1)),
        ):
            if value is not None:
                node.setdefault(name, {}).setdefault(gpu["gpu"], value)
    document["gpus"] = document.get("gpus") or account["gpu_count"]
    document["pulsed"] = job_line(account).strip()
    packed = gzip.compress(json_bytes(document), mtime=0)
    return PREFIX + base64.b64encode(packed).decode()


def _decoded(text: str) -> dict[str, Any]:
    try:
        if not text.startswith(PREFIX):
            raise ValueError(f"it does not begin with {PREFIX}")
        packed = base64.b64decode(text.removeprefix(PREFIX), validate=True)
        unpacker = zlib.decompressobj(wbits=31)  # gzip
        summary: Any = json.loads(unpacker.decompress(packed, MAX_BYTES))
        if not isinstance(summary, dict) or not isinstance(summary.get("nodes"), dict):
            raise ValueError("it has no nodes")
        if not all(isinstance(node, dict) for node in summary["nodes"].values()):
            raise ValueError("a node is not an object")
    except (ValueError, zlib.error) as error:
        raise NotJobstatsSummary(
            f"standard input is not a summary of jobstats: {error}",
            "Give the AdminComment of the job: sacct -nXPo AdminComment -j ID | pulsed job ID --format js1",
        ) from None
    return summary
