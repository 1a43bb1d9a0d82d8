"""Settings of remote write: where series are sent, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, masked, read_token
from pulsed.model.gpu import LABEL_NAME
from pulsed.settings import Duration, FileName, Kind, Problem, Settings, TableKind, matching, setting


def _receiver(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0
    except ValueError:  # an invalid bracket or port
        usable = None
    if not usable or parts.scheme not in ("http", "https"):
        raise ValueError("is not a URL with http:// or https:// and a host")
    return value


_LABEL_NAME = matching(LABEL_NAME, "is not the name of a label")
_HEADER_NAME = matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "is not the name of a header")
_ONE_LINE = matching(r"[^\x00-\x1f\x7f]*", "is not one line of text")

Receiver = Annotated[
    str, Kind("receiver", "a URL such as http://mimir.example/api/v1/push", _receiver, "text", shown=masked)
]
LabelTable = Annotated[
    Mapping[str, str],
    TableKind("series labels", "names and values of labels", _ONE_LINE, "text", parse_name=_LABEL_NAME),
]
HeaderTable = Annotated[
    Mapping[str, str],
    TableKind("headers", "names and values of headers", _ONE_LINE, "text", secret=True, parse_name=_HEADER_NAME),
]


@dataclass(frozen=True, slots=True)
class RemoteWriteSettings(Settings):
    """Sends all series of `/metrics` to a server as well, such as VictoriaMetrics or Mimir, by remote write 1.0.

    What cannot be delivered is tried again for two minutes. Series that end, and all when pulsed stops, get a stale
    marker.
    """

    url: Receiver | None = setting(
        None,
        "Its URL; a user and password in it are never shown. Unset: nothing is sent.",
        example="http://mimir.example/api/v1/push",
        hidden=True,
    )
    interval: Duration = setting(15.0, "Time between two samples of a series.")
    labels: LabelTable = setting(
        {},
        "Labels for series without a label of that name. `job` is `pulsed` and `instance` the node's name unless set "
        "here.",
        example={"cluster": "a"},
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

    def unusable(self) -> Iterator[Problem]:
        """Yield files that cannot be read."""
        try:
            if self.bearer_token_file is not None:
                read_token(self.bearer_token_file)
        except BadCredentials as error:
            yield "bearer_token_file", f"{error}; name a file that pulsed's user may read"
        if self.ca_file is not None:
            try:
                ClientTls(self.ca_file).context()
            except BadTlsFiles as error:
                yield "ca_file", f"{error.files} cannot be used: {error.reason}; name a PEM file"
