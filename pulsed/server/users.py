"""HTTP basic authentication. The time of a check does not depend on whether the user exists.

bcrypt is slow on purpose (some 50 ms at cost 10): it runs in a thread, one at a time, and
its results are cached under a keyed digest, so that a scraper pays once. An unknown name takes as long as a known one.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping

from pulsed.lane import Lane
from pulsed.present.asgi import Client

KEPT = 100
"""Answers of bcrypt that are remembered, right and wrong ones apart; exporter-toolkit keeps as many."""

MAX_WAITING_LOGINS, MAX_PER_CLIENT, PATIENCE_SECONDS = 128, 8, 10.0
"""Requests that may wait for bcrypt at once, of all clients and of one, and how long; others have to come again."""

MAX_PASSWORD_BYTES = 72
"""bcrypt takes no more; Go compares these, and so must we (newer bcrypt refuses instead)."""


class Users:
    """The users of one configuration: bcrypt hashes by name."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {name.encode(): text.encode() for name, text in hashes.items()}
        # Checked for unknown names, always in vain: the most expensive hash.
        self._decoy = max(self._hashes.values(), key=lambda text: text[4:6])
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._turns = Lane(PATIENCE_SECONDS, MAX_WAITING_LOGINS, MAX_PER_CLIENT)

    def cached(self, authorization: bytes) -> bool | None:
        """Return the cached result for a header `Authorization`; None if it is not cached."""
        digest = self._digest(authorization)
        for kept, answer in ((self._right, True), (self._wrong, False)):
            if digest in kept:
                kept.move_to_end(digest)
                return answer
        return None

    async def check(self, authorization: bytes, client: Client) -> bool:
        """Return whether a header `Authorization` names a user with their password.

        Args:
            client: who sent it.

        Raises:
            LaneFull: too many logins wait.
        """
        credentials = _credentials(authorization)
        if credentials is None:
            return False
        await self._turns.acquire(client.network, client.is_gone)
        try:
            if (answer := self.cached(authorization)) is None:  # the same may have waited ahead
                answer = await asyncio.to_thread(self._matches, *credentials)
                _keep(self._right if answer else self._wrong, self._digest(authorization))
            return answer
        finally:
            self._turns.release()

    def _matches(self, name: bytes, password: bytes) -> bool:
        import bcrypt  # 0.4 MB, which a daemon without users saves

        hashed = self._hashes.get(name)
        matches = bcrypt.checkpw(password[:MAX_PASSWORD_BYTES], hashed or self._decoy)
        return matches and hashed is not None

    def _digest(self, authorization: bytes) -> bytes:
        return hashlib.blake2b(authorization, key=self._key, digest_size=32).digest()


def _keep(kept: OrderedDict[bytes, None], digest: bytes) -> None:
    kept[digest] = None
    if len(kept) > KEPT:
        kept.popitem(last=False)


def _credentials(authorization: bytes) -> tuple[bytes, bytes] | None:
    """Name and password of `Basic …` (RFC 7617); None: it is something else."""
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    return (name, password) if colon else None
