"""Notifies owners of GPUs of findings: a program or a webhook receives each of them once.

A receiver that fails or hangs has no other effect: its notifications wait in a bounded list, are sent again for some
minutes, and are counted when they are dropped. A finding that no receiver got is sent again an hour later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from pulsed.background_tasks import aligned_sleep
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.feature import Feature, FeatureParts, Section
from pulsed.die_with_parent import CANNOT_RUN, NOT_FOUND, dying_with_parent
from pulsed.durations import HOUR
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls
from pulsed.json_text import json_bytes
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.owner import Owner
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.saved_accounts import AccountKey, account_key
from pulsed.present.notification import NotifySettings, OwnerFinding, notification, owner_findings, slack_message

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Seconds between two looks for findings."""

_OWN_VARIABLES = ("PULSED_", "OTEL_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_", "CREDENTIALS_DIRECTORY")
"""Beginnings of the names of variables that are for pulsed itself, which the program does not get."""

RECEIVER_SECONDS = 30.0
"""Time limit of a program, and of a request."""

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 20.0
"""Pause after the first attempt that failed; each further one doubles it."""

MAX_WAITING = 100
"""Limit of the queue of a receiver; the oldest notification is dropped."""

MAX_SHARE = 0.25
"""One user's share of `notify.max_per_hour`, but at least one notification."""

Document = Mapping[str, Any]


class NotDelivered(Exception):
    """A receiver has not taken a document; the text has the reason."""


@dataclass(slots=True, eq=False)
class _Notice:
    """The notification of a finding, and the number of receivers that have not yet taken or dropped it."""

    account: AccountKey
    kind: str
    document: Document
    receivers: int


@dataclass(slots=True, eq=False)
class _Delivery:
    """A notification for one receiver, due at a monotonic time."""

    notice: _Notice
    due: float = 0.0
    attempts: int = 0


class Notify(Feature):
    """Sends a notification for each finding of an owner while the configuration has a receiver.

    Attributes:
        results: deliveries by receiver and result: `sent`, `failed`, `dropped`.
    """

    name = "notify"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._active = parts.store, parts.active
        self._accounts = parts.feature(AccountsFeature)
        self._notified: dict[AccountKey, set[str]] = {}
        self._held_until: dict[tuple[AccountKey, str], float] = {}
        self._sent_to: deque[tuple[float, str]] = deque()
        self._is_limited = False
        self._send: Mapping[str, Callable[[Document], Awaitable[None]]] = {
            "exec": self._run_program,
            "webhook": self._post,
        }
        self._waiting: Mapping[str, deque[_Delivery]] = {receiver: deque() for receiver in self._send}
        self.results: Counter[tuple[str, str]] = Counter()

    @property
    def _settings(self) -> NotifySettings:
        return self._active.config.notify

    def sections(self) -> Iterator[Section]:
        """Yield which findings have a notification, so that a restart sends none again."""
        yield Section("notified", lambda: sum(map(len, self._notified.values())), self._dump, self._load)

    def metrics(self, now: Monotonic) -> Iterator[Metric]:
        """Yield the family of notifications."""
        if self._settings.is_on or self.results:
            yield notification_family(self.results)

    async def run(self) -> None:
        """Look for findings, and send notifications, until cancelled."""
        sending: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                await aligned_sleep(LOOK_SECONDS)
                if self._settings.is_on:
                    self.queue_findings(Monotonic(time.monotonic()))
                    for receiver in self._send:
                        if receiver not in sending or sending[receiver].done():
                            sending[receiver] = tasks.create_task(self.deliver(receiver))

    def queue_findings(self, now: Monotonic) -> None:
        """Queue new findings at a monotonic time, users with the fewest notifications first; the rest waits."""
        keys = {account_key(account) for account in self._accounts.accounting.unfinished}
        self._notified = {key: kinds for key, kinds in self._notified.items() if key in keys}
        self._held_until = {key: until for key, until in self._held_until.items() if until > now}
        while self._sent_to and self._sent_to[0][0] <= now - HOUR:
            self._sent_to.popleft()
        findings = list(self._new_findings())
        counts = Counter(user for _, user in self._sent_to)
        limit = self._settings.max_per_hour
        share = max(1, int(MAX_SHARE * limit))
        is_limited = False
        while findings:
            account, finding = findings.pop(
                min(range(len(findings)), key=lambda at: counts[_notified_user(findings[at][0].owner)])
            )
            user = _notified_user(account.owner)
            if len(self._sent_to) >= limit or counts[user] >= share:
                is_limited = True
                break
            counts[user] += 1
            self._sent_to.append((now, user))
            self._queue(account, finding)
        if is_limited and not self._is_limited:
            log.warning(
                "notifications of owners wait for the next hour", extra={"max_per_hour": limit, "per_user": share}
            )
        self._is_limited = is_limited

    def _new_findings(self) -> Iterator[tuple[OwnerAccount, OwnerFinding]]:
        """Yield the findings that have no notification."""
        for account in self._accounts.accounting.running:
            key = account_key(account)
            for finding in owner_findings(account, self._settings.idle_after):
                is_done = finding.kind in self._notified.get(key, ()) or (key, finding.kind) in self._held_until
                if finding.kind in self._settings.findings and not is_done:
                    yield account, finding

    def _queue(self, account: OwnerAccount, finding: OwnerFinding) -> None:
        """Queue the notification of a finding for each receiver."""
        from pulsed.present.api.account_documents import account_document

        is_on = {"exec": bool(self._settings.exec), "webhook": self._settings.webhook.is_on}
        receivers = [name for name in self._send if is_on[name]]
        config, node = self._active.config, self._store.node
        shown = account_document(account, node, config.prices)
        document = notification(finding, shown, node, time.time(), config.web.external_url)
        notice = _Notice(account_key(account), finding.kind, document, len(receivers))
        self._held_until[notice.account, notice.kind] = inf
        for receiver in receivers:
            waiting = self._waiting[receiver]
            if len(waiting) >= MAX_WAITING:
                self._drop(receiver, waiting.popleft().notice)
            waiting.append(_Delivery(notice))

    def _drop(self, receiver: str, notice: _Notice) -> None:
        """Count a notification that a receiver does not get; if none got it, it is queued again in an hour."""
        self.results[receiver, "dropped"] += 1
        notice.receivers -= 1
        if not notice.receivers:
            self._held_until[notice.account, notice.kind] = time.monotonic() + HOUR

    async def deliver(self, receiver: str) -> None:
        """Send what is due at a receiver, in its order, until it fails."""
        waiting = self._waiting[receiver]
        for each in [each for each in waiting if each.due <= time.monotonic()]:
            if each not in waiting:
                continue
            waiting.remove(each)
            each.attempts += 1
            try:
                await self._send[receiver](each.notice.document)
            except NotDelivered as error:
                self._requeue(receiver, each, str(error))
                return
            self.results[receiver, "sent"] += 1
            notice = each.notice
            self._notified.setdefault(notice.account, set()).add(notice.kind)
            notice.receivers -= 1
            if not notice.receivers:
                del self._held_until[notice.account, notice.kind]

    def _requeue(self, receiver: str, delivery: _Delivery, error: str) -> None:
        """Queue a notification that was not delivered again, unless that was the last attempt."""
        attempts, is_last = delivery.attempts, delivery.attempts >= ATTEMPTS
        self.results[receiver, "failed"] += 1
        log.warning(
            "a notification of an owner could not be delivered",
            extra={"receiver": receiver, "error": error, "attempt": attempts, "last": is_last},
        )
        if is_last:
            self._drop(receiver, delivery.notice)
        else:
            delivery.due = time.monotonic() + FIRST_PAUSE_SECONDS * 2 ** (attempts - 1)
            self._waiting[receiver].append(delivery)

    async def _run_program(self, document: Document) -> None:
        """Run the program; its messages go to pulsed's own output."""
        if not self._settings.exec:
            return
        with os.fdopen(os.memfd_create("notification"), "w+b") as stdin:  # a program need not read it
            stdin.write(json_bytes(document) + b"\n")
            stdin.seek(0)
            try:
                # The event loop waits until a child has executed its program: here Python's, whose file system answers.
                process = await asyncio.create_subprocess_exec(
                    *dying_with_parent(self._settings.exec),
                    stdin=stdin,
                    stdout=asyncio.subprocess.DEVNULL,
                    env={name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise NotDelivered(f"{self._settings.exec[0]} cannot be run: {error}") from None
        try:
            async with asyncio.timeout(RECEIVER_SECONDS):
                await process.wait()
        except TimeoutError:
            raise NotDelivered(f"{self._settings.exec[0]} took more than {RECEIVER_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode in (CANNOT_RUN, NOT_FOUND):
            raise NotDelivered(f"{self._settings.exec[0]} cannot be run")
        if process.returncode:
            raise NotDelivered(f"{self._settings.exec[0]} ended with {process.returncode}")

    async def _post(self, document: Document) -> None:
        from pulsed.http.client import HttpClient, Request, answer_of  # takes 9 MB
        from pulsed.http.failure import HttpRequestFailed

        webhook = self._settings.webhook
        if not webhook.is_on:
            return
        body = json_bytes(slack_message(document) if webhook.format == "slack" else document)
        try:
            client, files = HttpClient(0.0, uses_proxies=True), f"{webhook.url_file} {webhook.bearer_token_file}"
            try:
                url, secrets = await client.read_secrets(
                    files, lambda: (webhook.current_url(), webhook.authorization())
                )
                request = Request(
                    url,
                    {"Content-Type": "application/json"},
                    secrets,
                    ClientTls(webhook.ca_file or ""),
                    "POST",
                    body,
                )
                async with asyncio.timeout(RECEIVER_SECONDS), client.open(request) as response:
                    answer = answer_of(response)  # what follows the head is not read
            finally:
                await client.close()
        except TimeoutError:
            raise NotDelivered(f"the webhook did not answer in {RECEIVER_SECONDS:g} s") from None
        except (HttpRequestFailed, BadCredentials, BadTlsFiles) as error:
            raise NotDelivered(str(error)) from None
        if not 200 <= answer.status < 300:
            raise NotDelivered(f"the webhook answered {answer.status} {answer.reason}".rstrip())

    def _dump(self) -> object:
        return [[*key, sorted(kinds)] for key, kinds in self._notified.items()]

    def _load(self, saved: object) -> None:
        try:
            if not isinstance(saved, list):
                raise TypeError
            self._notified = {
                (str(kind), str(id), Unix(float(begin))): {str(each) for each in kinds}
                for kind, id, begin, kinds in saved
            }
        except (TypeError, ValueError):
            raise ValueError("not a list of owners and findings") from None


def _notified_user(owner: Owner) -> str:
    """Return whose share of the notifications an owner uses: the namespace's of a pod, otherwise the user's."""
    return owner.namespace if owner.kind == "pod" else owner.user or owner.user_id or owner.kind


def notification_family(results: Mapping[tuple[str, str], int]) -> Metric:
    """Return the family of notifications."""
    family = CounterMetricFamily(
        "pulsed_notifications",
        "Notifications about owners by receiver (exec, webhook) and result (sent, failed, dropped)",
        labels=["receiver", "result"],
    )
    for (receiver, result), count in sorted(results.items()):
        family.add_metric([receiver, result], count)
    return family
