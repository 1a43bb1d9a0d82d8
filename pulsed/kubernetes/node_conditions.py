"""Conditions of a node, and events about it: written through the Kubernetes API as they change, and now and then.

Who writes needs no other right than `patch` of `nodes/status`, and `create` of `events` in the namespace `default`. A
failure of the API server is logged, and tried again. Must not depend on what the conditions mean.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote
from uuid import uuid4

from pulsed.background_tasks import Backoff, aligned_sleep
from pulsed.errors import PulsedError
from pulsed.kubernetes.api_client import ApiClient
from pulsed.kubernetes.objects import JsonObject, NodeCondition, mapping, mappings, text

_MAX_MESSAGE_LENGTH = 1000
"""Longer messages are cut; the API server refuses events above 1,024."""

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 10.0, 300.0
_END_SECONDS = 3.0

_SOURCE, _STOPPED = "pulsed", "PulsedStopped"

_WHAT = "conditions of the node"
"""Name of the reported object, for the log."""

log = logging.getLogger(__name__)


class ConditionTarget(NamedTuple):
    """Which node's conditions are written, and how.

    Attributes:
        interval: seconds between two looks for a change, and so the shortest between two patches.
        heartbeat: seconds after which unchanged conditions are written again, shortened by up to a tenth at random.
        has_events: whether changes of status and reason also become events.
    """

    node: str
    client: ApiClient
    interval: float
    heartbeat: float
    has_events: bool


class ConditionWriter:
    """Writes conditions as they change until its task is cancelled; at the end they become Unknown.

    A failure is logged, unless it repeats the one before, and tried again.

    Args:
        read: returns the conditions; none while nothing is known yet: the previous ones stay.
        target: returns where they are written now; None: no more, and conditions that were written are removed.

    Attributes:
        is_failing: whether the last attempt failed; None before the first.
    """

    def __init__(
        self, read: Callable[[], Sequence[NodeCondition]], target: Callable[[], ConditionTarget | None]
    ) -> None:
        self._read, self._target = read, target
        self._used: ConditionTarget | None = None
        self._error = ""
        self.is_failing: bool | None = None
        self._before: dict[str, tuple[str, str, str]] | None = None  # status, reason, time of the transition by type
        self._written: Sequence[NodeCondition] = ()
        self._due = 0.0

    async def run(self) -> None:
        """Write until there is no target, or until cancelled; then the end, if the API server answers in seconds."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS, random.random)
        try:
            while (target := self._target()) is not None or self._used is not None:
                before, self._used = self._used, target
                if before is not None and before != target:
                    await self._try(self._leave(before, target))
                    self.is_failing = None
                elif target is not None and await self._try(self._report(target)):
                    backoff.reset()
                    await aligned_sleep(target.interval)
                else:
                    await asyncio.sleep(backoff.next())
        finally:
            if self._used is not None:
                try:
                    async with asyncio.timeout(_END_SECONDS):
                        await self._try(self._end(self._used))
                except TimeoutError:
                    log.warning("the end was not reported", extra={"what": _WHAT})

    async def _try(self, work: Awaitable[bool]) -> bool:
        """Return whether it succeeded; the work returns whether the API server was asked."""
        try:
            has_reported = await work
        except PulsedError as error:
            if str(error) != self._error:
                log.warning("cannot be reported", extra={"what": _WHAT, "error": str(error)})
            self._error, self.is_failing = str(error), True
            return False
        if has_reported:
            if self._error:
                log.info("is reported again", extra={"what": _WHAT})
            self._error, self.is_failing = "", False
        return True

    async def _report(self, target: ConditionTarget) -> bool:
        """Write what has changed. Returns whether the API server was asked; raises `PulsedError`."""
        conditions, now = self._read(), time.monotonic()
        if not conditions or (conditions == self._written and now < self._due):
            return False
        await self._write(target, conditions, has_events=target.has_events)
        self._written, self._due = conditions, now + target.heartbeat * (1 - random.random() / 10)
        return True

    async def _leave(self, target: ConditionTarget, following: ConditionTarget | None) -> bool:
        """Remove the conditions, unless they are of the same node still. Returns and raises as `_report`."""
        written, self._before, self._due = self._written, None, 0.0
        is_over = bool(written) and (following is None or following.node != target.node)
        try:
            if is_over:
                self._written = ()
                await self._patch(target, [{"type": each.type, "$patch": "delete"} for each in written])
        finally:
            if following is None or following.client is not target.client:
                await target.client.close()
        return is_over

    async def _end(self, target: ConditionTarget) -> bool:
        """Write that pulsed has stopped. Returns and raises as `_report`."""
        message = "pulsed has stopped: the health of the GPUs is not watched"
        after = [each._replace(status="Unknown", reason=_STOPPED, message=message) for each in self._written]
        try:
            if after:
                await self._write(target, after)
        finally:
            await target.client.close()
        return bool(after)

    async def _write(
        self, target: ConditionTarget, conditions: Sequence[NodeCondition], *, has_events: bool = False
    ) -> None:
        if self._before is None:  # a patch that changes nothing reads the node, without the right to do so
            self._before = _conditions_of(await self._patch(target, []))
        before, now = self._before, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        after = {
            each.type: (each.status, each.reason, old[2] if old and old[0] == each.status else now)
            for each in conditions
            for old in (before.get(each.type),)
        }
        document = [
            {
                **each._asdict(),
                "message": each.message[:_MAX_MESSAGE_LENGTH],
                "lastHeartbeatTime": now,
                "lastTransitionTime": after[each.type][2],
            }
            for each in conditions
        ]
        await self._patch(target, document)
        self._before = {**before, **after}
        for each in conditions if has_events else ():
            status, reason, _ = before.get(each.type, ("", "", ""))
            is_new = (status, reason) != (each.status, each.reason)
            if is_new and (each.status != "True" or (status and reason != _STOPPED)):
                await self._announce(target, each, now)

    async def _announce(self, target: ConditionTarget, condition: NodeCondition, now: str) -> None:
        """Create the event of a change; one that fails is lost: the condition has the state."""
        try:
            await target.client.create("/api/v1/namespaces/default/events", _event(target.node, condition, now))
        except PulsedError as error:
            log.warning("an event about the node cannot be created", extra={"error": str(error)})

    async def _patch(self, target: ConditionTarget, conditions: Sequence[JsonObject]) -> JsonObject:
        document = {"status": {"conditions": conditions}} if conditions else {}
        return await target.client.patch(f"/api/v1/nodes/{quote(target.node, safe='')}/status", document)


def _conditions_of(node: JsonObject) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and time of the last transition of a node's conditions, by type."""
    return {
        text(each.get("type")): (
            text(each.get("status")),
            text(each.get("reason")),
            text(each.get("lastTransitionTime")),
        )
        for each in mappings(mapping(node.get("status")).get("conditions"))
    }


def _event(node: str, condition: NodeCondition, now: str) -> JsonObject:
    """Return the event of a change, with the name of the node as its UID, as the kubelet has it: `kubectl describe`."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{node}.{uuid4().hex[:16]}", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "type": "Normal" if condition.status == "True" else "Warning",
        "reason": condition.reason,
        "message": f"{condition.type} is {condition.status}: {condition.message}"[:_MAX_MESSAGE_LENGTH],
        "source": {"component": _SOURCE, "host": node},
        "reportingComponent": _SOURCE,
        "reportingInstance": node,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
