"""Receivers of notifications that never answer, answer too much, or answer what would do harm."""

from __future__ import annotations

import asyncio
import functools
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pulsed.daemon import notify
from pulsed.model.clocks import Monotonic
from pulsed.model.owner import Owner
from pulsed.present.notification import WebhookSettings
from tests.daemon.test_notify import Told

TOKEN = "geheim"
HEAD = b"HTTP/1.1 200 OK\r\n"


@functools.cache
def packed_zeros() -> bytes:
    return gzip.compress(b"\0" * 2**27, 1)


class Peer:
    """One connection of pulsed's, after its request."""

    def __init__(self, writer: asyncio.StreamWriter, other: str) -> None:
        self.other, self._writer = other, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def for_ever(self, data: bytes, pause: float = 0.0) -> None:
        while True:
            await self.send(data)
            await asyncio.sleep(pause)


Attack = Callable[[Peer], Awaitable[None]]


async def never(peer: Peer) -> None:
    await asyncio.sleep(60)


async def drips(peer: Peer) -> None:
    await peer.send(HEAD + b"Content-Length: 1000\r\n\r\n")
    await peer.for_ever(b"x", 0.02)


async def drips_of_a_head(peer: Peer) -> None:
    await peer.send(HEAD)
    await peer.for_ever(b"X: y\r\n", 0.02)


async def endless_head(peer: Peer) -> None:
    await peer.send(HEAD)
    await peer.for_ever(b"X: y\r\n" * 10_000)


async def endless_line(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 ")
    await peer.for_ever(b"x" * 2**16)


async def huge_answer(peer: Peer) -> None:
    await peer.send(HEAD + b"Content-Length: 100000000000\r\n\r\n")
    await peer.for_ever(b"x" * 2**16)


async def bomb(peer: Peer) -> None:
    packed = packed_zeros()
    await peer.send(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)


async def huge_refusal(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n")
    await peer.for_ever(b"10000\r\n" + b"x" * 2**16 + b"\r\n")


async def redirect_to_another_host(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 307 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % peer.other.encode())


async def retry_after_for_ever(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 429 Slow\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n" % (b"9" * 4000))


async def control_characters(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 500 \x1b[2J\x9b31m\xff\r\nContent-Length: 0\r\n\r\n")


async def garbage(peer: Peer) -> None:
    await peer.send(bytes(range(256)) * 100)


async def closes(peer: Peer) -> None:
    pass


ATTACKS: tuple[Attack, ...] = (
    never,
    drips,
    drips_of_a_head,
    endless_head,
    endless_line,
    huge_answer,
    bomb,
    huge_refusal,
    redirect_to_another_host,
    retry_after_for_ever,
    control_characters,
    garbage,
    closes,
)


DELIVERED = (drips, huge_answer, bomb)
"""Attacks after a status of success: nobody is notified twice."""


@asynccontextmanager
async def receiving(attack: Attack, other: str = "") -> AsyncIterator[tuple[str, list[bytes]]]:
    """A receiver, and the heads of the requests that it gets."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await attack(Peer(writer, other))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    tasks = asyncio.all_tasks()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", heads
    finally:
        server.close()
        begun = asyncio.all_tasks() - tasks
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await asyncio.sleep(0)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_receiver_costs_its_own_notifications_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, attack: Attack
) -> None:
    """A round ends with the first failure of a receiver, and the other receiver gets all of its notifications."""
    packed_zeros()  # takes as long as a receiver may
    (tmp_path / "token").write_text(TOKEN)

    async def attacked() -> None:
        async with receiving(closes) as (other, heads_of_other), receiving(attack, other) as (url, heads):
            webhook = WebhookSettings(url=url, bearer_token_file=str(tmp_path / "token"))
            told = Told(tmp_path, webhook=webhook, exec=("/bin/sh", "-c", "cat >/dev/null"))
            for number in range(3):
                told.works_and_stops(owner=Owner("slurm_job", str(number)))
                told.feature.queue_findings(Monotonic(0.0))
            await told.feature.deliver("exec")
            if attack not in DELIVERED:
                monkeypatch.setattr(notify, "RECEIVER_SECONDS", 2.0)
            await told.feature.deliver("webhook")
            if attack in DELIVERED:
                assert told.results == {("exec", "sent"): 3, ("webhook", "sent"): 3}
            else:
                assert told.results == {("exec", "sent"): 3, ("webhook", "failed"): 1}
                assert len(heads) == 1
            assert all(TOKEN.encode() in head for head in heads)
            assert heads_of_other == []

    asyncio.run(attacked())
    assert TOKEN not in caplog.text
    errors = [record.error for record in caplog.records if hasattr(record, "error")]
    assert len(errors) == (attack not in DELIVERED)
    assert all(error.isprintable() and len(error) < 500 for error in errors)
