from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pulsed.daemon.state_file import LOCK_FILE, StateFolderInUse, locked
from tests.support.full_disk import filled, small_disk

HOLD = """
import sys
from pathlib import Path
from pulsed.daemon.state_file import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_lock_names_the_process_that_has_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with locked(folder):
        assert folder.stat().st_mode & 0o777 == 0o750
        with pytest.raises(StateFolderInUse) as caught, locked(folder):
            pass
        assert str(caught.value) == (
            f"state_dir: {folder} is in use by process {os.getpid()}. End that process, or set another state_dir: each "
            "daemon needs its own"
        )
    with locked(folder):
        pass


def test_a_process_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(StateFolderInUse, match=f"process {process.pid}\\."), locked(tmp_path):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with locked(tmp_path):
            assert (tmp_path / LOCK_FILE).read_text().split() == [str(os.getpid()), socket.gethostname()]


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "another process"), (b"\xff\n", "another process"), (b"7 gpu-2\n", "process 7 on gpu-2")],
)
def test_who_has_the_lock_may_be_on_another_host_or_unknown(tmp_path: Path, content: bytes, words: str) -> None:
    with (tmp_path / LOCK_FILE).open("wb") as file:
        file.write(content)
        file.flush()
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        with pytest.raises(StateFolderInUse, match=f"in use by {words}\\."), locked(tmp_path):
            pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF])
def test_without_locks_it_goes_on_with_a_warning(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        pass
    assert [record.message for record in caplog.records] == [
        "state_dir cannot be locked; make sure that no other pulsed uses it"
    ] * 2


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / LOCK_FILE)
    with locked(tmp_path):
        assert "cannot be locked" in caplog.text


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with locked(tmp_path / "file" / "state"):
        assert "cannot be locked" in caplog.text


def test_a_full_disk_can_be_locked(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, contextlib.ExitStack() as stack:
        with locked(disk):
            pass
        stack.enter_context(filled(disk))
        stack.enter_context(locked(disk))
        with pytest.raises(StateFolderInUse), locked(disk):
            pass
        stack.close()


def test_a_folder_that_all_can_change_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o777)
    with locked(tmp_path):
        assert "all users can change the files in state_dir" in caplog.text
