"""The kinds of values that single layers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.xids import XidSeverity
from pulsed.config.value_parsers import (
    ascending,
    exporter_target,
    external_url,
    gpu_list,
    label_name,
    label_pattern,
    label_selector,
    listen_address,
    namespace,
    namespaces,
    object_kind,
    pod_port,
    server_url,
    xid_code,
)
from pulsed.http.credentials import masked
from pulsed.present.exposition.page import COMPATIBLE
from pulsed.settings import Kind, ListKind, TableKind, not_empty, number, one_of, whole
from pulsed.translate.fields import GROUPS

Bounds = Annotated[
    tuple[float, ...],
    ListKind("bounds", "ratios in ascending order, such as [0.25, 0.5, 0.75]", number(0, 1), check=ascending),
]
GpuList = Annotated[
    str,
    Kind("gpus", "indexes (0,2-3), UUIDs or their beginnings, GPU:instance (0:7), all or none", gpu_list, "text"),
]
KernelLogPath = Annotated[
    str, Kind("kernel_log", "auto, off, or the path of a file with kernel messages", not_empty, "text")
]
CommandOrOff = Annotated[str, Kind("command", "the name or path of a program, or off", not_empty, "text")]
SocketOrOff = Annotated[str, Kind("socket", "the path of a Unix socket, or off", not_empty, "text")]
ExternalUrl = Annotated[str, Kind("url", "a URL such as https://example.org/pulsed/", external_url, "text")]
Addresses = Annotated[
    tuple[str, ...],
    ListKind(
        "address",
        "host:port such as :9401, 127.0.0.1:9401, [::1]:9401, or unix:/run/pulsed.sock; one or a list of them",
        listen_address,
        "text",
        least=1,
    ),
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
ServerUrl = Annotated[str, Kind("server", "a URL without a path, such as https://10.96.0.1:443", server_url, "text")]
LabelSelectors = Annotated[
    tuple[str, ...],
    ListKind(
        "selector", "label selectors such as app=dcgm-exporter; one or a list of them", label_selector, "text", least=1
    ),
]
LabelNames = Annotated[
    tuple[str, ...],
    ListKind("label", "names of labels such as app.kubernetes.io/name; one or a list of them", label_name, "text"),
]
LabelPatterns = Annotated[
    tuple[str, ...],
    ListKind(
        "labels", "names of labels, with * at the end for any characters; one or a list of them", label_pattern, "text"
    ),
]
ALL_NAMESPACES = ("all",)
Namespaces = Annotated[
    tuple[str, ...],
    ListKind(
        "namespace",
        "names such as gpu-operator, one or a list of them; or all",
        namespace,
        "text",
        least=1,
        check=namespaces,
    ),
]
"""Names of namespaces, or `ALL_NAMESPACES`."""

ObjectKinds = Annotated[
    tuple[str, ...],
    ListKind("kind", "kinds with their API groups, such as RayJob.ray.io; one or a list of them", object_kind, "text"),
]
PodPort = Annotated[int | str, Kind("port", "a number from 1 to 65535, or the name of a port", pod_port)]
Directories = Annotated[
    tuple[str, ...], ListKind("directory", "names of directories, one or a list", not_empty, "file")
]
Columns = Annotated[
    tuple[str, ...],
    ListKind("column", "names of columns, such as [GPUTL, POWER]", not_empty, "text", single=False, words=True),
]
CommonNames = Annotated[tuple[str, ...], ListKind("common name", "names; one or a list of them", not_empty, "text")]
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
Families = Annotated[
    tuple[str, ...],
    ListKind(
        "family",
        "names of METRICS.md, with * for any characters, such as [pulsed_gpu_ecc_*]",
        not_empty,
        "text",
        single=False,
        words=True,
    ),
]
Programs = Annotated[
    tuple[str, ...],
    ListKind(
        "program",
        f"some of {', '.join(COMPATIBLE)}",
        one_of(COMPATIBLE, "is not a program that pulsed has series for"),
        "text",
        single=False,
        words=True,
    ),
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
