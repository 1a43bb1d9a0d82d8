"""Lines as rsyslog 8.2302, journalctl 252, util-linux 2.38 and the kernel write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from pulsed.model.clocks import Unix
from pulsed.reader.kernel_log.line_formats import Now, parse_line

XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
BOOT = datetime(2026, 11, 23, 3, 0, tzinfo=UTC).timestamp()
NOW = Now(Unix(BOOT + 7200.0), 7200.0)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Local time is UTC."""
    set_zone(monkeypatch, "UTC")
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def set_zone(patch: pytest.MonkeyPatch, name: str) -> None:
    patch.setenv("TZ", name)
    time.tzset()


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (f"3,1234,3541123456,-;{XID}", 3541.123456),
        (f"3,1234,3541123456,-,caller=T77;{XID}", 3541.123456),
        (f"[ 3541.123456] {XID}", 3541.123456),
        (f"<3>[ 3541.123456] {XID}", 3541.123456),
        (f"[ 3541.123456][  T77] {XID}", 3541.123456),
        (f"[Mon Nov 23 03:59:01 2026] {XID}", 3541.0),
        (f"2026-11-23T03:59:01,123456+00:00 {XID}", 3541.123456),
        (f"Nov 23 03:59:01 gpu7 kernel: [ 3541.123456] {XID}", 3541.0),
        (f"Nov 23 03:59:01 gpu7 kernel: {XID}", 3541.0),
        (f"Nov 23 03:59:01 gpu7 kernel:[ 3541.123456] {XID}", 3541.0),
        (f"<3>Nov 23 03:59:01 gpu7 kernel: {XID}", 3541.0),
        (f"Nov 23 03:59:01.123456 gpu7 kernel: {XID}", 3541.0),
        (f"2026-11-23T03:59:01.123456+00:00 gpu7 kernel: [ 3541.123456] {XID}", 3541.123456),
        (f"2026-11-23T04:59:01.123456+01:00 gpu7.example.com kernel: {XID}", 3541.123456),
        (f"2026-11-23T03:59:01Z gpu7 kernel: {XID}", 3541.0),
        (f"2026-11-23T03:59:01+0000 gpu7 kernel: {XID}", 3541.0),
        (f"<3>1 2026-11-23T03:59:01.123456+00:00 gpu7 kernel - - -  [ 3541.123456] {XID}", 3541.123456),
        (f"<3>1 2026-11-23T03:59:01.123456+00:00 gpu7 kernel - - - {XID}", 3541.123456),
    ],
)
def test_messages_of_the_kernel(line: str, seconds: float) -> None:
    found = parse_line(line)
    assert found is not None
    assert found.message == XID
    assert found.time(NOW) == pytest.approx(BOOT + seconds, abs=1e-3)


@pytest.mark.parametrize(
    "line",
    [
        f"Nov 23 03:59:01 gpu7 ann: {XID}",
        f"Nov 23 03:59:01 gpu7 ann[77]: kernel: {XID}",
        f"Nov 23 03:59:01 gpu7 sudo: kernel: {XID}",
        f"Nov 23 03:59:01 gpu7 my-kernel: {XID}",
        f"2026-11-23T03:59:01.123456+00:00 gpu7 ann: kernel: {XID}",
        f"<11>1 2026-11-23T03:59:01.123456+00:00 gpu7 kernel - - - {XID}",  # facility user
        f"<3>1 2026-11-23T03:59:01.123456+00:00 gpu7 ann - - - kernel - - - {XID}",
        f"<11>Nov 23 03:59:01 gpu7 kernel: {XID}",
        f"11,1234,3541123456,-;{XID}",  # written to /dev/kmsg by root
        f"<11>[ 3541.123456] {XID}",
    ],
)
def test_messages_of_other_programs(line: str) -> None:
    found = parse_line(line)
    assert found is not None
    assert found.message == ""


def test_a_message_of_the_kernel_may_quote_anything() -> None:
    found = parse_line(f"Nov 23 03:59:01 gpu7 kernel: [ 3541.1] oom-kill: task_memcg=/a {XID}")
    assert found is not None
    assert found.message == f"oom-kill: task_memcg=/a {XID}"


def test_line_feeds_in_a_record_are_escaped() -> None:
    found = parse_line(r"3,1,3541123456,-;NVRM: GPU\x0aNVRM: \xe2")
    assert found is not None
    assert found.message == "NVRM: GPU\nNVRM: â"


@pytest.mark.parametrize(
    "line",
    ["", "hello", XID, f"kernel: {XID}", "Nov 23 hello", "[hello] x", '{"MESSAGE":"x"}', "1764000000 gpu7 kernel: x"],
)
def test_other_lines(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    "stamp",
    [
        f"3,1,{'9' * 18},-;",
        f"[{'9' * 12}.0] ",
        "[ 7300.0] ",  # of another boot
        "2026-11-23T06:59:01+00:00 gpu7 kernel: ",  # in two hours
        "2026-13-23T03:59:01+00:00 gpu7 kernel: ",
        "9999-12-31T23:59:59-23:59 gpu7 kernel: ",
        "0001-01-01T00:00:00+23:59 gpu7 kernel: ",
        "1969-12-31T00:00:00Z gpu7 kernel: ",
        "Feb 30 03:59:01 gpu7 kernel: ",
        "Nov 23 24:00:00 gpu7 kernel: ",
        "Xxx 23 03:59:01 gpu7 kernel: ",
        "[Mon Nov 33 03:59:01 2026] ",
    ],
)
def test_times_that_are_not_plausible(stamp: str) -> None:
    found = parse_line(stamp + XID)
    assert found is not None
    assert found.message == XID
    assert found.time(NOW) is None


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000])
def test_numbers_with_too_many_digits_are_no_times(digits: str) -> None:
    for line in (f"3,1,{digits},-;{XID}", f"{digits},1,1,-;{XID}", f"[{digits}.0] {XID}", f"<{digits}>[1.0] {XID}"):
        assert parse_line(line) is None


def test_a_clock_that_is_a_little_ahead_is_now() -> None:
    found = parse_line(f"2026-11-23T05:00:30+00:00 gpu7 kernel: {XID}")
    assert found is not None
    assert found.time(NOW) == NOW.wall


@pytest.mark.parametrize(
    ("now", "line", "time"),
    [
        ("2026-11-23T05:00:00", "Nov 23 04:59:59", "2026-11-23T04:59:59"),
        ("2026-11-23T05:00:00", "Nov 24 00:00:00", "2025-11-24T00:00:00"),
        ("2027-01-01T00:00:10", "Dec 31 23:59:59", "2026-12-31T23:59:59"),
        ("2026-12-31T23:59:30", "Jan  1 00:00:10", "2026-12-31T23:59:30"),  # a clock that is a little ahead
        ("2027-03-01T00:00:00", "Feb 29 12:00:00", "2024-02-29T12:00:00"),
        ("2103-03-01T00:00:00", "Feb 29 12:00:00", "2096-02-29T12:00:00"),
    ],
)
def test_the_year_is_the_newest_that_is_not_in_the_future(now: str, line: str, time: str) -> None:
    moment, expected = (datetime.fromisoformat(f"{each}+00:00").timestamp() for each in (now, time))
    found = parse_line(f"{line} gpu7 kernel: x")
    assert found is not None
    assert found.is_local
    assert found.time(Now(Unix(moment), 1.0)) == expected


def test_time_stamps_without_a_zone_are_local(zone: pytest.MonkeyPatch) -> None:
    set_zone(zone, "Asia/Kolkata")
    for line in ("Nov 23 09:29:01 gpu7 kernel: x", "[Mon Nov 23 09:29:01 2026] x"):
        found = parse_line(line)
        assert found is not None
        assert found.time(NOW) == BOOT + 3541.0


def test_the_hour_that_daylight_saving_repeats(zone: pytest.MonkeyPatch) -> None:
    set_zone(zone, "Europe/Berlin")
    found = parse_line("Oct 25 02:30:00 gpu7 kernel: x")
    assert found is not None
    summer = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    assert found.time(Now(Unix(summer + 60.0), 1.0)) == summer
    assert found.time(Now(Unix(summer + 3660.0), 1.0)) == summer + 3600.0
