"""The grammar of one line of the Prometheus text format 0.0.4 and of OpenMetrics 1.0.0: the slow, complete reading.

Pure functions that parse one line; `exposition` decides which lines need them. Where the two formats or their
parsers differ this one is lax, because a re-exporter must live with what dcgm-exporter prints, and strict where a wrong
number could come out. Quoted UTF-8 metric and label names (text format 1.0.0) are read with an underscore for each
character that 0.0.4 does not have, as Prometheus escapes them for older clients.

Everything up to the closing brace of a row is checked from left to right without looking further. The caches of
`exposition` rest on that: the same text before the brace always means the same series, whatever follows.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pulsed.model.raw_tick import MAX_GPUS, Labels


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Limits of a page on the memory of its reader, in characters or pieces, not bytes.

    Attributes:
        max_gpus: GPUs and MIG instances that are new on one page; a page with more is rejected as a whole.
        max_lines: lines of one page; a page with more, or with more than `max_rejected` unreadable rows, is rejected as
            a whole.
        max_series: distinct series of one page. Rows of further series are rejected as `too_many_series`.
        spare_series, device_series: the limit of a page with few devices is the sum of both, the latter per device.
        max_label_sets, spare_label_sets, device_label_sets: the same for distinct sets of labels.
        max_line_length: name and labels of a row together (`too_long`), or a whole comment (ignored when longer).
        max_labels: labels of one row (`too_many_labels`).
        max_label_length: a label's name, or its value before unescaping (`too_long`).
    """

    max_gpus: int = MAX_GPUS
    max_lines: int = 262_144
    max_rejected: int = 8_192
    max_series: int = 131_072
    spare_series: int = 12_288
    device_series: int = 512
    max_label_sets: int = 32_768
    spare_label_sets: int = 2_048
    device_label_sets: int = 64
    max_line_length: int = 16_384
    max_labels: int = 100
    max_label_length: int = 1024

    def series(self, devices: int) -> int:
        """Return the limit of series of a page with this number of GPUs and MIG instances."""
        return min(self.max_series, self.spare_series + self.device_series * devices)

    def label_sets(self, devices: int) -> int:
        """Return the limit of label sets, in the same way."""
        return min(self.max_label_sets, self.spare_label_sets + self.device_label_sets * devices)


def limits_for(max_gpus: int) -> PageLimits:
    """Return the limits of a page that may have this number of GPUs; more of them need more series."""
    usual = PageLimits()
    factor = max(1.0, max_gpus / usual.max_gpus)
    return PageLimits(
        max_gpus=max_gpus,
        max_lines=int(factor * usual.max_lines),
        max_series=int(factor * usual.max_series),
        max_label_sets=int(factor * usual.max_label_sets),
    )


class RowRejected(Exception):
    """A row that cannot be read; `reason` is the word it is counted under."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ExpositionRow(NamedTuple):
    """One row, read.

    Attributes:
        text: the line up to, and without, the brace that closes the labels; the bare name of a row without braces.
        name: metric name as written, or escaped; `_total` stays.
        labels: in the page's order, unescaped; None for a row without braces.
        value: may be NaN or infinite.
        time: of its timestamp, in Unix seconds; None without one.
    """

    text: str
    name: str
    labels: Labels | None
    value: float
    time: float | None


class Metadata(NamedTuple):
    """A HELP or TYPE line: `kind` is the keyword, `text` the unescaped help or the type as written."""

    kind: str
    name: str
    text: str


# What float() strips from ASCII text. The separators are the same set, so that float() on everything after the brace
# and the reading below never disagree.
_SPACE = r"[ \t\r\f\v\x1c-\x1f]"
_NAME = re.compile(rf"{_SPACE}*([a-zA-Z_:][a-zA-Z0-9_:]*)({_SPACE}*)(\{{)?")
# One comma before a label or before the brace is let pass, as prometheus_client does; two are not.
_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_LABEL = re.compile(
    rf"{_SPACE}*(?:,{_SPACE}*)?(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_TEXT}){_SPACE}*={_SPACE}*{_TEXT}(?={_SPACE}*[,}}])"
)
_QUOTED_NAME = re.compile(rf"{_SPACE}*\{{{_SPACE}*{_TEXT}(?={_SPACE}*[,}}])")
_ESCAPED = re.compile(r"[^a-zA-Z0-9_:]|^(?=[0-9])")
_OWN_LABELS = frozenset(
    ("gpu", "UUID", "uuid", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname", "hostname")
)
"""What dcgm-exporter writes first in a row. Before 4.8.3 a label of the pod may repeat any label behind it."""

_CLOSE = re.compile(rf"{_SPACE}*(?:,{_SPACE}*)?\}}")
# An exemplar belongs to the row's history, not to its value: whatever follows ` #` is not looked at.
_TAIL = re.compile(rf"{_SPACE}*([!-~]+)(?:{_SPACE}+([!-\"$-~][!-~]*))?{_SPACE}*(?:(?<={_SPACE})#.*)?", re.DOTALL)
_METADATA = re.compile(
    rf"{_SPACE}*#{_SPACE}+(HELP|TYPE){_SPACE}+(?:([a-zA-Z_:][a-zA-Z0-9_:]*)|{_TEXT})(?:{_SPACE}+(.*))?", re.DOTALL
)
_LABEL_ESCAPE = re.compile(r'\\[\\n"]')
_HELP_ESCAPE = re.compile(r"\\[\\n]")
_UNESCAPED = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


def read_row(line: str, limits: PageLimits, blocks: dict[str, Labels]) -> ExpositionRow:
    """Read one row in full.

    Args:
        line: without its line feed, not a comment, not blank.
        blocks: label blocks read before, from their text to their labels. Added to. The families of a page repeat the
            same few blocks, so this halves the cost of a page seen for the first time, and its memory.

    Raises:
        RowRejected: with the reason `bad_name`, `bad_labels`, `bad_value`, `bad_timestamp`, `too_long` or
            `too_many_labels`.
    """
    start = _NAME.match(line)
    if start is None:
        return _read_quoted(line, limits, blocks)
    name = sys.intern(start[1])
    if start[3] is None:
        if not start[2]:
            # Nothing follows the name, or something that no name may hold.
            raise RowRejected("bad_value" if start.end() == len(line) else "bad_name")
        if len(name) > limits.max_line_length:
            raise RowRejected("too_long")
        return ExpositionRow(name, name, None, *read_tail(line[start.end() :]))
    return _read_block(line, name, start.end(), limits, blocks)


def _read_quoted(line: str, limits: PageLimits, blocks: dict[str, Labels]) -> ExpositionRow:
    """Read a row whose name is in quotes, before the labels."""
    quoted = _QUOTED_NAME.match(line)
    if quoted is None or not quoted[1]:
        raise RowRejected("bad_name")
    if len(quoted[1]) > limits.max_label_length:
        raise RowRejected("too_long")
    return _read_block(line, _escaped(quoted[1]), quoted.end(), limits, blocks)


def _read_block(line: str, name: str, opened: int, limits: PageLimits, blocks: dict[str, Labels]) -> ExpositionRow:
    """Read a row from its labels on, which begin at a position of the line."""
    closed = line.rfind("} ")
    labels = blocks.get(line[opened:closed]) if closed >= opened else None
    if labels is None:
        labels, closed = _read_labels(line, opened, limits)
        blocks[line[opened:closed]] = labels
    if closed > limits.max_line_length:
        raise RowRejected("too_long")
    return ExpositionRow(line[:closed], name, labels, *read_tail(line[closed + 1 :]))


def _read_labels(line: str, position: int, limits: PageLimits) -> tuple[Labels, int]:
    """Return the labels from just behind the opening brace, and where the closing one stands."""
    labels: dict[str, str] = {}
    ambiguous: set[str] = set()
    while label := _LABEL.match(line, position):
        name, value = label[1] or (label[2] and _escaped(label[2])), label[3]
        if not name or name.startswith("__"):  # Prometheus' own
            raise RowRejected("bad_labels")
        if len(name) > limits.max_label_length or len(value) > limits.max_label_length:
            raise RowRejected("too_long")
        if len(labels) == limits.max_labels:
            raise RowRejected("too_many_labels")
        value = _unescape(_LABEL_ESCAPE, value)
        if labels.setdefault(name, value) != value and name not in _OWN_LABELS:
            ambiguous.add(name)  # either could be the pod's label, not the exporter's
        position = label.end()
    end = _CLOSE.match(line, position)
    if end is None:
        raise RowRejected("bad_labels")
    kept = tuple([_label(name, value) for name, value in labels.items() if name not in ambiguous])
    return kept, end.end() - 1


@lru_cache(maxsize=1024)
def _label(name: str, value: str) -> tuple[str, str]:
    """Give the same object for equal labels: models, drivers and hosts are the same on many GPUs and targets."""
    return sys.intern(name), value


def read_tail(text: str) -> tuple[float, float | None]:
    """Return the value of a row, and its time in Unix seconds if it has a timestamp, from the text behind its labels.

    Timestamps are milliseconds in the text format and seconds in OpenMetrics. dcgm-exporter writes none.
    Raises `RowRejected` with the reason `bad_value` or `bad_timestamp`.
    """
    # Fast path for nearly every row; the pattern below gives the same result at three times the cost.
    before, _, after = text.strip(" ").partition(" ")
    value = read_number(before)
    if value is not None and not after:
        return value, None
    if value is not None and (time := _time_of(after)) is not None:
        return value, time
    tail = _TAIL.fullmatch(text)
    value = read_number(tail[1]) if tail is not None else None
    if tail is None or value is None:
        raise RowRejected("bad_value")
    time = _time_of(tail[2]) if tail[2] is not None else None
    if tail[2] is not None and time is None:
        raise RowRejected("bad_timestamp")
    return value, time


_MILLISECONDS = 1e11
"""Timestamps above this are in milliseconds; in seconds they would be after the year 5138."""


def _time_of(text: str) -> float | None:
    """Return a timestamp in Unix seconds; None if it is invalid."""
    number = read_number(text)
    if number is None or not math.isfinite(number):
        return None
    return number / 1000.0 if abs(number) > _MILLISECONDS else number


def read_number(text: str) -> float | None:
    """Return a number as the formats spell it, also with space around it; None for anything else.

    `Inf`, `NaN` and `Infinity` may be in any case and signed, as Go's parser reads them.
    """
    # float() also takes 1_000 and the digits of every script.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def read_metadata(line: str) -> Metadata | None:
    """Return what a comment declares; None for one that declares no HELP or TYPE, and for a broken one."""
    match = _METADATA.fullmatch(line)
    if match is None:
        return None
    kind, name, text = match[1], match[2] or _escaped(match[3]), (match[4] or "").strip()
    if kind == "TYPE" and not text:
        return None
    return Metadata(kind, sys.intern(name), sys.intern(_unescape(_HELP_ESCAPE, text) if kind == "HELP" else text))


def _escaped(quoted: str) -> str:
    """Return a name in quotes as version 0.0.4 of the format has it: `k8s.pod.name` becomes `k8s_pod_name`."""
    return sys.intern(_ESCAPED.sub("_", _unescape(_LABEL_ESCAPE, quoted)))


def _unescape(escape: re.Pattern[str], text: str) -> str:
    """Replace the format's escapes; a backslash before anything else is that backslash, as dcgm-exporter means it."""
    if "\\" not in text:
        return text
    return escape.sub(lambda match: _UNESCAPED[match[0]], text)
