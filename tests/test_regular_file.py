from __future__ import annotations

import contextlib
import errno
import os
import socket
from functools import partial
from pathlib import Path

import pytest

from pulsed import regular_file
from pulsed.regular_file import (
    FileTooLarge,
    NotRegular,
    append_lines,
    lines_from_end,
    open_regular,
    read_regular,
    replace_file,
    write_all,
)
from tests.support.full_disk import file_size_limit


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
def test_only_regular_files_are_opened_and_nothing_waits(tmp_path: Path, flags: int) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in tmp_path.iterdir():
            with pytest.raises(NotRegular, match="not a regular file") as caught:
                open_regular(path, flags)
            assert (caught.value.strerror, caught.value.filename) == ("not a regular file", str(path))


def test_links_are_followed_unless_they_must_not_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 7) == b"content"
    with pytest.raises(NotRegular):
        read_regular(tmp_path / "link", 7, follow_links=False)


def test_reading_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(FileTooLarge, match="larger than 4 bytes"):
        read_regular(path, 4)


@pytest.mark.parametrize("block", [1, 2, 5, 100])
@pytest.mark.parametrize("content", [b"", b"\n", b"one", b"one\ntwo\n\nthree\n", b"one\ntwo", b"\n\none"])
def test_lines_come_from_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, block: int) -> None:
    monkeypatch.setattr(regular_file, "_BLOCK_BYTES", block)
    (tmp_path / "file").write_bytes(content)
    assert b"\n".join(reversed(list(lines_from_end(tmp_path / "file")))) == content


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_file, "_BLOCK_BYTES", 10)
    monkeypatch.setattr(regular_file, "_MAX_LINE_BYTES", 30)
    (tmp_path / "file").write_bytes(b"x" * 100 + b"\nlast\n")
    lines = lines_from_end(tmp_path / "file")
    assert [next(lines), next(lines)] == [b"", b"last"]
    with pytest.raises(FileTooLarge):
        next(lines)


def test_descriptors_are_closed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"1234\n")
    uses = (
        partial(read_regular, limit=1),
        lambda path: list(lines_from_end(path)),
        partial(append_lines, lines=b"more\n"),
    )
    before = len(os.listdir("/proc/self/fd"))
    for path in tmp_path.iterdir():
        for use in uses:
            with contextlib.suppress(OSError):
                use(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_system_that_takes_a_part_gets_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    replace_file(tmp_path / "new", b"0123456789")
    append_lines(tmp_path / "lines", b"0123456789\n")
    append_lines(tmp_path / "lines", b"more\n")
    monkeypatch.undo()
    assert (tmp_path / "new").read_bytes() == b"0123456789"
    assert (tmp_path / "lines").read_bytes() == b"0123456789\nmore\n"


def test_a_system_that_takes_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data: 0)
    with pytest.raises(OSError, match="accepts no more bytes"):
        write_all(1, b"x")


def test_what_cannot_be_written_whole_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    with file_size_limit(6):
        for write in (replace_file, append_lines):
            with pytest.raises(OSError, match="File too large") as caught:
                write(path, b"two and three\n")
            assert caught.value.errno == errno.EFBIG
            assert [each.name for each in tmp_path.iterdir()] == ["file"]
            assert path.read_bytes() == b"one\n"


def test_a_torn_line_is_ended_before_others_follow(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntw")
    append_lines(path, b"three\n")
    append_lines(path, b"four\n")
    assert path.read_bytes() == b"one\ntw\nthree\nfour\n"
