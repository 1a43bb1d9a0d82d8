"""Parser of HTTP/1.1 requests: h11's, with limits on their size."""

from __future__ import annotations

import http
import re

import h11

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers of one request; Prometheus sends some 400."""

MAX_HEADER_LINES = 100
"""Header lines of one request. Once parsed, a short line takes 30 times its bytes."""

MAX_BODY_BYTES = 64 * 1024
"""Body of one request. No route takes one: this much is read and discarded, so that a client gets its answer."""

MAX_BODY_PIECES = 1000
"""Chunks of a body, and packets of it: each costs 30 µs, however small it is."""

_HEAD_END = re.compile(rb"\n\r?\n")


class RequestParser(h11.Connection):
    """h11's parser of requests, which refuses those that are too large.

    Attributes:
        refusal: the status for a request that `next_event` has refused.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.refusal = http.HTTPStatus.BAD_REQUEST
        self._body_bytes = self._body_pieces = 0

    @property
    def has_partial_request(self) -> bool:
        """Whether a part of a request has arrived, but not its end."""
        return self.their_state is h11.SEND_BODY or (self.their_state is h11.IDLE and bool(self.trailing_data[0]))

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next part of a request. Raises `h11.RemoteProtocolError` and sets `refusal`."""
        is_head = self.their_state is h11.IDLE
        if is_head and self._is_head_too_large():
            raise self._refused(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            error.__traceback__ = None  # it has a frame of h11 that refers to the error: a cycle
            status = error.error_status_hint
        else:
            self._check(event)
            return event
        is_large_body = status == http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE and not is_head
        raise self._refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_large_body else status)

    def _check(self, event: object) -> None:
        """Refuse another version of HTTP, a tunnel, and a body that is, or is announced to be, too large."""
        if isinstance(event, h11.Request):
            if event.http_version not in (b"1.0", b"1.1"):
                raise self._refused(http.HTTPStatus.BAD_REQUEST)
            if event.method == b"CONNECT":  # h11 would end HTTP with the answer
                raise self._refused(http.HTTPStatus.BAD_REQUEST)
            self._body_bytes = self._body_pieces = 0
            length = next((int(value) for name, value in event.headers if name == b"content-length"), 0)
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            self._body_pieces += 1
            length = self._body_bytes
        else:
            return
        if length > MAX_BODY_BYTES or self._body_pieces > MAX_BODY_PIECES:
            raise self._refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _is_head_too_large(self) -> bool:
        data = self.trailing_data[0]
        most = MAX_HEADER_LINES + 1  # and the request line
        if len(data) <= MAX_HEAD_BYTES and data.count(b"\n") <= most:
            return False
        end = _HEAD_END.search(data)
        head = data[: end.end()] if end else data
        return len(head) > MAX_HEAD_BYTES or head.count(b"\n") > most + bool(end)

    def _refused(self, status: int) -> h11.RemoteProtocolError:
        self.refusal = http.HTTPStatus(status)
        return h11.RemoteProtocolError(self.refusal.phrase, status)
