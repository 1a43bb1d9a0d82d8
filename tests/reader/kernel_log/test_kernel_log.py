import os
import pty
import time
import tty
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pulsed.model.raw_tick import KernelEvent
from pulsed.reader.kernel_log import KernelLog

RECORD = "3,1234,{},-;NVRM: Xid (PCI:0000:3b:00): {}, pid=7, name=python\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"
BOOT = 1_700_000_000.0


class Clock:
    now = 1000.0

    def uptime(self) -> float:
        return self.now

    def wall(self) -> float:
        return BOOT + self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def log_of(path: Path | str, clock: Clock) -> KernelLog:
    return KernelLog(str(path), wall=clock.wall, uptime=clock.uptime)


def events(log: KernelLog) -> list[KernelEvent]:
    found = log.poll()
    assert found is not None
    return list(found)


def test_records_of_a_file_as_it_grows(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,1,5000000,-;unrelated\n" + RECORD.format(250_000_000, 31))
    log = log_of(path, clock)
    (event,) = events(log)
    assert (event.code, event.time, event.pid, event.process) == (31, BOOT + 250.0, 7, "python")
    assert events(log) == []
    with path.open("a") as file:
        file.write(RECORD.format(300_000_000, 31)[:30])
        file.flush()
        assert events(log) == []  # half a line
        file.write(RECORD.format(300_000_000, 31)[30:])
    assert [event.time for event in events(log)] == [BOOT + 300.0]
    path.write_text(RECORD.format(1_000_000, 79))  # rotated by truncation
    assert [event.code for event in events(log)] == [79]
    log.close()


def test_lines_of_dmesg(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "dmesg"
    path.write_text("[   12.500000] NVRM: Xid (PCI:0000:3b:00): 13, 0003\n<4>[13.0] NVRM: Xid (PCI:0000:3b:00): 43\n")
    log = log_of(path, clock)
    assert [(event.code, event.time) for event in events(log)] == [(13, BOOT + 12.5), (43, BOOT + 13.0)]
    log.close()


def test_a_journal_export(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "journal"
    path.write_text(
        "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1700000005000000\n_TRANSPORT=kernel\n"
        "MESSAGE=NVRM: Xid (PCI:0000:3b:00): 48, x=1\n\n"
        "__REALTIME_TIMESTAMP=1700000006000000\nMESSAGE=other\n\n"
    )
    log = log_of(path, clock)
    assert [(event.code, event.time, event.text) for event in events(log)] == [(48, 1700000005.0, "48, x=1")]
    log.close()


@pytest.fixture
def syslog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of a log daemon, whose time stamps are local times: UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield tmp_path / "kern.log"
    monkeypatch.undo()
    time.tzset()


def line(code: int, seconds: float) -> str:
    """Return a line of rsyslog's traditional format, logged so many seconds after the boot."""
    stamp = datetime.fromtimestamp(BOOT + seconds, UTC).strftime("%b %d %H:%M:%S")
    return f"{stamp} gpu7 kernel: [{seconds:12.6f}] NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=python\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_of_a_log_daemon(syslog: Path, clock: Clock) -> None:
    syslog.write_text(line(31, 250))
    log = log_of(syslog, clock)
    assert [(event.code, event.time) for event in events(log)] == [(31, BOOT + 250.0)]
    append(syslog, line(79, 990))
    assert [event.code for event in events(log)] == [79]
    assert log.error == ""
    log.close()


PROGRAM = "Nov 14 22:14:20 gpu7 sshd[7]: Accepted publickey for ann\n"


@pytest.mark.parametrize("text", [PROGRAM + line(79, 250), line(79, 250) + PROGRAM])
def test_a_file_that_programs_log_to_is_not_used_and_neither_is_its_successor(
    syslog: Path, clock: Clock, text: str
) -> None:
    syslog.write_text(text)
    log = log_of(syslog, clock)
    assert log.poll() is None
    assert "programs also log to it, so any user can write a message of the driver" in log.error
    assert "/dev/kmsg" in log.error
    syslog.unlink()
    syslog.write_text(line(79, 260))
    assert log.poll() is None
    log.close()


def test_a_file_to_which_a_program_begins_to_log_is_used_until_then(syslog: Path, clock: Clock) -> None:
    syslog.write_text(line(31, 250))
    log = log_of(syslog, clock)
    assert [event.code for event in events(log)] == [31]
    append(syslog, PROGRAM)
    assert log.poll() is None
    log.close()


def test_a_file_that_is_gone(tmp_path: Path, clock: Clock) -> None:
    """A log daemon that replaces it leaves a gap; a longer one is an error, although the open file is still read."""
    path, kept = tmp_path / "kmsg", tmp_path / "kmsg.1"
    path.write_text(RECORD.format(250_000_000, 31))
    log = log_of(path, clock)
    assert len(events(log)) == 1
    path.rename(kept)
    assert (events(log), log.error) == ([], "")
    clock.now += 6.0
    assert events(log) == []
    assert log.error == f"{path}: the file is gone; set health.kernel_log: off if this machine has none"
    with kept.open("a") as file:
        file.write(RECORD.format(300_000_000, 43))
    assert [event.code for event in events(log)] == [43]
    assert log.error
    path.write_text(RECORD.format(310_000_000, 48))
    assert [event.code for event in events(log)] == [48]
    assert log.error == ""
    log.close()


def test_a_file_that_is_replaced(syslog: Path, clock: Clock) -> None:
    syslog.write_text(line(13, 100))
    log = log_of(syslog, clock)
    assert [event.code for event in events(log)] == [13]
    old = syslog.rename(syslog.with_suffix(".1"))
    append(old, line(31, 200))  # the log daemon does not know yet
    assert [event.code for event in events(log)] == [31]
    syslog.touch()
    append(old, line(43, 300))
    assert [event.code for event in events(log)] == [43]
    assert events(log) == []
    append(old, line(45, 400))
    append(syslog, line(48, 500))
    assert [event.code for event in events(log) + events(log)] == [45, 48]
    append(syslog, line(79, 600))
    assert [event.code for event in events(log)] == [79]
    log.close()


def test_a_file_that_is_truncated(syslog: Path, clock: Clock) -> None:
    syslog.write_text(line(13, 100) + line(31, 200)[:40])
    log = log_of(syslog, clock)
    assert [event.code for event in events(log)] == [13]
    syslog.write_text("")  # logrotate's copytruncate
    assert events(log) == []
    append(syslog, line(79, 300))
    assert [event.code for event in events(log)] == [79]
    log.close()


def test_a_log_of_an_unknown_format_is_an_error_and_no_input(syslog: Path, clock: Clock) -> None:
    syslog.write_text("23/Nov/2026 pass=S3cret NVRM: Xid (PCI:0000:3b:00): 79\n" * 3)
    log = log_of(syslog, clock)
    assert log.poll() is None
    assert log.error.startswith(f"{syslog}: the format of its lines is not known: '00/xxx/0000 xxxx=x0xxxx")
    assert "expected records of /dev/kmsg, lines of dmesg" in log.error
    assert log.poll() is None
    append(syslog, line(79, 300))
    assert [event.code for event in events(log)] == [79]
    assert log.error == ""
    log.close()


def test_an_empty_file_is_no_error(syslog: Path, clock: Clock) -> None:
    syslog.touch()
    log = log_of(syslog, clock)
    assert events(log) == []
    assert log.error == ""
    log.close()


@pytest.mark.parametrize(("hours", "age"), [(2, "8758.0"), (-8, "8.0")])  # without a year: nearly a year old
def test_time_stamps_of_another_time_zone_are_an_error(syslog: Path, clock: Clock, hours: int, age: str) -> None:
    syslog.write_text(line(13, 100))
    log = log_of(syslog, clock)
    events(log)
    append(syslog, line(79, 1000 + hours * 3600))
    log.poll()
    assert f"is {age} h old, although it is new; set TZ to the time zone of the log" in log.error
    append(syslog, line(79, 1000))
    assert [event.code for event in events(log)] == [79]
    assert log.error == ""
    log.close()


def test_a_time_stamp_in_the_future_is_an_error(syslog: Path, clock: Clock) -> None:
    syslog.write_text("2099-01-01T00:00:00+00:00 gpu7 kernel: NVRM: Xid (PCI:0000:3b:00): 79\n")
    log = log_of(syslog, clock)
    assert events(log) == []
    assert "the time stamp of its newest line is in the future" in log.error
    log.close()


def test_a_file_is_continued_after_an_error(syslog: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    syslog.write_text(line(13, 100))
    log = log_of(syslog, clock)
    assert [event.code for event in events(log)] == [13]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", failing)
        assert log.poll() is None
    append(syslog, line(79, 300))
    clock.now += 31
    assert [event.code for event in events(log)] == [79]
    log.close()


def failing(descriptor: int) -> os.stat_result:
    raise OSError(5, "Input/output error")


def test_a_device_that_has_nothing_more_does_not_block(clock: Clock) -> None:
    writer, reader = pty.openpty()
    tty.setraw(reader)
    os.set_blocking(reader, False)
    log = log_of(os.ttyname(reader), clock)
    assert events(log) == []
    os.write(writer, RECORD.format(1_000_000, 79).encode())
    assert [event.code for event in events(log)] == [79]
    assert events(log) == []
    log.close()
    os.write(writer, RECORD.format(1_000_000, 79).encode())  # opened again, a device begins with what was read before
    assert events(log) == []
    log.close()
    os.close(writer)
    os.close(reader)


def test_a_log_that_cannot_be_read_is_tried_again(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "kmsg"
    log = log_of(path, clock)
    assert log.poll() is None
    assert log.error.startswith(f"{path}: No such file or directory")
    path.write_text(RECORD.format(1_000_000, 79))
    assert log.poll() is None
    clock.now += 31
    assert [event.code for event in events(log)] == [79]
    assert log.error == ""
    log.close()
    log.close()
