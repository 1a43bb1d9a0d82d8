"""From a Prometheus or OpenMetrics page to values, at the cost of little more than float() per row.

The same series is never read twice: the text of a row up to its `}` names a series seen before, and the rest is a
number. A line that is new or odd is read in full by `row`, and its text remembered.

A row that cannot be read costs that row, never the page. This module depends on the format, not on any metric's
meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf

from pulsed.errors import BadPage, TooManyGpus
from pulsed.model.gpu import NOT_A_GPU
from pulsed.model.label_names import with_known_names
from pulsed.model.raw_tick import DECIMALS, Labels, Layout, RawValue, Series
from pulsed.reader.exposition.row import (
    PageLimits,
    RowRejected,
    read_metadata,
    read_number,
    read_row,
    read_tail,
)

# Pages in a row that may have less than half of the known series before these are forgotten: at the usual 15 s two and
# a half minutes, so that a pod that restarts or an exporter that comes back finds its series where they were.
FORGET_AFTER_PAGES = 10

# If a page has more series than this, and a fifth does not come, they are forgotten: series may change with each page.
KEPT_SERIES = 4096

# Texts to remember beyond a few per series, so that small pages never come near the bound.
SPARE_TEXTS = 1000

TOO_MANY_SERIES = "too_many_series"
"""The reason of rows that are rejected because the page has too many."""

OLD_SAMPLE = "old_sample"
"""The reason of rows that are rejected because of an old timestamp."""

MIN_DECIMALS = 3
"""Numbers that are printed without trailing zeros may have fewer."""

_FRACTION = re.compile(
    r"^(?:\{\")?[^\n{}\"]*(?i:_(?:ACTIVE|OCCUPANCY|RATIO))(?:\{|\",)[^\n{}]*\} [01]\.([0-9]+)\s", re.MULTILINE
)
_GROUP_LENGTH = 2**18
_MAX_INVALID_BYTES = 2**16
_LARGE_REMEDY = "Check what serves this URL; a page of very many GPUs needs source.max_gpus"


@dataclass(frozen=True, slots=True)
class Page:
    """One page, read.

    Attributes:
        layout: the series, HELP and TYPE of this target so far, in the dialect `exporter`; the same object as last time
            unless one of them is new, has changed or was forgotten.
        values: parallel to `layout.series`; None where the series is known from before and absent here. The numbers
            are the page's own: DCGM's blank values (such as 9223372036854775794) come through as numbers.
        samples: rows read on this page. 0 is what an exporter serves while it reloads its configuration.
        rejected: rows that could not be read, by reason: `bad_name`, `bad_labels`, `bad_value`, `bad_timestamp`,
            `too_long`, `too_many_labels`, `too_many_series`, `old_sample`.
    """

    layout: Layout
    values: list[RawValue]
    samples: int
    rejected: Mapping[str, int]


class PageParser:
    """Reads the pages of one target and remembers its series from page to page.

    Memory is bounded by a small multiple of the series of one page: the parser starts over when those that no longer
    come (an XID's `err_code` label moves on, a pod goes away) outnumber the live ones for `FORGET_AFTER_PAGES` pages,
    at once when they are many,
    and when the texts of lines outnumber the series by far, because spellings or comments change.
    """

    def __init__(self, limits: PageLimits = PageLimits()) -> None:  # noqa: B008 - it is frozen
        self._limits = limits
        self._layout = Layout("exporter", ())
        self._new_devices: set[int] = set()  # on the page being read
        self._before = (0, 0, 0)  # the page being read: live series, known series and label sets
        self._oldest = -inf
        self._start_over()

    def _start_over(self) -> None:
        """Forget all series; the layout stays if the next page has the same series."""
        self._layout_outdated = True
        self._series: list[Series] = []
        self._help: dict[str, str] = {}
        self._types: dict[str, str] = {}
        self._slots: dict[tuple[str, Labels], int] = {}  # by identity: name and sorted labels
        self._keyed: dict[str, int] = {}  # by text up to the closing brace
        self._bare: dict[str, int] = {}  # by name, rows without braces; apart, since `up} 1` is not `up 1`
        self._blocks: dict[str, Labels] = {}  # by text between the braces
        self._sorted: dict[Labels, Labels] = {}
        self._devices: set[int] = set()
        self._comments = {""}  # lines without new information
        self._live = 0  # rows of the last page
        self._mostly_absent_pages = 0
        self._decimals: int | None = None  # of fractions, found with each new layout

    def parse(self, page: bytes, oldest: float = -inf) -> Page:
        """Read one page; rows that cannot be read are counted, not raised.

        Args:
            page: its bytes.
            oldest: Unix seconds; rows with an older timestamp are rejected.

        Raises:
            TooManyGpus: the page has more new GPUs than the limit.
            BadPage: the text is not an exposition page: HTML, something binary, or text without one readable row; or
                all of its rows are old.
        """
        self._oldest = oldest
        if self._remembers_too_much():
            self._start_over()
        text = decoded(page)
        refuse_markup(text)
        limits = self._limits
        if (count := text.count("\n")) > limits.max_lines:
            raise BadPage(
                f"The page has {count} lines, more than the {limits.max_lines} that are allowed", _LARGE_REMEDY
            )
        self._before = (self._live, len(self._series), len(self._sorted))
        self._new_devices = set()
        values: list[RawValue] = [None] * len(self._series)
        rejected: dict[str, int] = {}
        try:
            samples = count + 1 - self._take_lines(lines_of(text), values, rejected)
        except (BadPage, TooManyGpus):
            self._start_over()
            raise
        if samples == 0 and OLD_SAMPLE in rejected:
            raise BadPage(
                f"The timestamps of all {rejected[OLD_SAMPLE]} samples are old",
                "See why what serves this page repeats old samples, and whether the clocks of both hosts agree",
            )
        if rejected and samples == 0 and not any(map(read_metadata, lines_of(text))):
            raise not_a_page(text)
        if self._layout_outdated:
            self._decimals = decimals_of(text)
        return self._finish(values, samples, rejected)

    def _take_lines(self, lines: Iterator[str], values: list[RawValue], rejected: dict[str, int]) -> int:
        """Read lines to values and reasons of rejected rows; return how many lines are not samples."""
        others = 0
        max_rejected = self._limits.max_rejected
        find, comments = self._keyed.get, self._comments
        for line in lines:
            # Whatever stands before a known text's closing brace means what it meant before (see `row`), so
            # the rest decides alone; the last `} ` of a line with an exemplar is the exemplar's, and misses.
            key, _, rest = line.rpartition("} ")
            slot = find(key)
            if slot is not None:
                if "_" not in rest and rest.isascii():
                    try:
                        values[slot] = float(rest)
                        continue
                    except ValueError:
                        pass  # a timestamp, or no number: the long way
            elif line in comments:
                others += 1
                continue
            try:
                if slot is not None:
                    values[slot] = self._current(*read_tail(rest))
                elif not self._read_line(line, values):
                    others += 1
            except RowRejected as problem:
                others += 1
                rejected[problem.reason] = rejected.get(problem.reason, 0) + 1
                if problem.reason == TOO_MANY_SERIES:
                    self._blocks.clear()  # read_row also adds rejected rows
                if rejected[problem.reason] > max_rejected:
                    raise BadPage(
                        f"More than {max_rejected} rows of the page cannot be read ({problem.reason})", _LARGE_REMEDY
                    ) from problem
        return others

    def _in_order(self, labels: Labels) -> Labels:
        """Sort labels; give the same object for all series of a GPU."""
        in_order = self._sorted.get(labels)
        if in_order is None:
            device = device_of(labels)
            if device is not None and device not in self._devices:
                self._devices.add(device)
                self._new_devices.add(device)
                if len(self._new_devices) > self._limits.max_gpus:
                    raise TooManyGpus(self._limits.max_gpus, "The page")
            if len(self._sorted) - self._before[2] >= self._limits.label_sets(len(self._devices)):
                raise RowRejected(TOO_MANY_SERIES)
            ordered = tuple(sorted(labels))
            in_order = self._sorted[labels] = labels if ordered == labels else ordered
        return in_order

    def _read_line(self, line: str, values: list[RawValue]) -> bool:
        """Read a line whose text is not known; whether it is a row. Raises RowRejected."""
        if len(line) > 2 * self._limits.max_line_length:  # a row, its value, timestamp and exemplar are shorter
            if line.startswith("#"):
                return False
            raise RowRejected("too_long")
        start = line.lstrip()[:1]
        if start in ("", "#"):
            self._read_comment(line)
            return False
        name, _, rest = line.partition(" ")
        slot = self._bare.get(name)
        value = read_number(rest) if slot is not None else None
        if slot is None or value is None:
            row = read_row(line, self._limits, self._blocks)
            value = self._current(row.value, row.time)
            slot = self._slot(row.name, row.labels or (), values)
            if row.labels is None:
                self._bare[row.text] = slot
            else:
                self._keyed[row.text] = slot
        values[slot] = value
        return True

    def _current(self, value: float, time: float | None) -> float:
        """Return the value of a row with this time. Raises `RowRejected` if that is old."""
        if time is not None and time < self._oldest:
            raise RowRejected(OLD_SAMPLE)
        return value

    def _slot(self, name: str, labels: Labels, values: list[RawValue]) -> int:
        identity = (name, self._in_order(labels))
        slot = self._slots.get(identity)
        if slot is None:
            live, earlier, _ = self._before
            if live + len(self._series) - earlier >= self._limits.series(len(self._devices)):
                raise RowRejected(TOO_MANY_SERIES)
            slot = self._slots[identity] = len(self._series)
            self._series.append(Series(name, labels))
            self._layout_outdated = True
            values.append(None)
        return slot

    def _read_comment(self, line: str) -> None:
        if len(line) > self._limits.max_line_length:
            return
        declared = read_metadata(line)
        if declared is not None:
            texts = self._help if declared.kind == "HELP" else self._types
            before = texts.get(declared.name)
            if before != declared.text:
                texts[declared.name] = declared.text
                self._layout_outdated = True
                if before is not None:
                    # An earlier line with the previous text would be new information again.
                    self._comments.clear()
                    self._comments.add("")
        self._comments.add(line)

    def _finish(self, values: list[RawValue], samples: int, rejected: Mapping[str, int]) -> Page:
        if self._layout_outdated:
            self._layout_outdated = False
            layout, series = self._layout, tuple(self._series)
            texts = dict(self._help), dict(self._types)
            if (layout.series, layout.help, layout.types, layout.decimals) != (series, *texts, self._decimals):
                self._layout = Layout("exporter", series, *texts, decimals=self._decimals)
        if samples:  # an empty page comes from an exporter that reloads, and is not evidence about its series
            self._live = samples
            self._mostly_absent_pages = self._mostly_absent_pages + 1 if len(values) > 2 * samples else 0
        return Page(self._layout, values, samples, rejected)

    def _remembers_too_much(self) -> bool:
        most_texts = 2 * len(self._series) + SPARE_TEXTS
        return (
            self._mostly_absent_pages >= FORGET_AFTER_PAGES
            or len(self._series) > max(KEPT_SERIES, 1.25 * self._live)
            or len(self._series) > 2 * self._limits.max_series
            or len(self._sorted) > min(2 * self._limits.max_label_sets, most_texts)
            or max(len(self._keyed), len(self._blocks)) > most_texts
            or max(len(self._comments), len(self._help) + len(self._types)) > 2 * most_texts
        )


def decoded(page: bytes) -> str:
    """Return the text of a page, without a byte order mark.

    Raises:
        BadPage: more than a few bytes are not UTF-8.
    """
    try:
        text = page.decode()
    except UnicodeDecodeError:
        if len(page) - len(page.decode(errors="ignore").encode()) > _MAX_INVALID_BYTES:  # 0.2 µs and 4 bytes for each
            raise _binary() from None
        # One byte of a wrong encoding must not cost the page; written out, different bytes stay different labels.
        text = page.decode(errors="backslashreplace")
    return text.removeprefix("\ufeff")


def decimals_of(text: str) -> int | None:
    """Return the decimals that all activity of a page has; None if they are as many as dcgm-exporter prints, or differ,
    as where numbers are printed without zeros at their end."""
    lengths = {len(fraction[1]) for fraction in _FRACTION.finditer(text)}
    most = max(lengths, default=0)
    return most if len(lengths) == 1 and MIN_DECIMALS <= most < DECIMALS["exporter"] else None


def lines_of(text: str) -> Iterator[str]:
    """Return the lines of a page, which are never all in memory at once if it is large."""
    return chain.from_iterable(_groups_of_lines(text))


def _groups_of_lines(text: str) -> Iterator[Sequence[str]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start + _GROUP_LENGTH)
        if end < 0:
            end = len(text)
        # The cut-off part ends a line that is too long to be read.
        # str.splitlines() would also cut at \x0b, \x85 and \u2028, which may stand inside a label.
        yield text[start : min(end, start + 2 * _GROUP_LENGTH)].split("\n")
        start = end + 1


def refuse_markup(text: str) -> None:
    """Raise `BadPage` for HTML and XML."""
    if text[:1024].lstrip().startswith("<"):
        raise BadPage(
            "The answer is an HTML or XML page, not metrics",
            "Check the URL: its path is usually /metrics, and a proxy may have answered instead",
        )


def not_a_page(text: str) -> BadPage:
    """Return the error for a text without one readable row."""
    if "\0" in text or text.startswith("\x1f\\x8b"):
        return _binary()
    return BadPage("Not one line of the answer is a metric", "Check that the target is a dcgm-exporter: curl it")


def refuse_other_exporters(layout: Layout, samples: int) -> None:
    """Raise `BadPage` for a page without a metric of DCGM: of Prometheus itself, node_exporter, or a pulsed.

    Args:
        layout: of the page, and of earlier ones: an exporter that no longer has GPUs is not another exporter.
        samples: of the page; one without samples is of an exporter that starts.
    """
    if samples and not any(series.name[:5].upper() == "DCGM_" for series in layout.series):
        raise BadPage(
            f"None of its {samples} samples comes from dcgm-exporter (DCGM_*); the first is {layout.series[0].name}",
            "Check the URL: dcgm-exporter usually has port 9400",
        )


def _binary() -> BadPage:
    return BadPage(
        "The answer is binary, not a page of metrics", "Check that it is a page of dcgm-exporter as plain text"
    )


def device_of(labels: Labels) -> int | None:
    """Return a hash of the GPU or MIG instance that labels name; None if they name none.

    `translate.identity` identifies devices by the same labels; a test holds both equal on all samples.
    """
    pairs = dict(with_known_names(labels))
    uuid, gpu = pairs.get("UUID") or pairs.get("uuid"), pairs.get("gpu")
    if not uuid and (not gpu or not NOT_A_GPU.isdisjoint(pairs)):
        return None
    node = pairs.get("Hostname") or pairs.get("hostname") or pairs.get("instance")
    return hash((node, uuid or f"gpu {gpu}", pairs.get("GPU_I_ID")))
