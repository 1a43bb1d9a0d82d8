"""OpenTelemetry's exporter with the receiver and credentials of the configuration."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from pulsed.http.credentials import BadCredentials, read_token
from pulsed.present.otlp.settings import OtlpSettings

log = logging.getLogger(__name__)

MAX_BATCH = 2000
"""Points of a request."""


def exporter(settings: OtlpSettings, on_refused: Callable[[int], None]) -> OTLPMetricExporter:
    """Return an exporter; what is not set follows OpenTelemetry's variables of the environment.

    Args:
        on_refused: called with the number of points that the receiver refuses in an answer of success, which the
            exporter itself does not count.
    """

    def read_answer(response: requests.Response, **_: object) -> None:
        with contextlib.suppress(DecodeError):  # a receiver with an answer of its own has accepted all points
            refusal = ExportMetricsServiceResponse.FromString(response.content if response.ok else b"").partial_success
            if refusal.rejected_data_points:
                log.warning("otlp: points are refused", extra={"error": refusal.error_message[:500]})
                on_refused(refusal.rejected_data_points)

    session = _Session()
    session.hooks["response"].append(read_answer)
    session.trust_env = False  # otherwise REQUESTS_CA_BUNDLE goes before `ca_file`, and .netrc before the token
    if settings.bearer_token_file is not None:
        session.auth = _BearerToken(settings.bearer_token_file)
    is_packed = not any(os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}COMPRESSION") for kind in ("", "METRICS_"))
    otlp_exporter = OTLPMetricExporter(
        settings.url,
        settings.ca_file,
        settings.key_file,
        settings.cert_file,
        headers=settings.headers,
        timeout=settings.request_timeout,
        compression=Compression.Gzip if is_packed else None,
        session=session,
        max_export_batch_size=MAX_BATCH,
    )
    if settings.insecure_skip_verify:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        session.verify = False
    return otlp_exporter


class _Session(requests.Session):
    """A session whose errors, which the exporter logs, do not repeat the query of the URL."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request."""
        try:
            return super().send(request, **options)
        except requests.RequestException as error:
            query = urlsplit(request.url or "").query
            text = str(error).replace(query, "***") if query else str(error)
            raise type(error)(text, request=request) from None


class _BearerToken(requests.auth.AuthBase):
    """Adds the token of a file that is read for every request."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        try:
            request.headers["Authorization"] = f"Bearer {read_token(self._file)}"
        except BadCredentials as error:
            raise requests.RequestException(str(error)) from error
        return request
