"""Settings of pushing: where series are sent, how often, and what a request needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, read_token
from pulsed.model.gpu import LABEL_NAME
from pulsed.push.pusher import Receiver
from pulsed.push.remote_write import RemoteWritePlan
from pulsed.settings import Duration, FileName, Kind, Problem, Settings, Switch, TableKind, matching, setting


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


_LABEL_NAME = matching(LABEL_NAME, "is not the name of a label")
_HEADER_NAME = matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "is not the name of a header")
one_line = matching(r"[^\x00-\x1f\x7f]*", "is not one line of text")

ReceiverUrl = Annotated[str, Kind("receiver", "a URL such as http://mimir.example/api/v1/push", receiver_url, "text")]
LabelTable = Annotated[
    Mapping[str, str],
    TableKind("series labels", "names and values of labels", one_line, "text", parse_name=_LABEL_NAME),
]
HeaderTable = Annotated[
    Mapping[str, str],
    TableKind("headers", "names and values of headers", one_line, "text", secret=True, parse_name=_HEADER_NAME),
]


@dataclass(frozen=True, slots=True)
class RequestSettings(Settings):
    """What every request has."""

    url: ReceiverUrl | None = setting(
        None,
        "Its URL; a user and password in it are never shown. Unset: nothing is sent.",
        example="http://mimir.example/api/v1/push",
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

    @property
    def certificates(self) -> tuple[str, str, str]:
        """As in `Receiver`."""
        return (self.ca_file or "", self.cert_file or "", self.key_file or "")

    def problems(self) -> Iterator[Problem]:
        """Yield a key without its certificate."""
        if self.key_file is not None and self.cert_file is None:
            yield "key_file", "needs its certificate too; set cert_file"

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


@dataclass(frozen=True, slots=True)
class RemoteWriteSettings(RequestSettings):
    """Sends all series of `/metrics` to a server as well, such as VictoriaMetrics or Mimir, by remote write 1.0.

    What cannot be delivered is tried again for two minutes. Series that end, and all when pulsed stops, get a stale
    marker.
    """

    interval: Duration = setting(15.0, "Time between two samples of a series.")
    labels: LabelTable = setting(
        {},
        "Labels for series without a label of that name. `job` is `pulsed` and `instance` the node's name unless set "
        "here.",
        example={"cluster": "a"},
    )

    def plan(self, node: str) -> RemoteWritePlan | None:
        """Return how series are sent, None if they are not."""
        if self.url is None:
            return None
        certificates, is_verified = self.certificates, not self.insecure_skip_verify
        receiver = Receiver(self.url, self.headers, self.bearer_token_file, certificates, is_verified)
        return RemoteWritePlan(receiver, self.interval, {"job": "pulsed", "instance": node, **self.labels})
