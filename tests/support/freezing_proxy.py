"""A TCP proxy that can freeze: it accepts connections, keeps them open, and forwards nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class FreezingProxy:
    """Forwards connections to a port of this machine.

    Attributes:
        port: where it listens.
    """

    def __init__(self, to: int) -> None:
        self._to, self._tasks = to, set[asyncio.Task[None]]()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0

    def freeze(self) -> None:
        """Forward nothing on any connection."""
        self._flowing.clear()

    def freeze_open(self) -> None:
        """Forward nothing on the connections that are open now, ever again."""
        self._flowing.clear()
        self.thaw_new()

    def thaw_new(self) -> None:
        """Forward on new connections; what was frozen stays so."""
        self._flowing = asyncio.Event()
        self._flowing.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FreezingProxy]:
        """Listen."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.ensure_future(self._forward(reader, writer, self._flowing)))

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await flowing.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
            with contextlib.closing(far_writer):
                await asyncio.gather(_pipe(reader, far_writer, flowing), _pipe(far_reader, writer, flowing))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
    while data := await reader.read(65536):
        await flowing.wait()
        writer.write(data)
        await writer.drain()
    writer.close()
