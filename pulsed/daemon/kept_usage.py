"""Rows of `/report` of the accounts in files: each account is read once, and its file's sums are kept.

Only files that a time cuts in two are read again. Reading stops when it takes too long; the sums of the files that were
read by then are kept, so that the next request continues there.
"""

from __future__ import annotations

import json
import logging
import zlib
from array import array
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import get_args

from pydantic import TypeAdapter

from pulsed.json_text import json_bytes
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.saved_accounts import account_key, ended_account
from pulsed.owners.report.usage import SUMS, GroupBy
from pulsed.present.api.account_lookup import AccountDigests, Check, digest
from pulsed.present.api.usage_documents import NO_USAGE, Usage, UsageSums
from pulsed.regular_file import open_regular, read_regular, replace_file

log = logging.getLogger(__name__)

GROUPINGS: Sequence[GroupBy] = get_args(GroupBy)


@dataclass(slots=True)
class _FileSums:
    """Sums of one file.

    Attributes:
        inode, end: the file, and the bytes of it that were read.
        keys: digests of its accounts, sorted.
        superseded: keys that are newer elsewhere, and not in the sums.
        first_end: the earliest end of an account, in Unix seconds.
        packed: rows of each grouping, the worst jobs and the GPUs, each compressed.
    """

    inode: int
    end: int
    keys: array[int] = field(default_factory=lambda: array("Q"))
    superseded: frozenset[int] = frozenset()
    first_end: float = float("inf")
    packed: dict[str, bytes] = field(default_factory=dict)

    def usage(self, by: GroupBy) -> Usage:
        """Return the sums by a grouping, without costs."""
        if not self.packed:
            return NO_USAGE
        return Usage(*(json.loads(zlib.decompress(self.packed[part])) for part in (by, "worst", "gpus")))

    def dump(self) -> Mapping[str, object]:
        """Return the sums for a file."""
        packed = {part: b64encode(data).decode() for part, data in self.packed.items()}
        return {
            "inode": self.inode,
            "end": self.end,
            "first_end": self.first_end,
            "keys": b64encode(self.keys.tobytes()).decode(),
            "packed": packed,
            "superseded": list(self.superseded),
        }


@dataclass(frozen=True, slots=True)
class _SavedSums:
    """Sums as `_FileSums.dump` returns them."""

    inode: int
    end: int
    first_end: float
    keys: str
    packed: dict[str, str]
    superseded: list[int]

    def load(self) -> _FileSums:
        """Return the sums. Raises ValueError."""
        keys = array("Q", b64decode(self.keys, validate=True))
        packed = {part: b64decode(text) for part, text in self.packed.items()}
        sums = _FileSums(self.inode, self.end, keys, frozenset(self.superseded), self.first_end, packed)
        for by in GROUPINGS:
            sums.usage(by)
        return sums


_SAVED = TypeAdapter(list[_SavedSums])

FILE_NAME = "report-sums.json"
MAX_BYTES = 64 * 2**20


class KeptUsage:
    """Sums of the accounts in files.

    Args:
        paths: returns the files with accounts since a Unix time, and some older ones, the oldest first.
        here: this process's node.
        folder: where the sums of files to which nothing is added are kept over a restart; None: nowhere.
    """

    def __init__(self, paths: Callable[[float], Sequence[Path]], here: str, folder: Path | None = None) -> None:
        self._paths, self._here = paths, here
        self._file = None if folder is None else folder / FILE_NAME
        self._sums: dict[int, _FileSums] = {}  # by inode: a file may get another name
        self._saved: frozenset[tuple[int, int]] = frozenset()
        self._lock = Lock()

    def load(self) -> None:
        """Use the sums of an earlier run; those that are not valid are computed again."""
        if self._file is None or not self._file.exists():
            return
        try:
            saved = json.loads(read_regular(self._file, MAX_BYTES, follow_links=False))
            if saved["format"] == _FORMAT:
                sums = [each.load() for each in _SAVED.validate_python(saved["files"])]
                self._sums = {each.inode: each for each in sums}
                self._saved = frozenset((each.inode, each.end) for each in sums)
        except (OSError, ValueError, TypeError, KeyError, BinasciiError, zlib.error, RecursionError) as error:
            log.warning("the sums of reports cannot be used", extra={"path": str(self._file), "error": str(error)})

    def refresh(self, newer: AccountDigests, check: Check) -> None:
        """Read accounts that were added to the files, and save the sums of past days.

        Args:
            newer: digests of accounts outside the files; digests of accounts in the files are added.
            check: called for each account; an exception from it ends the reading.

        Raises:
            OSError: a file cannot be read or written.
        """
        past = list[_FileSums]()
        for path in reversed(self._paths(0.0)):
            with self._lock:
                sums = self._of_file(path, newer, check)
                self._sums[sums.inode] = sums
            newer.add(sums.keys)
            past.append(sums)
        kept = [each for each in past[1:] if each.keys]
        names = frozenset((each.inode, each.end) for each in kept)
        if self._file is not None and names != self._saved:
            replace_file(self._file, json_bytes({"format": _FORMAT, "files": [each.dump() for each in kept]}))
            self._saved = names

    def usage(self, since: float, by: GroupBy, newer: AccountDigests, check: Check) -> Usage:
        """Return the sums of the accounts that have not ended before a Unix time, without costs.

        Args:
            newer: digests of accounts that are elsewhere; the digests of all files are added.
            check: called often; an exception that it raises ends the reading.
        """
        paths = self._paths(since)
        read = set[int]()
        total = NO_USAGE
        for path in reversed(paths):
            try:
                with self._lock:
                    sums = self._of_file(path, newer, check)
                    self._sums[sums.inode] = sums
                read.add(sums.inode)
                if sums.first_end >= since:
                    part = sums.usage(by)
                else:
                    only = UsageSums((by,), self._here)
                    for account in _accounts(path, 0, sums.end, check):
                        if (account.end or 0.0) >= since and digest(account_key(account)) not in newer:
                            only.add(account)
                    part = only.usage(by)
            except OSError:  # it was removed, or cannot be read, which is logged where it is written
                continue
            newer.add(sums.keys)
            total = total.plus(part, by)
        if paths == self._paths(0.0):
            with self._lock:
                self._sums = {inode: sums for inode, sums in self._sums.items() if inode in read}
        return total

    def _of_file(self, path: Path, newer: AccountDigests, check: Check) -> _FileSums:
        """Return the sums of a file; only its end is read if the rest is known."""
        status = path.lstat()
        sums = self._sums.get(status.st_ino)
        is_known = sums is not None and sums.end <= status.st_size
        if sums is not None and is_known and sums.superseded == newer.intersection(sums.keys):
            if sums.end == status.st_size:
                return sums
            if (longer := self._read(path, sums, status.st_size, newer, check)) is not None:
                return longer
        whole = self._read(path, _FileSums(status.st_ino, 0), status.st_size, newer, check)
        if whole is None:  # an account of it is in it twice
            whole = self._read_backwards(path, _FileSums(status.st_ino, 0), status.st_size, newer, check)
        return whole

    def _read(self, path: Path, before: _FileSums, end: int, newer: AccountDigests, check: Check) -> _FileSums | None:
        """Return the sums with what follows in the file; None if an account follows that is among them already."""
        added, keys, superseded = UsageSums(GROUPINGS, self._here), set(before.keys), set(before.superseded)
        first_end = before.first_end
        for account in _accounts(path, before.end, end, check):
            key = digest(account_key(account))
            if key in keys:
                return None
            keys.add(key)
            first_end = min(first_end, account.end or 0.0)
            if key in newer:
                superseded.add(key)
            else:
                added.add(account)
        return _FileSums(
            before.inode, end, array("Q", sorted(keys)), frozenset(superseded), first_end, _packed(before, added)
        )

    def _read_backwards(self, path: Path, empty: _FileSums, end: int, newer: AccountDigests, check: Check) -> _FileSums:
        """Return the sums of a file, of accounts that are in it twice the last ones."""
        last = dict[int, int]()
        for number, account in enumerate(_accounts(path, 0, end, check)):
            last[digest(account_key(account))] = number
        sums, first_end = UsageSums(GROUPINGS, self._here), empty.first_end
        for number, account in enumerate(_accounts(path, 0, end, check)):
            key = digest(account_key(account))
            first_end = min(first_end, account.end or 0.0)
            if last[key] == number and key not in newer:
                sums.add(account)
        superseded = newer.intersection(last)
        return _FileSums(empty.inode, end, array("Q", sorted(last)), superseded, first_end, _packed(empty, sums))


_FORMAT = [*GROUPINGS, *SUMS]
"""Sums by other groupings, or of other numbers, are not used."""


def _packed(before: _FileSums, added: UsageSums) -> dict[str, bytes]:
    """Return the sums with those before; one grouping after the other, since all rows at once take several MiB."""
    worst, gpus = added.worst, added.gpus
    packed = dict[str, bytes]()
    for by in GROUPINGS:
        usage = before.usage(by).plus(Usage(added.rows(by), worst, gpus), by)
        packed[by] = _compressed(usage.rows)
    return packed | {"worst": _compressed(usage.worst), "gpus": _compressed(usage.gpus)}


def _compressed(part: object) -> bytes:
    return zlib.compress(json_bytes(part), 1)


def _accounts(path: Path, begin: int, end: int, check: Check) -> Iterator[OwnerAccount]:
    """Yield the accounts between two positions of a file; invalid lines, as after a power cut, are left out."""
    with open(open_regular(path, follow_links=False), "rb") as file:
        file.seek(begin)
        while begin < end and (line := file.readline(_MAX_LINE_BYTES)):
            begin += len(line)
            check()
            try:
                yield ended_account(line)
            except ValueError:
                continue


_MAX_LINE_BYTES = 4 * 2**20
