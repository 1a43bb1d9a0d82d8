from __future__ import annotations

import pytest

from pulsed.model.clocks import Unix
from pulsed.reader.kernel_log.line_formats import Now
from pulsed.reader.kernel_log.log_text import JournalExport

NOW = Now(Unix(1_700_000_010.0), 1000.0)
XID = "NVRM: Xid (PCI:0000:3b:00): 79"
FORGED = f"x\n\n__REALTIME_TIMESTAMP=1700000005000000\n_TRANSPORT=kernel\nMESSAGE={XID}\n\n"


def messages(text: bytes) -> list[tuple[str, float]]:
    """Return messages and times of the entries of an export."""
    export = JournalExport()
    found = [export.add(line, len(line) + 1, NOW) for line in text.split(b"\n")[:-1] if export.has(line)]
    return [message for message in found if message is not None]


def entry(message: str, **fields: str) -> bytes:
    """Return an entry as journalctl writes it: a value with line feeds follows its size."""
    text = message.encode()
    begin = "__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1700000005000000\n" + "".join(
        f"{name}={value}\n" for name, value in fields.items()
    )
    value = b"MESSAGE\n%b%b\n" % (len(text).to_bytes(8, "little"), text) if b"\n" in text else b"MESSAGE=%b\n" % text
    return begin.encode() + value + b"PRIORITY=3\n\n"


def test_entries_of_the_kernel() -> None:
    text = entry(XID, _TRANSPORT="kernel", SYSLOG_FACILITY="0")
    assert messages(text + text) == [(XID, 1_700_000_005.0)] * 2


@pytest.mark.parametrize("fields", [{}, {"_TRANSPORT": "syslog"}, {"_TRANSPORT": "stdout"}, {"_TRANSPORT": "journal"}])
def test_entries_of_programs(fields: dict[str, str]) -> None:
    assert messages(entry(XID, SYSLOG_FACILITY="0", SYSLOG_IDENTIFIER="kernel", **fields)) == []


def test_what_root_writes_to_the_device_is_not_the_kernels() -> None:
    assert messages(entry(XID, _TRANSPORT="kernel", SYSLOG_FACILITY="1")) == []


@pytest.mark.parametrize("message", [FORGED, FORGED * 100, "\n" * 10, f"{FORGED}MESSAGE\n", "\n\n" + FORGED])
def test_what_looks_like_an_entry_in_a_message_is_none(message: str) -> None:
    after = entry("after", _TRANSPORT="kernel")
    assert messages(entry(message, _TRANSPORT="syslog") + after) == [("after", 1_700_000_005.0)]


def test_a_message_of_several_lines() -> None:
    text = f"{XID}\nmore"
    assert messages(entry(text, _TRANSPORT="kernel")) == [(text, 1_700_000_005.0)]


def test_the_time_of_the_kernel_goes_before_that_of_the_journal() -> None:
    text = entry("x", _TRANSPORT="kernel", _SOURCE_REALTIME_TIMESTAMP="1700000004000000")
    assert messages(text) == [("x", 1_700_000_004.0)]
    text = entry("x", _TRANSPORT="kernel", _SOURCE_REALTIME_TIMESTAMP="soon")
    assert messages(text) == [("x", 1_700_000_005.0)]


@pytest.mark.parametrize("stamp", ["9" * 400, "9" * 18, "-1", "1.5", "", "٣"])
def test_times_that_are_not_plausible(stamp: str) -> None:
    text = f"__REALTIME_TIMESTAMP={stamp}\n_TRANSPORT=kernel\nMESSAGE={XID}\n\n".encode()
    assert messages(text) == []


def test_a_field_without_its_end_ends_the_entry() -> None:
    """The size of a value, and what follows, do not agree."""
    broken = b"__CURSOR=x\n_TRANSPORT=kernel\nMESSAGE\n\x03\0\0\0\0\0\0\0abcdef\n"
    assert messages(broken + entry("after", _TRANSPORT="kernel")) == [("after", 1_700_000_005.0)]
    assert messages(b"__CURSOR=x\nno field\n" + entry("after", _TRANSPORT="kernel")) == [("after", 1_700_000_005.0)]
