"""The GPUs of `/gpus?view=summary`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pulsed.terminal.model import LOST_SECONDS, Document, GpuState


def gpu_states(source: int, summary: Document, waited: float, before: Document | None = None) -> list[GpuState]:
    """Return the GPUs of a summary.

    Args:
        source: index of the daemon.
        waited: seconds since the summary arrived.
        before: the summary before it, for rates.
    """
    gpus, fields = summary["gpus"], summary["fields"]
    now = seconds_of(summary["time"])
    size = len(gpus["gpu"])
    nothing: list[Any] = [None] * size
    replays = _rates(summary, before) if before is not None else nothing
    stale = [bool(each) or waited > LOST_SECONDS for each in summary["stale"]]
    names = list(fields)
    rows = zip(*fields.values(), strict=True) if names else iter([()] * size)
    return [
        GpuState(
            source,
            gpus["node"][at] or "",
            gpus["gpu"][at] or "",
            gpus["uuid"][at] or "",
            gpus["mig_id"][at] or "",
            gpus["mig_profile"][at] or "",
            short_model(gpus["model"][at] or ""),
            dict(zip(names, row, strict=True)),
            stale[at],
            max(0.0, now - summary["sample_time"][at]) + waited,
            None if summary["owners"][at] is None else tuple(owner for owner in summary["owners"][at]),
            (summary.get("class_since") or nothing)[at],
            tuple((summary.get("candidates") or nothing)[at] or ()),
            (summary.get("problem") or nothing)[at] or "",
            None if stale[at] else replays[at],
        )
        for at, row in enumerate(rows)
    ]


def seconds_of(text: str) -> float:
    """Return the Unix time of a time of the API."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def short_model(model: str) -> str:
    """Return a model without its maker: `H100 80GB HBM3`."""
    return model.removeprefix("NVIDIA ")


def _rates(summary: Document, before: Document) -> Sequence[float | None]:
    """Return the PCIe replays per second of each GPU since the sample before; None if it is the same sample."""
    new, old = summary["fields"].get("pcie_replays_total"), before["fields"].get("pcie_replays_total")
    if new is None or old is None or summary["roster"] != before["roster"]:
        return [None] * len(summary["stale"])
    return [
        None if a is None or b is None or later <= earlier or a < b else (a - b) / (later - earlier)
        for a, b, later, earlier in zip(new, old, summary["sample_time"], before["sample_time"], strict=True)
    ]


def means(points: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the means and states of the fields of a GPU in `/history`."""
    return {
        name: tuple(values["mean"] if isinstance(values, dict) else values) for name, values in points["fields"].items()
    }
