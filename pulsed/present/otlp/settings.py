"""Settings of OTLP, and OpenTelemetry's variables of the environment, which stand in for keys that are not set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from pulsed.config.settings import Kind, Problem, Settings, TableKind, setting
from pulsed.config.values import Duration, FileName, SecretFileName, Switch, matching
from pulsed.http.credentials import authorization, unusable_files


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


@dataclass(frozen=True, slots=True)
class OtlpSettings(Settings):
    """Sends metrics by OTLP/HTTP, to the OpenTelemetry Collector or what takes the same: `hw.*` of the semantic
    conventions for hardware, and all series of `/metrics` as `pulsed.*`.

    Needs the extra `pulsed[otlp]`. OpenTelemetry's variables of the environment (`OTEL_EXPORTER_OTLP_*`) stand in for
    keys that are not set. What cannot be delivered within `timeout` is dropped; the next interval sends newer values.
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
    bearer_token_file: SecretFileName | None = setting(
        None, "File with a bearer token, read at every interval.", example="/etc/pulsed/receiver-token"
    )
    ca_file: FileName | None = setting(
        None, "PEM file of trusted authorities. Unset: the system's.", example="/etc/pulsed/ca.pem"
    )
    cert_file: FileName | None = setting(None, "PEM file of the client certificate.", example="/etc/pulsed/client.pem")
    key_file: SecretFileName | None = setting(
        None, "PEM file of its key. Unset: in `cert_file`.", example="/etc/pulsed/client.key"
    )
    insecure_skip_verify: Switch = setting(False, "Accept any server certificate.")
    enabled: Switch = setting(False, "Whether anything is sent.")
    interval: Duration | None = setting(
        None, "Time between two points of a series. Unset: `OTEL_METRIC_EXPORT_INTERVAL`, or 60s.", example="15s"
    )
    timeout: Duration | None = setting(
        None, "Of a request with its retries. Unset: `OTEL_EXPORTER_OTLP_TIMEOUT`, or 10s.", example="5s"
    )
    attributes: AttributeTable = setting(
        {},
        "Attributes of the resource; they take precedence over `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`.",
        example={"deployment.environment.name": "production"},
    )

    @property
    def export_interval(self) -> float:
        """Seconds between two points of a series."""
        return self.interval or _milliseconds("OTEL_METRIC_EXPORT_INTERVAL") or 60.0

    @property
    def request_timeout(self) -> float:
        """Seconds for a request with its retries."""
        return self.timeout or next(filter(None, map(_milliseconds, _of_exporter("TIMEOUT"))), 10.0)

    def problems(self) -> Iterator[Problem]:
        """Yield a key without its certificate, a missing package, and variables of the environment that are invalid."""
        if self.key_file is not None and self.cert_file is None:
            yield "key_file", "needs its certificate too; set cert_file"
        if not self.enabled:
            return
        if not _is_installed():
            yield (
                "enabled",
                "needs the Python package opentelemetry-exporter-otlp-proto-http, which is not installed; install it "
                "with pip install 'pulsed[otlp]'",
            )
        for name in _of_exporter("PROTOCOL"):
            if (value := os.environ.get(name, "").strip()) not in ("", "http/protobuf"):
                yield (
                    "enabled",
                    f"needs variables of the environment that can be used: {name} is {value!r}: pulsed sends OTLP over "
                    "HTTP; use http/protobuf, and the receiver's port for HTTP, often 4318",
                )
        for name in ("OTEL_METRIC_EXPORT_INTERVAL", *_of_exporter("TIMEOUT")):
            try:
                _milliseconds(name)
            except ValueError as error:
                yield "enabled", f"needs variables of the environment that can be used: {error}"

    def unusable(self) -> Iterator[Problem]:
        """Yield files that cannot be read."""
        secrets = {"bearer_token_file": lambda: authorization("", self.bearer_token_file)}
        yield from unusable_files(secrets, self.ca_file, self.cert_file, self.key_file)


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # a package above it
        return False


def _of_exporter(name: str) -> tuple[str, str]:
    """Return the variables for metrics, and for all signals."""
    return f"OTEL_EXPORTER_OTLP_METRICS_{name}", f"OTEL_EXPORTER_OTLP_{name}"


def _milliseconds(name: str) -> float | None:
    """Return the value of a variable in seconds; raises `ValueError`."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"{name} is {text!r}: use milliseconds, a whole number above 0")
    return int(text) / 1000
