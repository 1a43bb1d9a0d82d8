"""NVSentinel's platform connector: a real gRPC server on a Unix socket, with messages of Google's Protocol Buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict

from tests.support.kubernetes.fake_kubelet import message_class

_SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "HealthEvents": {"version": (1, "uint32"), "events": (2, "HealthEvent*")},
    "Entity": {"entityType": (1, "string"), "entityValue": (2, "string")},
    "Timestamp": {"seconds": (1, "int64"), "nanos": (2, "int32")},
    "HealthEvent": {
        "version": (1, "uint32"),
        "agent": (2, "string"),
        "componentClass": (3, "string"),
        "checkName": (4, "string"),
        "isFatal": (5, "bool"),
        "isHealthy": (6, "bool"),
        "message": (7, "string"),
        "recommendedAction": (8, "int32"),
        "errorCode": (9, "string*"),
        "entitiesImpacted": (10, "Entity*"),
        "generatedTimestamp": (12, "Timestamp"),
        "nodeName": (13, "string"),
        "processingStrategy": (16, "int32"),
    },
}
"""As in NVSentinel's health_event.proto, where the enumerations are numbers here."""


class PlatformConnector:
    """What a node's platform connector has received.

    Attributes:
        calls: the events of each call.
        state: the unhealthy events by check and entity, as the connector keeps them: a healthy event ends those of
            its entities, without entities all of its check.
        refuses: whether calls are answered UNAVAILABLE.
    """

    def __init__(self) -> None:
        self.calls: list[list[dict[str, Any]]] = []
        self.state: dict[tuple[str, str], dict[str, Any]] = {}
        self.refuses = False
        self._request: Any = message_class(_SCHEMA, "datamodels", "HealthEvents")

    def receive(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Take a call."""
        if self.refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        events: list[dict[str, Any]] = MessageToDict(self._request.FromString(request))["events"]
        for event in sorted(events, key=lambda each: _time(each["generatedTimestamp"])):
            names = [each["entityValue"] for each in event.get("entitiesImpacted", [])]
            check = event["checkName"]
            if event.get("isHealthy"):
                gone = [key for key in self.state if key[0] == check and (key[1] in names or not names)]
                for key in gone:
                    del self.state[key]
            else:
                self.state |= {(check, name): event for name in names or [""]}
        self.calls.append(events)
        return b""

    @contextlib.contextmanager
    def running(self, socket: Path) -> Iterator[None]:
        """Serve; the socket vanishes at the end."""
        server = grpc.server(ThreadPoolExecutor(2))
        handler: Any = grpc.unary_unary_rpc_method_handler(self.receive)
        methods = {"HealthEventOccurredV1": handler}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("datamodels.PlatformConnector", methods)])
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()
            socket.unlink(missing_ok=True)


def _time(given: dict[str, Any]) -> tuple[int, int]:
    return int(given["seconds"]), given.get("nanos", 0)
