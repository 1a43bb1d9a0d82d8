"""Settings of OTLP, and OpenTelemetry's variables of the environment, which stand in for keys that are not set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from pulsed.config.settings import Duration, FileName, Kind, Problem, Settings, Switch, TableKind, matching, setting
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, read_token
from pulsed.present.otlp.encoder import OtlpPlan, Receiver

_T = TypeVar("_T")


def receiver_url(value: str) -> str:
    """Return a URL to send to; raise ValueError for another text."""
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0
    except ValueError:  # an invalid bracket or port
        usable = None
    if not usable or parts.scheme not in ("http", "https"):
        raise ValueError("is not a URL with http:// or https:// and a host")
    return value


_HEADER_NAME = matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "is not the name of a header")
one_line = matching(r"[^\x00-\x1f\x7f]*", "is not one line of text")

ReceiverUrl = Annotated[
    str, Kind("receiver", "a URL such as http://collector.example:4318/v1/metrics", receiver_url, "text")
]
HeaderTable = Annotated[
    Mapping[str, str],
    TableKind("headers", "names and values of headers", one_line, "text", secret=True, parse_name=_HEADER_NAME),
]
AttributeTable = Annotated[
    Mapping[str, str],
    TableKind(
        "attributes",
        "names and values of attributes",
        one_line,
        "text",
        parse_name=matching(r"[A-Za-z][A-Za-z0-9_.-]*", "is not the name of an attribute"),
    ),
]


class BadVariable(Exception):
    """A variable of the environment that cannot be used; the text has its name, its value unless secret, and what is
    allowed."""


@dataclass(frozen=True, slots=True)
class OtlpSettings(Settings):
    """Sends metrics by OTLP/HTTP, to the OpenTelemetry Collector or what takes the same: `hw.*` of the semantic
    conventions for hardware, and all series of `/metrics` as `pulsed.*`.

    OpenTelemetry's variables of the environment (`OTEL_EXPORTER_OTLP_*`) stand in for keys that are not set. What
    cannot be delivered is tried again for two minutes.
    """

    url: ReceiverUrl | None = setting(
        None,
        "Its URL with the path. Unset: `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT` with "
        "`/v1/metrics` behind it, or `http://localhost:4318/v1/metrics`.",
        example="http://collector.example:4318/v1/metrics",
        hidden=True,
    )
    headers: HeaderTable = setting(
        {}, "Headers of every request, such as the tenant.", example={"X-Scope-OrgID": "gpus"}, hidden=True
    )
    bearer_token_file: FileName | None = setting(
        None, "File with a bearer token, read for every request.", example="/etc/pulsed/receiver-token"
    )
    ca_file: FileName | None = setting(
        None, "PEM file of trusted authorities. Unset: the system's.", example="/etc/pulsed/ca.pem"
    )
    cert_file: FileName | None = setting(None, "PEM file of the client certificate.", example="/etc/pulsed/client.pem")
    key_file: FileName | None = setting(
        None, "PEM file of its key. Unset: in `cert_file`.", example="/etc/pulsed/client.key"
    )
    insecure_skip_verify: Switch = setting(False, "Accept any server certificate.")
    enabled: Switch = setting(False, "Whether anything is sent.")
    protocol: Literal["http/protobuf", "http/json"] | None = setting(
        None, "Unset: `OTEL_EXPORTER_OTLP_PROTOCOL`, or `http/protobuf`.", example="http/json"
    )
    compression: Literal["gzip", "none"] | None = setting(
        None, "Unset: `OTEL_EXPORTER_OTLP_COMPRESSION`, or `gzip`.", example="none"
    )
    interval: Duration | None = setting(
        None, "Time between two points of a series. Unset: `OTEL_METRIC_EXPORT_INTERVAL`, or 60s.", example="15s"
    )
    timeout: Duration | None = setting(None, "Of a request. Unset: `OTEL_EXPORTER_OTLP_TIMEOUT`, or 10s.", example="5s")
    attributes: AttributeTable = setting(
        {},
        "Attributes of the resource, before those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`. Own ones: "
        "`service.name` `pulsed`, `service.version`, and the node as `service.instance.id` and `host.name`.",
        example={"deployment.environment.name": "production"},
    )

    @property
    def certificates(self) -> tuple[str, str, str]:
        """As in `Receiver`."""
        return (self.ca_file or "", self.cert_file or "", self.key_file or "")

    def plan(self, environment: Mapping[str, str]) -> OtlpPlan | None:
        """Return how series are sent, None if they are not; raise `BadVariable`."""
        if not self.enabled:
            return None
        variables = _Variables(environment)
        protocol: str = self.protocol or variables.of_exporter("PROTOCOL", _protocol) or "http/protobuf"
        packing: str = self.compression or variables.of_exporter("COMPRESSION", _compression) or "gzip"
        certificates = self.certificates
        if not any(certificates):
            authorities, certificate, key = (
                variables.of_exporter(name, _text) or "" for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
            )
            certificates = (authorities, certificate, key)
        return OtlpPlan(
            Receiver(
                self.url or variables.endpoint(),
                {**(variables.of_exporter("HEADERS", _pairs) or {}), **self.headers},
                self.bearer_token_file,
                certificates,
                not self.insecure_skip_verify,
                self.timeout or variables.of_exporter("TIMEOUT", _milliseconds) or 10.0,
            ),
            self.interval or variables.parsed("OTEL_METRIC_EXPORT_INTERVAL", _milliseconds) or 60.0,
            protocol == "http/json",
            packing == "gzip",
            {**variables.resource(), **self.attributes},
        )

    def problems(self) -> Iterator[Problem]:
        """Yield a key without its certificate, and variables of the environment that cannot be used."""
        if self.key_file is not None and self.cert_file is None:
            yield "key_file", "needs its certificate too; set cert_file"
        try:
            self.plan(os.environ)
        except BadVariable as error:
            yield "enabled", f"needs variables of the environment that can be used: {error}"

    def unusable(self) -> Iterator[Problem]:
        """Yield files that cannot be read."""
        try:
            if self.bearer_token_file is not None:
                read_token(self.bearer_token_file)
        except BadCredentials as error:
            yield "bearer_token_file", f"{error}; name a file that pulsed's user may read"
        for key, files in (("ca_file", (self.ca_file or "",)), ("cert_file", ("", *self.certificates[1:]))):
            if any(files):
                try:
                    ClientTls(*files).context()
                except BadTlsFiles as error:
                    yield key, f"{error.files} cannot be used: {error.reason}; name PEM files that belong together"


class _Variables:
    """OpenTelemetry's variables; an empty one is as good as none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def parsed(self, name: str, parse: Callable[[str], _T]) -> _T | None:
        text = self._environment.get(name, "").strip()
        try:
            return parse(text) if text else None
        except ValueError as error:
            shown = "" if name.endswith("HEADERS") or "@" in text else f" is {text!r}:"
            raise BadVariable(f"{name}{shown} {error}") from None

    def of_exporter(self, name: str, parse: Callable[[str], _T]) -> _T | None:
        """Return the value for metrics, else that for all signals."""
        of_metrics = self.parsed(f"OTEL_EXPORTER_OTLP_METRICS_{name}", parse)
        return self.parsed(f"OTEL_EXPORTER_OTLP_{name}", parse) if of_metrics is None else of_metrics

    def endpoint(self) -> str:
        whole = self.parsed("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", receiver_url)
        base = self.parsed("OTEL_EXPORTER_OTLP_ENDPOINT", receiver_url) or "http://localhost:4318"
        return whole or f"{base.rstrip('/')}/v1/metrics"

    def resource(self) -> Mapping[str, str]:
        name = self.parsed("OTEL_SERVICE_NAME", _text)
        pairs = self.parsed("OTEL_RESOURCE_ATTRIBUTES", _pairs) or {}
        return {**pairs, **({"service.name": name} if name else {})}


def _text(text: str) -> str:
    return text


def _protocol(text: str) -> str:
    if text == "grpc":
        raise ValueError("pulsed sends OTLP over HTTP; use http/protobuf, and the receiver's port for HTTP, often 4318")
    if text not in ("http/protobuf", "http/json"):
        raise ValueError("use http/protobuf or http/json")
    return text


def _compression(text: str) -> str:
    if text not in ("gzip", "none"):
        raise ValueError("use gzip or none")
    return text


def _milliseconds(text: str) -> float:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError("use milliseconds, a whole number above 0")
    return int(text) / 1000


def _pairs(text: str) -> dict[str, str]:
    """Return `name=value` pairs with commas between them; names and values are percent-encoded."""
    found: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError("use name=value pairs with commas between them")
        found[unquote(name.strip())] = one_line(unquote(value.strip()))
    return found
