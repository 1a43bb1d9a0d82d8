"""Open a stream with those of a list of fields that are available."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pulsed.errors import FieldRefused, SourceError
from pulsed.reader.dcgmi.stream import Arrival, DmonStream
from pulsed.reader.dcgmi.watch import Watch

_BETWEEN_ATTEMPTS = 0.1  # seconds: a list taken apart is many starts, but never a storm of them


async def open_stream(
    watch: Watch,
    make: Callable[[tuple[int, ...]], DmonStream],
    patience: float,
    sleep: Callable[[float], Awaitable[object]],
) -> tuple[DmonStream, Arrival]:
    """Start streams until one runs with every available field; return it and its first tick.

    The state of `watch` is kept, also when this fails half way.

    Raises:
        SourceError: it failed for another reason than a field, or no field is available.
    """
    while True:
        stream = make(watch.attempt())
        try:
            await stream.start()
            arrival = await stream.next(patience)
        except SourceError as error:
            await stream.end_now()
            if not watch.refuse(error):
                if watch.settled and not watch.attempt():
                    watch.reset()  # everything was refused, which may change: the next attempt requests all fields
                raise _nothing_left(error, watch) from error
        except asyncio.CancelledError:
            await stream.end_now()
            raise
        else:
            watch.accept()
            if watch.settled:
                return stream, arrival
            await stream.end_now()
        await sleep(_BETWEEN_ATTEMPTS)


def _nothing_left(error: SourceError, watch: Watch) -> SourceError:
    """Return the error, generalized if all of several fields were refused."""
    if isinstance(error, FieldRefused) and len(watch.wanted) > 1:
        return FieldRefused(
            f"none of {len(watch.wanted)} fields are available; the last refusal: {error.args[0]}",
            "dcgmi dmon -l lists the fields of this version of DCGM",
        )
    return error
