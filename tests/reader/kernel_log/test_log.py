import os
import pty
import tty
from pathlib import Path

import pytest

from pulsed.reader.kernel_log.log import KernelLog
from pulsed.reader.tick import KernelEvent

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
        "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1700000005000000\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 48, x=1\n\n"
        "__REALTIME_TIMESTAMP=1700000006000000\nMESSAGE=other\n\n"
    )
    log = log_of(path, clock)
    assert [(event.code, event.time, event.text) for event in events(log)] == [(48, 1700000005.0, "48, x=1")]
    log.close()


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
