from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.model.clocks import Unix
from pulsed.model.raw_tick import KernelEvent
from pulsed.reader.kernel_log.line_formats import Now
from pulsed.reader.kernel_log.log_text import MAX_LINE_LENGTH, LogText

NOW = Now(Unix(1_700_001_000.0), 1000.0)
XID = b"[  900.0] NVRM: Xid (PCI:0000:3b:00): 79\n"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_lines_in_parts() -> None:
    text, found = LogText(), []
    for at in range(len(XID) * 3):
        found += text.feed((XID * 3)[at : at + 1], NOW)
    assert [(event.code, event.time) for event in found] == [(79, 1_700_000_900.0)] * 3


LOSS = ("NVRM: The NVIDIA GPU 0000:3b:00.0", "NVRM: (PCI ID: 10de:26b5) installed in this system has")
LOST = "NVRM: fallen off the bus and is not responding to commands."
LOSS_AT = (
    "NVRM: The NVIDIA GPU 0000:3b:00.0 NVRM: (PCI ID: 10de:26b5) installed in this system has NVRM: fallen off the bus"
)
OPEN_MODULES = ("NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:26b5)", "NVRM: responding to commands.")


def feed_whole_and_in_lines(data: bytes) -> list[KernelEvent]:
    """Return the events of a text, which are the same line by line."""
    whole, lines = LogText().feed(data, NOW), LogText()
    assert [event for line in data.splitlines(keepends=True) for event in lines.feed(line, NOW)] == whole
    return whole


@pytest.mark.parametrize(
    ("prefix", "next_prefix"),
    [
        ("[  900.000000] ", "               "),  # dmesg
        ("[  900.000000] ", "\t"),
        ("[Tue Nov 14 22:28:20 2023] ", "                           "),  # dmesg -T
        ("2023-11-14T22:28:20,000000+00:00 ", "                                 "),
        ("Nov 14 22:28:20 node-e kernel: ", "                               "),  # journalctl -o short
        ("2023-11-14T22:28:20+0000 node-e kernel: ", "                                        "),
        ("[  900.000000] ", "[  900.000000] "),  # syslog(2), as of dmesg of busybox
        ("Nov 14 22:28:20 node-e kernel: [  900.000000] ", "Nov 14 22:28:20 node-e kernel: [  900.000000] "),
    ],
)
def test_a_message_of_several_lines(prefix: str, next_prefix: str) -> None:
    first, second = LOSS
    before, after = f"{prefix}nvidia: module loaded\n", f"{prefix}nvidia: probe of 0000:3b:00.0 failed with error -1\n"
    message = f"{prefix}{first}\n{next_prefix}{second}\n{next_prefix}{LOST}\n"
    (event,) = feed_whole_and_in_lines(f"{before}{message}{after}".encode())
    assert event == KernelEvent("bus_loss", 79, event.time, "00000000:3B:00.0", text=LOSS_AT)
    assert event.time == pytest.approx(1_700_000_900.0)
    first, last = OPEN_MODULES
    message = (
        f"{prefix}{first}\n{next_prefix}NVRM: installed in this system has fallen off the bus\n{next_prefix}{last}\n"
    )
    (event,) = feed_whole_and_in_lines(f"{before}{message}{after}".encode())
    assert (event.kind, event.pci_bus_id) == ("bus_loss", "00000000:3B:00.0")


@pytest.mark.parametrize(
    "lines",
    [
        # Lines of another program, or of another part of the kernel, end the message.
        (f"host kernel: {LOSS[0]}", f"host ann: {LOSS[1]}", f"  {LOST}"),
        (f"host kernel: {LOSS[0]}", "host ann: hello", f"  {LOST}"),
        (f"host kernel: {LOSS[0]}", "host kernel: usb 1-1: new device", f"  {LOST}"),
        (f"host ann: {LOSS[0]}", f"  {LOSS[1]}", f"  {LOST}"),
        (f"host kernel: usb 1-1: {LOSS[0]}", f"  {LOSS[1]}", f"  {LOST}"),
        ("host ann: hello", "  NVRM: Xid (PCI:0000:3b:00): 79"),
        (
            "host kernel: NVRM: GPU at PCI:0000:3b:00: GPU-b6c3b2be",
            "host ann: hello",
            "host kernel: NVRM: fallen off the bus",
        ),
    ],
)
def test_lines_that_do_not_belong_to_a_message(lines: tuple[str, ...]) -> None:
    text = "\n".join([line if line.startswith(" ") else f"Nov 14 22:28:20 {line}" for line in lines]) + "\n"
    assert feed_whole_and_in_lines(text.encode()) == []


def test_a_line_that_names_a_gpu_is_of_that_gpu() -> None:
    lines = (
        "NVRM: GPU at PCI:0000:3b:00: GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b",
        "NVRM: GPU Board Serial Number: 1653723052734",
        "NVRM: GPU 0000:4b:00.0: GPU has fallen off the bus.",
        "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
    )
    (event,) = feed_whole_and_in_lines("".join([f"[  900.000000] {line}\n" for line in lines]).encode())
    assert event.pci_bus_id == "00000000:4B:00.0"


def test_lines_with_other_time_stamps_are_other_messages() -> None:
    text = f"[  900.000000] {LOSS[0]}\n[  900.000001] {LOST}\n"
    assert feed_whole_and_in_lines(text.encode()) == []


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
        b"[  900.0] NVRM: The NVIDIA GPU 0000:3b:00.0\n" + b" NVRM: x\n" * 1000,
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
    long = XID.rstrip() + b", " + b"x" * (3 * MAX_LINE_LENGTH)
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
            b"NVRM: The NVIDIA GPU 0000:3b:00.0\n",
            b" NVRM: fallen off the bus\n",
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
