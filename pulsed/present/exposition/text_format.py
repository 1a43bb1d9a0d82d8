"""The Prometheus text formats: escaping, labels, HELP and TYPE lines, and content negotiation.

Two formats are written: text 0.0.4 and OpenMetrics 1.0.0. Their sample lines are the same; what differs is how a family
is named and typed. The format follows from Accept and the coding from Accept-Encoding as in RFC 9110: q-values,
wildcards, and precedence of the most specific range. prometheus_client's own choice ignores q. Invalid headers never
fail a scrape: the answer is text. This module must not depend on GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, cast

from prometheus_client import Metric

MetricType = Literal["gauge", "counter", "histogram", "info", "unknown"]
"""Types as in OpenMetrics; text 0.0.4 has `gauge` for info and `untyped` for unknown."""

END = b"# EOF\n"
"""The last line of an OpenMetrics page."""

_TEXT_TYPES = {"info": "gauge", "unknown": "untyped"}
UNITS = frozenset({"bytes", "celsius", "hertz", "joules", "ratio", "seconds", "volts", "watts"})
"""Base units, which names of families end with."""

SUFFIXES = {"counter": "_total", "info": "_info"}
"""What the samples of a family have behind its name, by type."""


_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
"""Control characters and what some programs take for the end of a line. The formats allow them, but programs that split
a page at them would read forged series."""

_HELP = {code: rf"\\u{code:04x}" for code in _CONTROLS} | {ord("\\"): r"\\", ord("\n"): r"\n"}
_LABEL = _HELP | {ord('"'): r"\""}


def escape(text: str) -> str:
    """Return an escaped label value, for both formats. Control characters are written out: `\\u000d`."""
    if text.isprintable() and "\\" not in text and '"' not in text:
        return text
    return text.translate(_LABEL)


def label_pairs(labels: Iterable[tuple[str, str]]) -> str:
    """Return label pairs without braces: `a="1",b="2"`."""
    return ",".join([f'{name}="{escape(value)}"' for name, value in labels])


def header(name: str, type: MetricType, help: str, openmetrics: bool) -> str:
    """Return the HELP and TYPE lines of a family, without HELP if it is empty; in OpenMetrics also its UNIT.

    The name is the name of the samples (`_total`, `_info`), which OpenMetrics cuts.
    """
    if openmetrics:
        name = name.removesuffix(SUFFIXES.get(type, ""))
        help = escape(help)
    else:
        help = help.translate(_HELP)
    declared = type if openmetrics else _TEXT_TYPES.get(type, type)
    described = f"# HELP {name} {help}\n" if help else ""
    unit = name.rpartition("_")[2]
    measured = f"# UNIT {name} {unit}\n" if openmetrics and unit in UNITS else ""
    return f"{described}# TYPE {name} {declared}\n{measured}"


def lines(families: Iterable[Metric], openmetrics: bool) -> Iterator[str]:
    """Yield the lines of families as prometheus_client does, a few times faster.

    Families have no exemplars, sample timestamps or `_created` samples; those without a sample are left out.
    """
    for family in families:
        if not family.samples:
            continue
        name = family.name + SUFFIXES.get(family.type, "")
        yield header(name, cast("MetricType", family.type), family.documentation, openmetrics)
        for sample in family.samples:
            labels = f"{{{label_pairs(sample.labels.items())}}}" if sample.labels else ""
            yield f"{sample.name}{labels} {sample.value!r}\n"


def encoded(texts: Iterable[str]) -> bytes:
    """Return lines as a part of a page."""
    # A label may hold half a surrogate pair, which UTF-8 cannot; it must not cost the page.
    return "".join(texts).encode("utf-8", "replace")


def only_named(page: bytes, names: Container[str]) -> bytes:
    """Return the samples of a page that have these names, with the comments of their families."""
    kept: list[bytes] = []
    comments: list[bytes] = []
    family = b""
    for line in page.splitlines(keepends=True):
        if line == END:
            kept.append(line)
        elif line.startswith((b"# HELP ", b"# TYPE ", b"# UNIT ")):
            comments = [*comments, line] if line.split(maxsplit=3)[2] == family else [line]
            family = line.split(maxsplit=3)[2]
        elif re.split(rb"[{ ]", line, maxsplit=1)[0].decode() in names:
            kept += [*comments, line]
            comments = []
    return b"".join(kept)


MAX_ACCEPT_LENGTH = 2048
"""Longer headers count as absent; Prometheus 3 sends some 250 characters."""


@dataclass(frozen=True, slots=True)
class Format:
    """Format of the page. Prometheus 3 fails a scrape with an unknown Content-Type, so its value is exact."""

    openmetrics: bool
    content_type: str


_OFFERS = (
    ("text/plain", "0.0.4"),
    ("application/openmetrics-text", "1.0.0"),
    ("application/openmetrics-text", "0.0.1"),
)
"""Media types with versions in order of preference, for equal quality. The page is valid in both OpenMetrics versions;
Prometheus before 2.26 supports only 0.0.1."""


def choose_format(accept: str) -> Format:
    """Return the format with the highest quality for an Accept header; text 0.0.4 if none is acceptable."""
    ranges = [(-place, *element) for place, element in enumerate(_elements(accept))]
    best, chosen, escaping = (0.0, 0, 0), _OFFERS[0], ""
    for offer in _OFFERS:
        matching = [
            (specificity, place, quality, parameters)
            for place, name, parameters in ranges
            if (quality := _quality(parameters)) is not None and (specificity := _specificity(name, parameters, *offer))
        ]
        if matching:
            specificity, place, quality, parameters = max(matching, key=itemgetter(0, 1))
            if quality > 0 and (rank := (quality, specificity, place)) > best:
                best, chosen, escaping = rank, offer, parameters.get("escaping", "")
    media_type, version = chosen
    content_type = f"{media_type}; version={version}; charset=utf-8"
    if escaping == "underscores":  # all names are legacy names, so that only the header changes
        content_type += "; escaping=underscores"
    return Format(chosen is not _OFFERS[0], content_type)


def _specificity(name: str, parameters: Mapping[str, str], media_type: str, version: str) -> int:
    """Return how precisely a range of Accept matches an offer: 0 not at all, 1 as `*/*`, up to 4 with its version."""
    if name != media_type:
        return 1 if name == "*/*" else 2 if name == f"{media_type.partition('/')[0]}/*" else 0
    return 3 if "version" not in parameters else 4 if parameters["version"] == version else 0


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether to compress for an Accept-Encoding header."""
    qualities: dict[str, float] = {}
    for name, parameters in _elements(accept_encoding):
        quality = _quality(parameters)
        if name and quality is not None:
            qualities.setdefault("gzip" if name == "x-gzip" else name, quality)
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def _elements(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the elements `name; parameter=value; ...`; names become lower case, quotes around values are removed."""
    for text in header.split(",") if len(header) <= MAX_ACCEPT_LENGTH else ():
        name, *rest = text.split(";")
        pairs = [parameter.partition("=") for parameter in rest]
        yield name.strip().lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}


def _quality(parameters: Mapping[str, str]) -> float | None:
    """Return the q-value: 1 by default, None if it is not a number in 0..1."""
    text = parameters.get("q", "1")
    if not text.replace(".", "", 1).isdecimal() or not text.isascii():
        return None
    quality = float(text)
    return quality if quality <= 1 else None
