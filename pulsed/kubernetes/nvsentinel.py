"""A health monitor of NVSentinel: sends faults, and their ends, to the platform connector on the node.

The protocol is that of NVSentinel's `data-models/protobufs/health_event.proto`: one call over a Unix socket. Must not
depend on what the faults mean.
"""

from __future__ import annotations

import asyncio
import random as random_module
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

from pulsed.errors import GrpcError, NvsentinelError
from pulsed.grpc_call import unary_call
from pulsed.kubernetes.reporter import Reporter
from pulsed.protobuf import field, number_field

METHOD = "/datamodels.PlatformConnector/HealthEventOccurredV1"
AGENT, COMPONENT = "pulsed", "GPU"

_VERSION = 1
_EXECUTE_REMEDIATION, _STORE_ONLY = 1, 2
_TIMEOUT_SECONDS = 10.0
_MAX_REQUEST_BYTES = 32 * 1024
_MAX_RESPONSE_BYTES = 64 * 1024

Entity = tuple[str, str]
"""Kind and name of what an event is about, such as `GPU_UUID`."""


class RecommendedAction(IntEnum):
    """What NVSentinel is to do about a fault."""

    NONE = 0
    COMPONENT_RESET = 2
    CONTACT_SUPPORT = 5
    RESTART_BM = 24


@dataclass(frozen=True, slots=True)
class HealthFault:
    """A check that is raised.

    Attributes:
        check: name of the check.
        entities: of the GPU; empty: all of the check.
        codes: XIDs.
    """

    check: str
    entities: tuple[Entity, ...]
    message: str
    is_fatal: bool = False
    action: RecommendedAction = RecommendedAction.NONE
    codes: tuple[str, ...] = ()


class HealthFaults(NamedTuple):
    """What is known now.

    Attributes:
        faults: all that are raised.
        healthy: entities of GPUs whose other checks are not raised.
        unknown: entities of GPUs without current samples: what was sent of them stays.
    """

    faults: Sequence[HealthFault]
    healthy: Sequence[tuple[Entity, ...]]
    unknown: Collection[tuple[Entity, ...]]


@dataclass(frozen=True, slots=True)
class NvsentinelTarget:
    """The platform connector of a node.

    Attributes:
        remediates: whether NVSentinel acts on the events, or only stores them.
    """

    node: str
    socket: str
    interval: float
    remediates: bool


class NvsentinelMonitor(Reporter[NvsentinelTarget]):
    """Sends what has changed. All checks end first: an earlier run may have left faults.

    Args:
        read: returns what is known; None before the first sample.
        checks: names of the checks of GPUs.
        others: names of the checks that are of no GPU.
    """

    what: ClassVar[str] = "health to NVSentinel"

    def __init__(
        self,
        read: Callable[[], HealthFaults | None],
        checks: Collection[str],
        others: Collection[str],
        random: Callable[[], float] = random_module.random,
    ) -> None:
        super().__init__(random)
        self._read, self._checks, self._others = read, checks, others
        self._sent: Mapping[tuple[str, tuple[Entity, ...]], HealthFault] = {}
        self._seen: set[tuple[Entity, ...]] = set()
        self._has_begun = False

    async def _report(self, target: NvsentinelTarget) -> bool:
        known = self._read()
        if known is None:
            return False
        faults = {(each.check, each.entities): each for each in known.faults}
        kept = {key: fault for key, fault in self._sent.items() if key not in faults and key[1] in known.unknown}
        ended = [key for key in self._sent if key not in faults and key not in kept]
        new = [gpu for gpu in known.healthy if gpu not in self._seen]
        first = [
            (check, tuple(entity for gpu in new if (check, gpu) not in faults for entity in gpu))
            for check in self._checks
        ]
        ended += [(check, entities) for check, entities in first if entities]
        if not self._has_begun:
            ended += [(check, ()) for check in self._others if (check, ()) not in faults]
        begun = [fault for key, fault in faults.items() if self._sent.get(key) != fault]
        if not ended and not begun:
            return False
        await self._send(target, ended, begun)
        self._sent = {**kept, **faults}
        self._seen.update(new)
        self._has_begun = True
        return True

    async def _leave(self, target: NvsentinelTarget, following: NvsentinelTarget | None) -> bool:
        """Withdraw all faults: the following target has them from its first report."""
        sent, self._sent = list(self._sent), {}
        self._seen.clear()
        self._has_begun = False
        if sent:
            await self._send(target, sent, [])
        return bool(sent)

    async def _end(self, target: NvsentinelTarget) -> bool:
        """Do nothing: faults are not over because pulsed stops; the next start ends those that are."""
        return False

    async def _send(
        self, target: NvsentinelTarget, ended: Sequence[tuple[str, tuple[Entity, ...]]], begun: Sequence[HealthFault]
    ) -> None:
        now = time.time_ns()
        events = [
            _event(target, HealthFault(*key, "no longer raised"), now - 1_000_000, is_healthy=True) for key in ended
        ]
        events += [_event(target, fault, now) for fault in begun]
        try:
            for request in _requests(events):
                call = unary_call(target.socket, METHOD, request, max_bytes=_MAX_RESPONSE_BYTES)
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await call
        except TimeoutError:
            raise NvsentinelError(f"{target.socket} did not answer in {_TIMEOUT_SECONDS:g} s") from None
        except OSError as error:
            remedy = "See whether its platform connector runs on this node, and whether pulsed may open its socket"
            raise NvsentinelError(f"{target.socket}: {error.strerror or error}", remedy) from None
        except GrpcError as error:
            raise NvsentinelError(f"{target.socket}: {error.args[0]}", error.remedy) from None


def _requests(events: Sequence[bytes]) -> Iterator[bytes]:
    """Yield `HealthEvents` of these events, each at most so large that HTTP/2 takes it without waiting."""
    request = head = number_field(1, _VERSION)
    for event in events:
        if len(request) + len(event) > _MAX_REQUEST_BYTES and request is not head:
            yield request
            request = head
        request += field(2, event)
    yield request


def _event(target: NvsentinelTarget, fault: HealthFault, nanoseconds: int, *, is_healthy: bool = False) -> bytes:
    """Return a `HealthEvent`. Ends are a millisecond older than begins: the receiver sorts by time."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    entities = [field(1, kind.encode()) + field(2, name.encode()) for kind, name in fault.entities]
    return b"".join(
        [
            number_field(1, _VERSION),
            field(2, AGENT.encode()),
            field(3, COMPONENT.encode()),
            field(4, fault.check.encode()),
            number_field(5, fault.is_fatal),
            number_field(6, is_healthy),
            field(7, fault.message.encode("utf-8", "replace")),
            number_field(8, fault.action),
            *(field(9, code.encode()) for code in fault.codes),
            *(field(10, entity) for entity in entities),
            field(12, number_field(1, seconds) + number_field(2, rest)),
            field(13, target.node.encode()),
            number_field(16, _EXECUTE_REMEDIATION if target.remediates else _STORE_ONLY),
        ]
    )
