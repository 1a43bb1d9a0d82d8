"""Conditions of a node, and events about it: written through the Kubernetes API as they change, and now and then.

Who writes needs no other right than `patch` of `nodes/status`, and `create` of `events` in the namespace `default`. A
failure of the API server is logged, and tried again. Must not depend on what the conditions mean.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timezone
from typing import Literal, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from pulsed.errors import PulsedError
from pulsed.kubernetes.api_client import ApiClient, JsonObject
from pulsed.kubernetes.objects import mapping, mappings, text
from pulsed.pauses import Backoff, aligned_sleep, within

MAX_MESSAGE_LENGTH = 1000
"""Longer messages are cut; the API server refuses events above 1,024."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10.0, 300.0
_END_SECONDS = 3.0
_SOURCE, _STOPPED = "pulsed", "PulsedStopped"

log = logging.getLogger(__name__)


class NodeCondition(NamedTuple):
    """A condition as it is to be; `reason` is in CamelCase."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


class ConditionTarget(NamedTuple):
    """Which node's conditions are written, and how.

    Attributes:
        interval: seconds between two looks for a change, and so the shortest between two patches.
        heartbeat: seconds after which unchanged conditions are written again, shortened by up to a tenth at random.
        has_events: whether changes of status and reason are events, too.
    """

    node: str
    client: ApiClient
    interval: float
    heartbeat: float
    has_events: bool


class ConditionWriter:
    """Writes conditions until its task is cancelled.

    Args:
        read: returns the conditions; none while nothing is known yet: those of before stay.

    Attributes:
        is_failing: whether the last patch failed; None before the first.
    """

    def __init__(
        self, read: Callable[[], Sequence[NodeCondition]], random: Callable[[], float] = random_module.random
    ) -> None:
        self._read, self._random = read, random
        self._wanted: ConditionTarget | None = None
        self._used: ConditionTarget | None = None
        self._is_changed = asyncio.Event()
        self._before: dict[str, tuple[str, str, str]] | None = None  # status, reason, time of the transition by type
        self._written: Sequence[NodeCondition] = ()
        self._due = 0.0
        self._error = ""
        self.is_failing: bool | None = None

    def configure(self, target: ConditionTarget | None) -> None:
        """Write there from now on; None: no more, and what was written is removed."""
        if target != self._wanted:
            self._wanted = target
            self._is_changed.set()

    async def run(self) -> None:
        """Write until cancelled; then the conditions become Unknown, if the API server answers within seconds."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, self._random)
        try:
            while True:
                self._is_changed.clear()
                await self._switch()
                if self._used is None:
                    await self._is_changed.wait()
                elif await self._update(self._used):
                    backoff.reset()
                    await aligned_sleep(self._used.interval)
                else:
                    await asyncio.sleep(backoff.next())
        finally:
            await self._end()

    async def _switch(self) -> None:
        """Use the target that is wanted; on another node, and where none is, nothing stays behind."""
        before, self._used = self._used, self._wanted
        if before is self._used or before is None:
            return
        if self._written and (self._used is None or self._used.node != before.node):
            removed = [{"type": each.type, "$patch": "delete"} for each in self._written]
            await self._try("remove", self._patch(before, removed))
            self._written = ()
        self._before, self._due, self.is_failing = None, 0.0, None
        if self._used is None or self._used.client is not before.client:
            await before.client.close()

    async def _end(self) -> None:
        if self._used is None:
            return
        if self._written:
            message = "pulsed has stopped: the health of the GPUs is not watched"
            self._written = [
                each._replace(status="Unknown", reason=_STOPPED, message=message) for each in self._written
            ]
            try:
                await within(_END_SECONDS, self._try("end", self._write(self._used, self._written)))
            except asyncio.TimeoutError:
                log.warning("conditions of the node stay as they were", extra={"node": self._used.node})
        await self._used.client.close()

    async def _update(self, target: ConditionTarget) -> bool:
        """Write the conditions if they have changed or a heartbeat is due; return whether that did not fail."""
        conditions, now = self._read(), time.monotonic()
        if not conditions or (conditions == self._written and now < self._due):
            return True
        self.is_failing = not await self._try("write", self._write(target, conditions, has_events=target.has_events))
        if not self.is_failing:
            self._written, self._due = conditions, now + target.heartbeat * (1 - self._random() / 10)
        return not self.is_failing

    async def _try(self, what: str, work: Coroutine[None, None, object]) -> bool:
        """Return whether it succeeded. A failure is logged unless it is that of before."""
        try:
            await work
        except PulsedError as error:
            if str(error) != self._error:
                log.warning("conditions of the node cannot be written", extra={"attempt": what, "error": str(error)})
            self._error = str(error)
            return False
        if self._error:
            log.info("conditions of the node are written again")
            self._error = ""
        return True

    async def _write(
        self, target: ConditionTarget, conditions: Sequence[NodeCondition], *, has_events: bool = False
    ) -> None:
        if self._before is None:  # a patch that changes nothing reads the node, without the right to do so
            self._before = _conditions_of(await self._patch(target, []))
        before, now = self._before, _now()
        after = {
            each.type: (each.status, each.reason, old[2] if old and old[0] == each.status else now)
            for each in conditions
            for old in (before.get(each.type),)
        }
        document = [
            {
                **each._asdict(),
                "message": each.message[:MAX_MESSAGE_LENGTH],
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
        "message": f"{condition.type} is {condition.status}: {condition.message}"[:MAX_MESSAGE_LENGTH],
        "source": {"component": _SOURCE, "host": node},
        "reportingComponent": _SOURCE,
        "reportingInstance": node,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _now() -> str:
    """Return the time as the API has it, in whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
