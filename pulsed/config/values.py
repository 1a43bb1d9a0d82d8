"""The kinds of values that single layers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.xids import XidSeverity
from pulsed.config.value_parsers import (
    ascending,
    exporter_target,
    xid_code,
)
from pulsed.http.credentials import masked
from pulsed.settings import Kind, ListKind, TableKind, not_empty, number, one_of, whole
from pulsed.translate.watches import GROUPS

Bounds = Annotated[
    tuple[float, ...],
    ListKind("bounds", "ratios in ascending order, such as [0.25, 0.5, 0.75]", number(0, 1), check=ascending),
]
KernelLogPath = Annotated[
    str, Kind("kernel_log", "auto, off, or the path of a file with kernel messages", not_empty, "text")
]
Targets = Annotated[
    tuple[str, ...],
    ListKind(
        "target",
        "a URL such as http://localhost:9400/metrics, or the name of a saved page; one or a list of them",
        exporter_target,
        "file",
        shown=masked,
        least=1,
    ),
]
Columns = Annotated[
    tuple[str, ...],
    ListKind("column", "names of columns, such as [GPUTL, POWER]", not_empty, "text", single=False, words=True),
]
Groups = Annotated[
    tuple[str, ...],
    ListKind(
        "group",
        f"some of {', '.join(GROUPS)}",
        one_of(GROUPS, "is not a group of fields"),
        "text",
        single=False,
        words=True,
    ),
]
FieldIds = Annotated[tuple[int, ...], ListKind("field", "ids of DCGM fields, such as [1017]", whole(1, 65535))]
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
