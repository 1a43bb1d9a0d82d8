"""The kinds of values that single layers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.xids import XidSeverity
from pulsed.config.value_parsers import (
    ascending,
    xid_code,
)
from pulsed.settings import Kind, ListKind, TableKind, not_empty, number, one_of

Bounds = Annotated[
    tuple[float, ...],
    ListKind("bounds", "ratios in ascending order, such as [0.25, 0.5, 0.75]", number(0, 1), check=ascending),
]
KernelLogPath = Annotated[
    str, Kind("kernel_log", "auto, off, or the path of a file with kernel messages", not_empty, "text")
]
CheckIds = Annotated[
    tuple[str, ...], ListKind("check", f"some of {', '.join(BY_ID)}", str, "text", single=False, words=True)
]
CheckThresholds = Annotated[
    Mapping[str, Mapping[str, float]],
    TableKind("thresholds", "numbers by check and state, such as {temp_memory: {warn: 90}}", number(), depth=2),
]
XidSeverities = Annotated[
    Mapping[int, XidSeverity],
    TableKind(
        "xids",
        "ok, info, warn or crit by XID, such as {109: warn}",
        one_of(("ok", "info", "warn", "crit")),
        parse_name=xid_code,
    ),
]
