"""The summary of a job that jobstats keeps in Slurm's AdminComment: `JS1:`, then base64 of gzipped JSON.

jobstats, jobscope and reportseff read it, and ignore other keys. CPU and host memory come from
jobstats alone, so that GPUs are only added to a summary that is there.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

from pulsed.errors import PulsedError
from pulsed.json_text import json_bytes
from pulsed.present.job_line import job_line
from pulsed.present.job_numbers import Account, mean

PREFIX = "JS1:"

MAX_BYTES = 16 * 2**20
"""Of the JSON: 1,000 nodes with 8 GPUs need 1 MB."""

WITHOUT_NUMBERS = ("Short", "None")
"""What jobstats writes for a job that is too short, or of which it has nothing."""


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
