"""The file of a record: gone on with wherever it broke off, and never at the cost of what is there."""

from __future__ import annotations

import gzip
import os
import random
import threading
import zlib
from pathlib import Path

import pytest

from pulsed.reader import record_file as record_file
from pulsed.reader.record_file import RecordFailed, open_record
from pulsed.reader.replay.recording import open_bytes

MEMBER_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The gzip header that pulsed writes: no time, no name, unknown system."""


def lines(count: int, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return [b"%d %d\n" % (n, rng.randrange(10**12)) for n in range(count)]


def write(path: Path, some: list[bytes], flush_every: int = 3) -> None:
    file = open_record(str(path))
    for number, line in enumerate(some):
        file.write(line)
        if number % flush_every == 0:
            file.flush()
    file.close()
    file.close()


def readable(path: Path) -> bytes:
    """What a reader gets before the data ends or breaks off."""
    found = b""
    if path.stat().st_size:
        with open_bytes(path) as file:
            try:
                while some := file.read(1):
                    found += some
            except (EOFError, gzip.BadGzipFile):  # the latter: one byte of a member
                pass
    return found


@pytest.mark.parametrize("name", ["record", "record.gz"])
def test_lines_are_added_and_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for seed in range(3):
        write(path, lines(7, seed))
    assert readable(path) == b"".join(lines(7, 0) + lines(7, 1) + lines(7, 2))
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


@pytest.mark.parametrize("member", [60, 200, 10**6])
@pytest.mark.parametrize("name", ["record", "record.gz"])
def test_wherever_it_broke_off_it_can_be_gone_on_with(
    tmp_path: Path, name: str, member: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_file, "MEMBER_BYTES", member)
    whole = tmp_path / f"whole-{name}"
    write(whole, lines(12))
    data, path = whole.read_bytes(), tmp_path / name
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        before = b"" if data[:cut] == b"\x1f" else readable(path)  # half of what tells gzip data
        write(path, [b"more\n"])
        after = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        assert after.startswith(before)
        assert after[len(before) :] in (b"more\n", b"\nmore\n")
        assert b"\nmore\n" in b"\n" + after


def test_it_may_break_off_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "MEMBER_BYTES", 150)
    path, rng = tmp_path / "record.gz", random.Random(4)
    before = b""
    for seed in range(60):
        write(path, lines(rng.randrange(1, 9), seed))
        data = path.read_bytes()
        assert gzip.decompress(data).startswith(before)
        path.write_bytes(data[: len(data) - rng.randrange(25)])
        before = readable(path)
    assert len(before) > 1000


def test_what_was_flushed_can_be_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "record.gz"
    file = open_record(str(path))
    file.write(b"one\n")
    assert readable(path) == b""
    file.flush()
    assert readable(path) == b"one\n"
    size = path.stat().st_size
    file.flush()  # nothing new costs nothing
    assert path.stat().st_size == size
    file.close()
    assert gzip.decompress(path.read_bytes()) == b"one\n"


def test_a_plain_line_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "record"
    file = open_record(str(path))
    file.write(b"one\n")
    assert path.read_bytes() == b"one\n"
    file.close()


def test_members_are_ended_before_they_are_too_long_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "MEMBER_BYTES", 1000)
    monkeypatch.setattr(record_file, "TAIL_BYTES", 2000)
    path = tmp_path / "record.gz"
    some = lines(1000)
    write(path, some)
    data = path.read_bytes()
    assert len(data) > 4000
    path.write_bytes(data[:-30])
    write(path, [b"more\n"])
    text = gzip.decompress(path.read_bytes())
    assert text.startswith(b"".join(some[:-20]))
    assert text.endswith(b"\nmore\n")


def test_the_content_says_whether_it_is_gzipped_not_the_name(tmp_path: Path) -> None:
    write(tmp_path / "one.gz", [b"one\n"])
    (tmp_path / "one.gz").rename(tmp_path / "one")
    write(tmp_path / "one", [b"two\n"])
    assert gzip.decompress((tmp_path / "one").read_bytes()) == b"one\ntwo\n"
    (tmp_path / "plain.gz").write_bytes(b"one\n")
    write(tmp_path / "plain.gz", [b"two\n"])
    assert (tmp_path / "plain.gz").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b"one\n", mtime=0), "not gzipped by pulsed"),
        (MEMBER_HEAD + zlib.compress(b"one\n")[2:-4] + b"wrong check", "damaged"),
        (MEMBER_HEAD + b"\xff" * 40, "damaged"),
    ],
)
def test_gzip_data_that_cannot_be_gone_on_with_is_left_alone(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "record.gz"
    path.write_bytes(data)
    with pytest.raises(RecordFailed, match=words):
        open_record(str(path))
    assert path.read_bytes() == data


def test_only_one_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "record")
    first = open_record(path)
    with pytest.raises(RecordFailed, match="another process"):
        open_record(path)
    first.close()
    open_record(path).close()


@pytest.mark.parametrize("name", ["", "missing/record", ".", "zero\0byte"])
def test_names_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordFailed):
        open_record(str(tmp_path / name) if name else "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("name", ["full", "full.gz"])
def test_a_full_disk_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.symlink_to("/dev/full")
    file = open_record(str(path))

    def add() -> None:
        file.write(b"one\n")
        file.flush()

    with pytest.raises(RecordFailed, match="No space left on device"):
        add()
    file.close()  # tries nothing more


def test_a_pipe_with_a_reader_that_goes(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    heard: list[bytes] = []
    go = threading.Event()

    def listen() -> None:
        with path.open("rb") as pipe:
            heard.append(pipe.readline())
        go.set()

    listener = threading.Thread(target=listen)
    listener.start()
    file = open_record(str(path))
    file.write(b"one\n")
    assert go.wait(30)
    listener.join()
    with pytest.raises(BrokenPipeError):
        file.write(b"two\n")
    file.close()
    assert heard == [b"one\n"]
