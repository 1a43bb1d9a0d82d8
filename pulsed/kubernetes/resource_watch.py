"""A list of the Kubernetes API that is kept current by a watch, through every failure of the API server."""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from pulsed.background_tasks import FAILURES, Backoff
from pulsed.kubernetes.api_client import (
    SILENT_SECONDS,
    AccessDenied,
    ApiClient,
    KubernetesError,
    ResourceExpired,
    WatchEvent,
)
from pulsed.kubernetes.objects import JsonObject, mapping, text

log = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""Longest duration of one watch."""

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0

_T = TypeVar("_T")


class ResourceWatch(Generic[_T]):
    """The objects of one list. The objects read last remain while the API server fails.

    Args:
        path: of the list, as `/api/v1/pods`.
        query: its selectors.
        read: takes an object as JSON; its result is kept unless it is None.
        changed: called after every change of the objects or the error, and whenever the API server has confirmed them.
        is_paged: whether even the first list comes in pages: from etcd instead of the memory of the API server, which
            has no pages.

    Attributes:
        objects: by namespace and name.
        is_listed: whether the list has been read once.
        error: why it may not be current; empty if it is.
        is_denied: whether that is a lack of rights.
        restarts: times that a list or a watch failed, and was begun again.
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
        self._client, self._path, self._query, self._read, self._changed = client, path, query, read, changed
        self._sleep, self._random = sleep, random
        self._backoff = Backoff(_FIRST_PAUSE, _MAX_PAUSE, random)
        self._version: str | None = None
        self._list_version = "" if is_paged else "0"  # 0: any version that the API server has in memory
        self.objects: dict[tuple[str, str], _T] = {}
        self._heard = 0.0  # when the last list or change came
        self.is_listed = False
        self.error = ""
        self.is_denied = False
        self.restarts = 0

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except ResourceExpired as error:
                log.debug("list has expired", extra={"path": self._path, "error": str(error)})
                self._version, self._list_version = None, ""
                self.restarts += 1
            except KubernetesError as error:
                self._fail(str(error), is_denied=isinstance(error, AccessDenied))
            except Exception:  # of a reader's code; ending here would serve old objects for good
                FAILURES["kubernetes_watch"] += 1
                log.exception("internal error in a list of Kubernetes; please report it", extra={"path": self._path})
                self._version = None  # the change that failed comes again with the list
                self._fail("internal error")
            await self._sleep(self._backoff.next())

    async def _list(self) -> None:
        version = {"resourceVersion": self._list_version} if self._list_version else {}
        objects: dict[tuple[str, str], _T] = {}

        def add(item: JsonObject) -> None:
            if (kept := self._read(item)) is not None:
                objects[_key(item)] = kept

        self._version = await self._client.list(self._path, {**self._query, **version}, add)
        self.objects, self._heard = objects, time.monotonic()
        self.is_listed = True
        self._worked()

    async def _watch(self) -> None:
        seconds = round(WATCH_SECONDS * (1 - self._random() / 5))  # so that nodes do not reconnect together
        begun = time.monotonic()
        await self._client.watch(self._path, self._query, self._version or "", seconds, self._worked, self._apply)
        if time.monotonic() - begun > min(seconds, SILENT_SECONDS) / 2:
            self._backoff.reset()
        if time.monotonic() - self._heard > WATCH_SECONDS * 0.8:
            # Nothing changed; or the version is newer than all of the server, whose etcd was restored from a backup.
            self._version = None

    def _apply(self, event: WatchEvent) -> None:
        self._backoff.reset()
        self._heard = time.monotonic()
        if version := text(mapping(event.item.get("metadata")).get("resourceVersion")):
            self._version = version
        if event.kind != "BOOKMARK":
            kept = None if event.kind == "DELETED" else self._read(event.item)
            if kept is None:
                self.objects.pop(_key(event.item), None)
            else:
                self.objects[_key(event.item)] = kept
        self._changed()

    def _worked(self) -> None:
        if self.error:
            log.info("the list of the Kubernetes API is current again", extra={"path": self._path})
            self.error = ""
        self._changed()

    def _fail(self, error: str, *, is_denied: bool = False) -> None:
        if error != self.error:
            log.warning("the Kubernetes API failed; using the last result", extra={"error": error})
        self.error, self.is_denied = error, is_denied
        self.restarts += 1
        self._changed()


def _key(item: JsonObject) -> tuple[str, str]:
    metadata = mapping(item.get("metadata"))
    return text(metadata.get("namespace")), text(metadata.get("name"))
