"""One watch of a list of the Kubernetes API for several readers, each of which keeps something else of the objects."""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar, cast

from pulsed.background_tasks import keep_running
from pulsed.kubernetes.api_client import ApiClient, JsonObject
from pulsed.kubernetes.resource_watch import ResourceWatch

JOIN_SECONDS = 0.05
"""Readers that begin within this time share the first list; one that begins later makes the watch begin again."""

_T = TypeVar("_T")
_Key = tuple[str, str]
_MakeWatch = Callable[[Callable[[JsonObject], "_Results"], Callable[[], None]], "ResourceWatch[_Results]"]


class WatchReader(Generic[_T]):
    """A reader of a list. Readers of the same list by one client share a `ResourceWatch`, made as the first demands.

    Args:
        read: converts a JSON object; its result is kept unless it is None.

    The others are those of `ResourceWatch`.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        query: Mapping[str, str],
        read: Callable[[JsonObject], _T | None],
        changed: Callable[[], None] = lambda: None,
        *,
        is_paged: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        def make(read: Callable[[JsonObject], _Results], changed: Callable[[], None]) -> ResourceWatch[_Results]:
            return ResourceWatch(client, path, query, read, changed, is_paged=is_paged, sleep=sleep, random=random)

        self.read, self.changed = read, changed
        self._client, self._list, self._make = client, (path, *sorted(query.items())), make
        self._watch: ResourceWatch[_Results] | None = None

    @property
    def objects(self) -> Mapping[_Key, _T]:
        """What was read, by namespace and name."""
        return _Objects({} if self._watch is None else self._watch.objects, self)

    @property
    def is_listed(self) -> bool:
        """Whether the list has been read once."""
        return self._watch is not None and self._watch.is_listed

    @property
    def error(self) -> str:
        """Why the objects may not be current; empty if they are."""
        return "" if self._watch is None else self._watch.error

    @property
    def is_denied(self) -> bool:
        """Whether that is a lack of rights."""
        return self._watch is not None and self._watch.is_denied

    def use(self, watch: ResourceWatch[_Results]) -> None:
        """Have the objects of a watch from now on."""
        self._watch = watch

    async def run(self) -> None:
        """Read until cancelled."""
        key = self._client, self._list
        shared = _SHARED.setdefault(key, _SharedWatch(self._make))
        shared.join(self)
        try:
            await asyncio.Event().wait()
        finally:
            if shared.leave(self):
                del _SHARED[key]


class _AnyWatchReader(Protocol):
    """A `WatchReader` of any objects."""

    @property
    def read(self) -> Callable[[JsonObject], object]: ...

    @property
    def changed(self) -> Callable[[], None]: ...

    def use(self, watch: ResourceWatch[_Results]) -> None: ...


class _SharedWatch:
    """A watch that restarts for each reader that joins, because objects that were read before are not kept."""

    def __init__(self, make: _MakeWatch) -> None:
        self._make = make
        self._readers: list[_AnyWatchReader] = []
        self._task: asyncio.Task[None] | None = None

    def join(self, reader: _AnyWatchReader) -> None:
        """Read for a reader, too."""
        self._readers.append(reader)
        watch = self._make(lambda item: {each: each.read(item) for each in self._readers}, self._changed)
        for each in self._readers:
            each.use(watch)
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.create_task(keep_running("kubernetes_watch", lambda: _run_soon(watch)))

    def leave(self, reader: _AnyWatchReader) -> bool:
        """Read no longer for a reader; return whether it was the last one."""
        self._readers.remove(reader)
        if not self._readers and self._task is not None:
            self._task.cancel()
        return not self._readers

    def _changed(self) -> None:
        for each in tuple(self._readers):
            each.changed()


async def _run_soon(watch: ResourceWatch[_Results]) -> None:
    await asyncio.sleep(JOIN_SECONDS)
    await watch.run()


_Results = Mapping[object, object]
"""What the readers keep of an object."""

_SHARED: dict[tuple[ApiClient, tuple[object, ...]], _SharedWatch] = {}
"""By client and list, the watches that have readers."""


class _Objects(Mapping[_Key, _T]):
    """What one reader keeps."""

    def __init__(self, objects: Mapping[_Key, _Results], reader: WatchReader[_T]) -> None:
        self._objects, self._reader = objects, reader

    def __getitem__(self, key: _Key) -> _T:
        kept = self._objects[key].get(self._reader)
        if kept is None:
            raise KeyError(key)
        return cast("_T", kept)  # the result of that reader

    def __iter__(self) -> Iterator[_Key]:
        return (key for key, results in self._objects.items() if results.get(self._reader) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
