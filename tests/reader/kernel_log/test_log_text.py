from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.reader.kernel_log.line_formats import Now
from pulsed.reader.kernel_log.log_text import LONGEST_LINE, LogText

NOW = Now(1_700_001_000.0, 1000.0)
XID = b"[  900.0] NVRM: Xid (PCI:0000:3b:00): 79\n"


def test_lines_in_parts() -> None:
    text, found = LogText(), []
    for at in range(len(XID) * 3):
        found += text.feed((XID * 3)[at : at + 1], NOW)
    assert [(event.code, event.time) for event in found] == [(79, 1_700_000_900.0)] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        b"Nov 23 03:59:01 host app[7]: name=value other=value\n",
        b"NAME=value\n",
        b"a=1" * 30,
        b"__CURSOR=x\n",
        b"_SYSTEMD_UNIT=a.service\nMESSAGE=x\n",
        b"__CURSOR=1\nX\n" + b"\xff" * 7 + b"\x7f",
        b"\0",
        b" \n",
        b"[  900.0] oom-kill: a=b\n",
    ],
)
def test_what_is_kept_of_a_long_log_is_bounded(unit: bytes) -> None:
    text, part = LogText(), unit * (2**16 // len(unit))
    text.feed(part, NOW)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(8):  # 512 KB
            text.feed(part, NOW)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 100_000


def test_the_time_for_a_line_without_an_end_grows_with_its_length() -> None:
    """It grew with the square: 40 MB took minutes."""
    text, part = LogText(), b"x" * 2**12
    started = time.process_time()
    for _ in range(10_000):
        text.feed(part, NOW)
    assert time.process_time() - started < 5.0


def test_a_line_counts_by_its_beginning() -> None:
    text = LogText()
    long = XID.rstrip() + b", " + b"x" * (3 * LONGEST_LINE)
    assert text.feed(long, NOW) == []
    (event,) = text.feed(b"\n", NOW)
    assert event.code == 79
    assert len(text.feed(XID, NOW)) == 1


def test_a_format_that_is_not_known_is_described_without_its_content() -> None:
    text = LogText()
    text.feed(b"\n continued\n-- Logs begin at Mon --\n", NOW)
    assert text.unknown == ""
    text.feed(b"23/Nov/2026 03:59 token=S3cret \x1b[31m " + b"x" * 100 + b"\n", NOW)
    assert text.unknown.startswith("00/xxx/0000 00:00 xxxxx=x0xxxx \x1b[00x xxx")
    assert len(text.unknown) == 61
    text.feed(XID, NOW)
    assert text.unknown == ""
    text.feed(b"hello\n", NOW)
    assert text.unknown == ""


def test_lines_of_a_log_that_only_look_like_fields_are_no_entry() -> None:
    text = LogText()
    forged = b"_TRANSPORT=kernel\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n"
    assert text.feed(forged, NOW) == []
    assert text.unknown


PIECES = st.sampled_from(
    [
        *(
            b"\n",
            b"\n\n",
            b" ",
            b"=",
            b"x",
            b"\0",
            b"\xff",
            b"9" * 400,
            XID,
            XID.rstrip(),
            b"Nov 23 03:59:01 h kernel: ",
        ),
        *(b"2026-11-23T03:59:01+00:00 h kernel: ", b"<3>1 2026-11-23T03:59:01Z h kernel - - - ", b"3,1,5000000,-;"),
        *(b"__CURSOR=1\n", b"__REALTIME_TIMESTAMP=1700000005000000\n", b"_TRANSPORT=kernel\n", b"_TRANSPORT=syslog\n"),
        *(
            b"MESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n",
            b"MESSAGE\n\x05\0\0\0\0\0\0\0a\n\nb\n",
            b"MESSAGE\n",
            b"\x0a" + b"\0" * 7,
        ),
        *(b"NVRM: Xid (PCI:0000:3b:00): 79", b"[Mon Nov 23 03:59:01 2026] ", b"Feb 29 00:00:00 h kernel: "),
    ]
)


@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(1, 40), max_size=20))
def test_the_parts_in_which_a_log_arrives_make_no_difference(data: bytes, sizes: list[int]) -> None:
    whole, parts = LogText(), LogText()
    expected, found, rest = whole.feed(data, NOW), [], data
    for size in sizes:
        found += parts.feed(rest[:size], NOW)
        rest = rest[size:]
    found += parts.feed(rest, NOW)
    assert found == expected
    assert parts.unknown == whole.unknown
    for event in found:
        assert 0.0 <= event.time <= NOW.wall
        assert 0 <= event.code <= 999_999
