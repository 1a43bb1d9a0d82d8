"""The section `notify` of the configuration: receivers of notifications about findings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pulsed.config.settings import ListKind, Problem, Settings, setting, without
from pulsed.config.values import Duration, FileName, PositiveCount, SecretFileName, not_empty
from pulsed.durations import HOUR
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls, authorization, read_token
from pulsed.present.notification import FINDING_KINDS
from pulsed.present.otlp.settings import ReceiverUrl, receiver_url


def _finding(value: str) -> str:
    if value not in FINDING_KINDS:
        raise ValueError("is not a finding")
    return value


CommandLine = Annotated[
    tuple[str, ...],
    ListKind("hook", "a program and its arguments, such as [/usr/local/bin/mail-owner, --verbose]", not_empty, "text"),
]
Findings = Annotated[tuple[str, ...], ListKind("findings", ", ".join(FINDING_KINDS), _finding, "text", words=True)]


@dataclass(frozen=True, slots=True)
class WebhookSettings(Settings):
    """A receiver of HTTP POST requests."""

    url: ReceiverUrl | None = setting(None, "Its URL.", example="https://hooks.example.org/pulsed", hidden=True)
    url_file: SecretFileName | None = setting(
        None, "File with its URL, where that is a secret, as that of Slack.", example="/etc/pulsed/slack-url"
    )
    format: Literal["document", "slack"] = setting(
        "document", "`document`: all as JSON; `slack`: title and text for Slack's webhooks."
    )
    bearer_token_file: SecretFileName | None = setting(
        None, "File with a bearer token, read for every request.", example="/etc/pulsed/webhook-token"
    )
    ca_file: FileName | None = setting(
        None, "PEM file of trusted authorities. Unset: the system's.", example="/etc/pulsed/ca.pem"
    )

    @property
    def is_on(self) -> bool:
        """Whether it has a URL."""
        return self.url is not None or self.url_file is not None

    def current_url(self) -> str:
        """Return the URL.

        Raises:
            BadCredentials: its file has none.
        """
        if self.url_file is None:
            return self.url or ""
        try:
            return receiver_url(read_token(self.url_file))
        except ValueError as error:
            raise BadCredentials(f"the content of {self.url_file} {error}") from None

    def authorization(self) -> dict[str, str]:
        """Return the header of the token, or of the login in the URL; empty without either.

        Raises:
            BadCredentials: a file has none.
        """
        return authorization(self.current_url(), self.bearer_token_file)

    def problems(self) -> Iterator[Problem]:
        """Yield two URLs."""
        if self.url is not None and self.url_file is not None:
            yield "url_file", "cannot be set together with url; set one of them"

    def without_effect(self) -> Iterator[Problem]:
        """Yield all other keys of a webhook without a URL."""
        if not self.is_on:
            yield from ((key, "it needs url or url_file") for key, _ in without(self, "url") if key != "url_file")

    def unusable(self) -> Iterator[Problem]:
        """Yield files that cannot be read."""
        for key, read in (("url_file", self.current_url), ("bearer_token_file", self.authorization)):
            try:
                read()
            except BadCredentials as error:
                yield key, f"{error}; name a file that pulsed's user may read"
        try:
            if self.ca_file is not None:
                ClientTls(self.ca_file).context()
        except BadTlsFiles as error:
            yield "ca_file", f"{error.files} cannot be used: {error.reason}; name a PEM file"


@dataclass(frozen=True, slots=True)
class NotifySettings(Settings):
    """Notifies owners, by a program or a webhook, of what is wrong with their jobs and pods, once for each finding.

    Alerts of Prometheus are for operators; this is for owners. Off until a program or a URL is set.
    """

    exec: CommandLine = setting(
        (),
        "Program with arguments; it gets one JSON document on standard input.",
        example=["/etc/pulsed/mail-owner"],
    )
    webhook: WebhookSettings = setting(WebhookSettings(), "A receiver of HTTP requests.")
    findings: Findings = setting(
        FINDING_KINDS,
        "Findings with a notification; `held_idle`: idle for `idle_after` after work.",
    )
    idle_after: Duration = setting(HOUR, "How long a GPU that had worked must have been idle.")
    max_per_hour: PositiveCount = setting(20, "Maximum number of notifications per hour.")

    @property
    def is_on(self) -> bool:
        """Whether there is a receiver."""
        return bool(self.exec) or self.webhook.is_on

    def without_effect(self) -> Iterator[Problem]:
        """Yield all other keys without a receiver."""
        if not self.is_on:
            yield from ((key, "it needs exec or webhook.url") for key in ("findings", "idle_after", "max_per_hour"))

    def unusable(self) -> Iterator[Problem]:
        """Yield a program that cannot be run."""
        if self.exec and shutil.which(self.exec[0]) is None:
            yield (
                "exec",
                f"names {self.exec[0]!r}, which is not a program that this user may run; give its absolute path",
            )
