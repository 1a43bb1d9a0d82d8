"""A transport without a socket, and the event loop of the targets that have connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

LOOP = asyncio.new_event_loop()
"""One for all inputs: a loop costs more than an input."""


class FakeTransport(asyncio.Transport):
    """A connection of which the other side is the test.

    Attributes:
        sent: what the protocol has written.
        is_aborted: whether the protocol has dropped the connection.
    """

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._is_closing = self._is_lost = False
        self.sent = bytearray()
        self.is_aborted = False

    def receive(self, data: Iterable[bytes]) -> None:
        """Deliver data, as long as the protocol has not closed the connection."""
        for piece in data:
            if self._is_closing:
                return
            self._protocol.data_received(piece)

    def lose(self) -> None:
        """End the connection."""
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self.sent += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.lose)

    def abort(self) -> None:
        self.is_aborted = True
        self.close()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass
