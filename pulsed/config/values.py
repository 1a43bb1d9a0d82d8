"""The kinds of values that a configuration holds: how each is written, what is allowed, and its check.

A kind is an annotated type with a function of `pulsed.config.value_parsers`. Its `Notation` is used by error messages
and CONFIGURATION.md. Independent of the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict
from pydantic.fields import FieldInfo

from pulsed.compute.health.checks import BY_ID
from pulsed.compute.health.xids import XidSeverity
from pulsed.config.value_parsers import (
    ascending,
    exporter_target,
    external_url,
    gpu_list,
    http_path,
    label_name,
    label_pattern,
    label_selector,
    listen_address,
    moment,
    namespace,
    namespaces,
    not_empty,
    object_kind,
    one_of,
    pod_port,
    route_prefix,
    server_url,
    size,
)
from pulsed.durations import duration, duration_or_none
from pulsed.present.exposition.page import COMPATIBLE
from pulsed.translate.fields import GROUPS

Style = Literal["typed", "text", "file"]
"""How a scalar without quotes is taken: by YAML's types; as it is written (`node: 007`); so too, as a file's name."""


@dataclass(frozen=True, slots=True)
class Notation:
    """How a kind of value is written.

    Attributes:
        name: the placeholder of the documentation, without its angle brackets.
        allowed: what is allowed, for an error message.
        style: how a plain scalar is taken. Relative names of files count from the folder of the configuration file.
        secret: never shown: not in errors, not in `/config`.
    """

    name: str
    allowed: str
    style: Style = "typed"
    secret: bool = False


def notation_of(field: FieldInfo) -> Notation | None:
    """Return the notation of a field, also inside `| None` and of a list's items; None for a fixed set of words."""
    pending: list[object] = [*field.metadata, field.annotation]
    while pending:
        part = pending.pop(0)
        if isinstance(part, Notation):
            return part
        pending += [*getattr(part, "__metadata__", ()), *getattr(part, "__args__", ())]
    return None


def _one_or_many(value: object) -> object:
    return value if isinstance(value, (list, tuple)) else [value]


def _words(value: object) -> object:
    return value.replace(",", " ").split() if isinstance(value, str) else value


_T = TypeVar("_T")
OneOrMany = Annotated[tuple[_T, ...], BeforeValidator(_one_or_many)]
AtLeastOne = Annotated[tuple[_T, ...], BeforeValidator(_one_or_many), Field(min_length=1)]
Words = Annotated[tuple[_T, ...], BeforeValidator(_words)]
"""Lists: of a single value or several, of at least one, and of a list or a text with commas or blanks between them."""

Switch = Annotated[bool, Notation("boolean", "true, false")]
WholeNumber = Annotated[int, Strict(), Notation("int", "a whole number")]
Count = Annotated[int, Strict(), Field(ge=0), Notation("count", "a whole number, 0 or more")]
PositiveCount = Annotated[int, Strict(), Field(ge=1), Notation("positive", "a whole number, 1 or more")]
Factor = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False), Notation("number", "a number, 0 or more")]
Ratio = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False), Notation("ratio", "a number from 0 to 1")]
Bounds = Annotated[
    OneOrMany[
        Annotated[
            float,
            Strict(),
            Field(ge=0, le=1, allow_inf_nan=False),
            Notation("bounds", "ratios in ascending order, such as [0.25, 0.5, 0.75]"),
        ]
    ],
    AfterValidator(ascending),
]
Duration = Annotated[
    float,
    BeforeValidator(duration),
    Notation("duration", "seconds as a number above 0, or a text such as 100ms, 15s, 1m, 1h30m"),
]
DurationOrNone = Annotated[
    float,
    BeforeValidator(duration_or_none),
    Notation("duration or 0", "seconds as a number, 0 or more, or a text such as 100ms, 15s, 1m, 1h30m"),
]
Size = Annotated[
    int, BeforeValidator(size), Notation("size", "bytes as a number, or a text such as 512KiB, 64MiB, 1GB")
]
Moment = Annotated[
    float, BeforeValidator(moment), Notation("time", "Unix seconds, or a text such as 2026-01-01T00:00:00Z")
]
Text = Annotated[str, AfterValidator(not_empty), Notation("string", "a text that is not empty", "text")]
GpuList = Annotated[
    str,
    AfterValidator(gpu_list),
    Notation("gpus", "indexes (0,2-3), UUIDs or their beginnings, GPU:instance (0:7), all or none", "text"),
]
KernelLogPath = Annotated[
    str,
    AfterValidator(not_empty),
    Notation("kernel_log", "auto, off, or the path of a file with kernel messages", "text"),
]
CommandOrOff = Annotated[
    str, AfterValidator(not_empty), Notation("command", "the name or path of a program, or off", "text")
]
SocketOrOff = Annotated[str, AfterValidator(not_empty), Notation("socket", "the path of a Unix socket, or off", "text")]
FileName = Annotated[str, AfterValidator(not_empty), Notation("filename", "the name of a file or folder", "file")]
Secret = Annotated[SecretStr, Notation("secret", "a text", "text", secret=True)]
HttpPath = Annotated[
    str, AfterValidator(http_path), Notation("path", "a path that begins with /, such as /metrics", "text")
]
RoutePrefix = Annotated[
    str, AfterValidator(route_prefix), Notation("prefix", "a path such as /gpu-node-1/pulsed, or /", "text")
]
ExternalUrl = Annotated[
    str, AfterValidator(external_url), Notation("url", "a URL such as https://example.org/pulsed/", "text")
]
Addresses = AtLeastOne[
    Annotated[
        str,
        AfterValidator(listen_address),
        Notation(
            "address",
            "host:port such as :9401, 127.0.0.1:9401, [::1]:9401, or unix:/run/pulsed.sock; one or a list of them",
            "text",
        ),
    ]
]
Targets = AtLeastOne[
    Annotated[
        str,
        AfterValidator(exporter_target),
        Notation(
            "target",
            "a URL such as http://localhost:9400/metrics, or the name of a saved page; one or a list of them",
            "file",
        ),
    ]
]
ServerUrl = Annotated[
    str, AfterValidator(server_url), Notation("server", "a URL without a path, such as https://10.96.0.1:443", "text")
]
LabelSelectors = AtLeastOne[
    Annotated[
        str,
        AfterValidator(label_selector),
        Notation("selector", "label selectors such as app=dcgm-exporter; one or a list of them", "text"),
    ]
]
LabelNames = OneOrMany[
    Annotated[
        str,
        AfterValidator(label_name),
        Notation("label", "names of labels such as app.kubernetes.io/name; one or a list of them", "text"),
    ]
]
LabelPatterns = OneOrMany[
    Annotated[
        str,
        AfterValidator(label_pattern),
        Notation("labels", "names of labels, with * at the end for any characters; one or a list of them", "text"),
    ]
]
ALL_NAMESPACES = ("all",)
Namespaces = Annotated[
    AtLeastOne[
        Annotated[
            str,
            AfterValidator(namespace),
            Notation("namespace", "names such as gpu-operator, one or a list of them; or all", "text"),
        ]
    ],
    AfterValidator(namespaces),
]
"""Names of namespaces, or `ALL_NAMESPACES`."""

ObjectKinds = OneOrMany[
    Annotated[
        str,
        AfterValidator(object_kind),
        Notation("kind", "kinds with their API groups, such as RayJob.ray.io; one or a list of them", "text"),
    ]
]
PodPort = Annotated[
    int | str, BeforeValidator(pod_port), Notation("port", "a number from 1 to 65535, or the name of a port")
]
Directories = OneOrMany[
    Annotated[str, AfterValidator(not_empty), Notation("directory", "names of directories, one or a list", "file")]
]
Columns = Words[
    Annotated[str, AfterValidator(not_empty), Notation("column", "names of columns, such as [GPUTL, POWER]", "text")]
]
FieldNames = Annotated[
    Columns,
    Field(min_length=1),
    Notation("names", "names of quantities, such as [sm_active_ratio, power_watts]", "text"),
]
CommonNames = OneOrMany[
    Annotated[str, AfterValidator(not_empty), Notation("common name", "names; one or a list of them", "text")]
]
Groups = Words[
    Annotated[
        str,
        AfterValidator(one_of(GROUPS, "is not a group of fields")),
        Notation("group", f"some of {', '.join(GROUPS)}", "text"),
    ]
]
FieldIds = OneOrMany[
    Annotated[int, Strict(), Field(ge=1, le=65535), Notation("field", "ids of DCGM fields, such as [1017]")]
]
Families = Words[
    Annotated[
        str,
        AfterValidator(not_empty),
        Notation("family", "names of METRICS.md, with * for any characters, such as [pulsed_gpu_ecc_*]", "text"),
    ]
]
Programs = Words[
    Annotated[
        str,
        AfterValidator(one_of(COMPATIBLE, "is not a program that pulsed has series for")),
        Notation("program", f"some of {', '.join(COMPATIBLE)}", "text"),
    ]
]
CheckIds = Words[Annotated[str, Notation("check", f"some of {', '.join(BY_ID)}", "text")]]
CheckThresholds = Annotated[
    dict[str, dict[str, Annotated[float, Strict(), Field(allow_inf_nan=False)]]],
    Notation("thresholds", "numbers by check and state, such as {temp_memory: {warn: 90}}"),
]
XidSeverities = Annotated[
    dict[int, XidSeverity], Notation("xids", "ok, info, warn or crit by XID, such as {109: warn}")
]
