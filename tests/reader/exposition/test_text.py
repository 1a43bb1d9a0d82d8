from __future__ import annotations

import pytest

from pulsed.errors import BadPage
from pulsed.reader.exposition.parser import decoded, lines_of, not_a_page, refuse_markup


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (b"up 1\n", "up 1\n"),
        (b"\xef\xbb\xbfup 1\n", "up 1\n"),
        ('a{b="ä"} 1\n'.encode(), 'a{b="ä"} 1\n'),
        (b'a{b="\xe4"} 1\n', 'a{b="\\xe4"} 1\n'),
    ],
    ids=["plain", "byte order mark", "UTF-8", "Latin-1"],
)
def test_bytes_as_text(page: bytes, text: str) -> None:
    assert decoded(page) == text


@pytest.mark.parametrize("text", ["<html>", "\n <?xml version='1.0'?>"])
def test_markup_is_refused(text: str) -> None:
    with pytest.raises(BadPage, match="HTML or XML") as caught:
        refuse_markup(text)
    assert "/metrics" in caught.value.remedy


def test_a_page_is_not_refused() -> None:
    refuse_markup("# HELP a <b>\na 1\n")


@pytest.mark.parametrize("text", ["\n404 page not found\n", "password=hunter2", " " * 100_000, "\t" * 70_000])
def test_other_text_is_not_repeated(text: str) -> None:
    """Everybody may ask /-/ready, which has the error; a redirect may lead anywhere."""
    assert str(not_a_page(text)) == (
        "Not one line of the answer is a metric. Check that the target is a dcgm-exporter: curl it"
    )


def test_a_page_of_invalid_bytes_is_binary() -> None:
    assert len(decoded(b"\xff" * 65_536)) == 4 * 65_536
    with pytest.raises(BadPage, match="binary"):
        decoded(b"\xff" * 65_537)


@pytest.mark.parametrize("length", [0, 1, 30, 262_143, 262_144, 262_145])
def test_lines_of_a_page(length: int) -> None:
    text = "\n".join(["a 1", "x" * length, "", "b\x0b\u2028 2"]) + "\n"
    assert list(lines_of(text)) == text.split("\n")
    assert list(lines_of(text * 9)) == (text * 9).split("\n")


def test_the_end_of_an_endless_line_is_cut_off() -> None:
    lines = list(lines_of("a 1\n" + "x" * 10_000_000 + "\nb 2"))
    assert [lines[0], *lines[2:]] == ["a 1", "b 2"]
    assert 262_144 < len(lines[1]) < 1_000_000
