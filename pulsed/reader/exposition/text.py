"""Decode an exporter's answer, and reject one that is not a page of metrics."""

from __future__ import annotations

from pulsed.errors import BadPage

_LARGE_REMEDY = "Check what serves this URL; a page of very many GPUs needs source.exporter.max_gpus"


def decoded(page: bytes) -> str:
    """Give the text of a page, without a byte order mark."""
    try:
        text = page.decode()
    except UnicodeDecodeError:
        # One byte of a wrong encoding must not cost the page; written out, different bytes stay different labels.
        text = page.decode(errors="backslashreplace")
    return text.removeprefix("\ufeff")


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
        return BadPage(
            "The answer is binary, not a page of metrics", "Check that it is a page of dcgm-exporter as plain text"
        )
    start = next(line for line in text.split("\n") if line.strip())[:80]
    return BadPage(
        f"Not one line of the answer is a metric; it starts with {start!r}", "Check that the target is a dcgm-exporter"
    )
