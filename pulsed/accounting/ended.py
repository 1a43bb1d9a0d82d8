"""The accounts of owners that have ended, in bounded memory."""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator

from pulsed.accounting.account import OwnerAccount
from pulsed.accounting.saved_account import dump_account, load_account
from pulsed.json_text import json_text
from pulsed.model.owner import Owner

MAX_ENDED = 1000
MAX_ENDED_BYTES = 4 * 2**20

_Key = tuple[str, str, float]


class EndedAccounts:
    """The last owners that have ended, compressed: some 700 bytes for each GPU of an owner."""

    def __init__(self, max_ended: int = MAX_ENDED, max_bytes: int = MAX_ENDED_BYTES) -> None:
        self._max_ended, self._max_bytes = max_ended, max_bytes
        self._kept: OrderedDict[_Key, tuple[Owner, float, bytes]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of accounts that are kept."""
        return len(self._kept)

    def add(self, account: OwnerAccount) -> bytes:
        """Keep an account that has ended, and drop the oldest ones beyond the limits; return it as a line of JSON."""
        line = json_text(dump_account(account)).encode()
        self._keep(account, line)
        return line

    def has(self, account: OwnerAccount) -> bool:
        """Return whether an account is kept as one that ended no earlier than this one was seen."""
        kept = self._kept.get(_key(account))
        return kept is not None and account.last_seen <= kept[1]

    def load(self, line: bytes) -> None:
        """Keep an account of an earlier run.

        Raises:
            ValueError: the line is not an account that has ended.
        """
        try:
            account = load_account(json.loads(line))
        except RecursionError:
            raise ValueError("not an account: nested too deep") from None
        if account.end is None:
            raise ValueError("it has not ended")
        self._keep(account, line)

    def find(self, matches: Callable[[Owner, float], bool] = lambda owner, end: True) -> Iterator[OwnerAccount]:
        """Return the accounts whose owner and end match, the newest end first.

        They are found at once and unpacked one by one, which takes some 100 us each, also in another thread.
        """
        found = [packed for owner, end, packed in reversed(self._kept.values()) if matches(owner, end)]
        return (load_account(json.loads(zlib.decompress(packed))) for packed in found)

    def _keep(self, account: OwnerAccount, line: bytes) -> None:
        packed = zlib.compress(line, 1)
        key = _key(account)
        self._drop(key)
        self._kept[key] = (account.owner, account.end or account.last_seen, packed)
        self._bytes += len(packed)
        while len(self._kept) > self._max_ended or (self._bytes > self._max_bytes and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def _drop(self, key: _Key) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= len(old[2])


def _key(account: OwnerAccount) -> _Key:
    return (*account.owner.key, account.begin)
