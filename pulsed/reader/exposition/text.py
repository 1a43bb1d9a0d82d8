"""Decode an exporter's answer, and reject one that is not a page of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pulsed.errors import BadPage

_GROUP_LENGTH = 2**18
_MAX_INVALID_BYTES = 2**16

_LARGE_REMEDY = "Check what serves this URL; a page of very many GPUs needs source.max_gpus"


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


def lines_of(text: str) -> Iterator[str]:
    """Return the lines of a page, which are never all in memory at once if it is large."""
    return chain.from_iterable(_groups_of_lines(text))


def _groups_of_lines(text: str) -> Iterator[Sequence[str]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start + _GROUP_LENGTH)
        if end < 0:
            end = len(text)
        # What is cut off ends a line that is too long to be read.
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


def too_many_lines(count: int, limit: int) -> BadPage:
    """Return the error for a page of more lines than are read."""
    return BadPage(f"The page has {count} lines, more than the {limit} that are allowed", _LARGE_REMEDY)


def too_many_rejected(reason: str, limit: int) -> BadPage:
    """Return the error for a page that was left half read because of its rejected rows."""
    return BadPage(f"More than {limit} rows of the page cannot be read ({reason})", _LARGE_REMEDY)


def not_a_page(text: str) -> BadPage:
    """Return the error for a text without one readable row."""
    if "\0" in text or text.startswith("\x1f\\x8b"):
        return _binary()
    start = text.lstrip()[:80].partition("\n")[0]
    return BadPage(
        f"Not one line of the answer is a metric; it starts with {start!r}", "Check that the target is a dcgm-exporter"
    )


def _binary() -> BadPage:
    return BadPage(
        "The answer is binary, not a page of metrics", "Check that it is a page of dcgm-exporter as plain text"
    )
