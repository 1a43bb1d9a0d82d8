"""Notifications of owners about findings: the section `notify` of the configuration, and what they have.

A notification names the finding, where it is and what to do, and has the report of the job.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from pulsed.config.settings import ListKind, Problem, Settings, setting, without
from pulsed.config.values import Duration, FileName, PositiveCount, SecretFileName, not_empty, one_of
from pulsed.durations import HOUR
from pulsed.http.credentials import BadCredentials, authorization, read_token, unusable_files
from pulsed.json_text import duration_text, rfc3339
from pulsed.model.gpu import node_of
from pulsed.owners.accounting.account import GpuAccount, OwnerAccount, OwnerCondition
from pulsed.owners.accounting.activity import WARM_UP_SECONDS
from pulsed.owners.report.job_advice import FINDING_TEXTS, IDLE_TEXT
from pulsed.owners.report.job_numbers import Account
from pulsed.owners.report.job_report import job_report, job_title
from pulsed.owners.report.verdict import verdict_of
from pulsed.present.otlp.settings import ReceiverUrl, receiver_url

FindingKind = Literal["held_idle", "leaked_memory", "hang", "gpu_lost"]
FINDING_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)


class OwnerFinding(NamedTuple):
    """A finding about GPUs of an owner: the evidence of the first one, and the remedy."""

    kind: FindingKind
    gpus: Sequence[GpuAccount]
    evidence: str
    remedy: str


def owner_findings(account: OwnerAccount, idle_after: float) -> Iterator[OwnerFinding]:
    """Yield the findings about the GPUs of an owner, such as being idle for `idle_after` seconds after work.

    A lost GPU stops the whole job: that it hangs, or holds idle GPUs, is a consequence and has no notification.
    """
    kinds: Sequence[FindingKind] = ("hang", "leaked_memory", "gpu_lost")
    raised = {kind: list(_raised(account, kind)) for kind in kinds}
    if raised["gpu_lost"]:
        raised["hang"] = []
    idle = [
        account.gpus[key]
        for key in account.holding
        if account.gpus[key].extremes.idle_run >= idle_after and account.gpus[key].extremes.worked >= WARM_UP_SECONDS
    ]
    if idle and not raised["gpu_lost"] and account.owner.is_known and not account.exempt:
        seconds = max(gpu.extremes.idle_run for gpu in idle)
        yield OwnerFinding(
            "held_idle", idle, f"idle for the last {duration_text(seconds)}, after it had worked", IDLE_TEXT
        )
    for kind, conditions in raised.items():
        if conditions:
            _, first = conditions[0]
            gpus = [gpu for gpu, _ in conditions]
            yield OwnerFinding(kind, gpus, first.message, FINDING_TEXTS.get(kind, first.remedy))


def _raised(account: OwnerAccount, check: str) -> Iterator[tuple[GpuAccount, OwnerCondition]]:
    """Yield the GPUs of an owner on which a check or finding is raised."""
    for gpu in account.gpus.values():
        condition = gpu.conditions.get(check)
        if condition is not None and condition.until is None:
            yield gpu, condition


def notification(
    finding: OwnerFinding, account: Account, node: str, time: float, external_url: str | None
) -> dict[str, Any]:
    """Return the document of a finding.

    Args:
        node: of this process.
        time: Unix time.
        external_url: of this daemon; None if unknown: there is no link.
    """
    names = [f"{node_of(gpu.device, node)}/{gpu.device.entity.gpu}" for gpu in finding.gpus]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    owner = f"{job_title(account)}: " if account["owner"]["kind"] != "nobody" else ""
    return {
        "verdict": verdict_of(account),
        "finding": finding.kind,
        "time": rfc3339(time),
        "node": node,
        "title": f"{owner}GPU {names[0]}{more}: {finding.evidence}",
        "remedy": finding.remedy,
        "gpus": names,
        "owner": account["owner"],
        "url": None if external_url is None else f"{external_url}/#/job/{quote(account['owner']['id'], safe='')}",
        "text": job_report(account),
    }


def slack_message(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a document as a webhook of Slack takes it."""
    verdict, title, remedy, text = (_escaped(document[name]) for name in ("verdict", "title", "remedy", "text"))
    link = f"\n<{document['url']}>" if document["url"] else ""
    return {"text": f"{verdict}\n*{title}*\n{remedy}{link}\n```{text}```"}


def _escaped(text: str) -> str:
    """Return a text without what Slack takes for its markup: `&`, links, mentions and the end of a block."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("```", "'''")


CommandLine = Annotated[
    tuple[str, ...],
    ListKind("hook", "a program and its arguments, such as [/usr/local/bin/mail-owner, --verbose]", not_empty, "text"),
]
Findings = Annotated[
    tuple[str, ...],
    ListKind("findings", ", ".join(FINDING_KINDS), one_of(FINDING_KINDS, "is not a finding"), "text", words=True),
]


@dataclass(frozen=True, slots=True)
class WebhookSettings(Settings):
    """A receiver of HTTP POST requests."""

    url: ReceiverUrl | None = setting(None, "Its URL.", example="https://hooks.example.org/pulsed", hidden=True)
    url_file: SecretFileName | None = setting(
        None, "File with its URL, if the URL is a secret, as for Slack.", example="/etc/pulsed/slack-url"
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
        secrets = {"url_file": self.current_url, "bearer_token_file": self.authorization}
        yield from unusable_files(secrets, self.ca_file, advice="name a PEM file")


@dataclass(frozen=True, slots=True)
class NotifySettings(Settings):
    """Notifies owners of problems of their jobs and pods, by a program or a webhook, once for each finding.

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
    max_per_hour: PositiveCount = setting(
        20, "Maximum number of notifications per hour, a quarter of them for one user or namespace. More wait."
    )

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
