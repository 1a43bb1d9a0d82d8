from __future__ import annotations

import gzip
from typing import Any

import pytest

from pulsed.present.api.routing import MIN_BYTES, JsonCompression

Pairs = list[tuple[bytes, bytes]]


async def answer(
    body: list[bytes], accept: list[bytes], type: bytes = b"application/json"
) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Return headers and body parts that a client gets."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        size = str(sum(map(len, body))).encode()
        headers = [(b"content-type", type), (b"content-length", size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, part in enumerate(body, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(body)})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("no body is read")

    scope = {"type": "http", "method": "GET", "headers": [(b"accept-encoding", each) for each in accept]}
    await JsonCompression(app)(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start"] + ["http.response.body"] * len(body)
    return dict(sent[0]["headers"]), [message["body"] for message in sent[1:]]


@pytest.mark.parametrize("size", [MIN_BYTES, 3 * 2**20])
@pytest.mark.parametrize("accept", [[b"gzip"], [b"br", b"gzip;q=0.5"], [b"*"], [b"identity;q=0.1, gzip;q=0.1"]])
async def test_compressed(size: int, accept: list[bytes]) -> None:
    headers, (body,) = await answer([b"7" * size], accept)
    assert gzip.decompress(body) == b"7" * size
    assert headers[b"content-length"] == str(len(body)).encode()
    assert (headers[b"content-encoding"], headers[b"vary"]) == (b"gzip", b"Accept-Encoding")


@pytest.mark.parametrize(
    "accept", [[], [b"identity"], [b"gzip;q=0"], [b"gzip;q=0, *"], [b"br"], [b"gzip;q=0.1, identity"], [b"gzip;q=x"]]
)
async def test_not_accepted(accept: list[bytes]) -> None:
    headers, body = await answer([b"7" * 5000], accept)
    assert body == [b"7" * 5000]
    assert (headers[b"content-length"], headers[b"vary"]) == (b"5000", b"Accept-Encoding")
    assert b"content-encoding" not in headers


async def test_small_documents_are_sent_as_they_are() -> None:
    body = [b"7" * (MIN_BYTES - 1)]
    headers, sent = await answer(body, [b"gzip"])
    assert sent == body
    assert b"content-encoding" not in headers


async def test_other_types_are_sent_as_they_are() -> None:
    headers, sent = await answer([b"x" * 5000], [b"gzip"], b"text/css")
    assert sent == [b"x" * 5000]
    assert set(headers) == {b"content-type", b"content-length"}
