"""Notifies owners of GPUs of findings: a program or a webhook receives each of them once.

A receiver that fails has no other effect: notifications wait in a bounded list, are sent again for some minutes, and
are counted when they are dropped.
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
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from pulsed.background_tasks import aligned_sleep
from pulsed.config.configuration import Config
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.feature import Feature, FeatureParts, Section
from pulsed.durations import HOUR
from pulsed.http.credentials import BadCredentials, BadTlsFiles, ClientTls
from pulsed.json_text import json_bytes
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
"""Limit of the queue; the oldest notification is dropped."""

Document = Mapping[str, Any]


class NotDelivered(Exception):
    """A receiver has not taken a document; the text has the reason."""


@dataclass(slots=True, eq=False)
class _Delivery:
    """A document for a receiver, `exec` or `webhook`, due at a monotonic time."""

    receiver: str
    document: Document
    due: float
    attempts: int = 0


class Notify(Feature):
    """Sends a notification for each finding of an owner while the configuration has a receiver.

    Attributes:
        results: deliveries by receiver and result: `sent`, `failed`, `dropped`.
    """

    name = "notify"

    def __init__(self, parts: FeatureParts) -> None:
        self._store, self._config = parts.store, parts.config
        self._accounts = parts.feature(AccountsFeature)
        self._notified: dict[AccountKey, set[str]] = {}
        self._times: deque[float] = deque()
        self._waiting: deque[_Delivery] = deque()
        self._send: Mapping[str, Callable[[Document], Awaitable[None]]] = {
            "exec": self._run_program,
            "webhook": self._post,
        }
        self.results: Counter[tuple[str, str]] = Counter()

    @property
    def _settings(self) -> NotifySettings:
        return self._config.notify

    def apply(self, config: Config) -> None:
        """Send by a configuration from now on."""
        self._config = config

    def sections(self) -> Iterator[Section]:
        """Yield which findings have a notification, so that a restart sends none again."""
        yield Section("notified", lambda: sum(map(len, self._notified.values())), self._dump, self._load)

    def metrics(self, now: float) -> Iterator[Metric]:
        """Yield the family of notifications."""
        if self._settings.is_on or self.results:
            yield notification_family(self.results)

    async def run(self) -> None:
        """Look for findings, and send notifications, until cancelled."""
        while True:
            await aligned_sleep(LOOK_SECONDS)
            if self._settings.is_on:
                self._queue_new_findings(time.monotonic())
                await self._deliver()

    def _queue_new_findings(self, now: float) -> None:
        """Queue a notification for each finding that is new."""
        running = self._accounts.accounting.running
        keys = {account_key(account) for account in self._accounts.accounting.unfinished}
        self._notified = {key: kinds for key, kinds in self._notified.items() if key in keys}
        for account in running:
            notified = self._notified.get(account_key(account), set())
            for finding in owner_findings(account, self._settings.idle_after):
                if finding.kind in self._settings.findings and finding.kind not in notified:
                    self._notified.setdefault(account_key(account), set()).add(finding.kind)
                    self._queue(account, finding, now)

    def _queue(self, account: OwnerAccount, finding: OwnerFinding, now: float) -> None:
        """Queue the notification of a finding for each receiver."""
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        is_on = {"exec": bool(self._settings.exec), "webhook": self._settings.webhook.is_on}
        receivers = [name for name in self._send if is_on[name]]
        if len(self._times) >= self._settings.max_per_hour:
            self._drop(receivers, "notify.max_per_hour is reached")
            return
        self._times.append(now)
        node, url = self._store.node, self._config.web.external_url
        from pulsed.present.api.account_documents import account_document

        shown = account_document(account, node, self._config.prices)
        document = notification(finding, shown, node, time.time(), url)
        for receiver in receivers:
            if len(self._waiting) >= MAX_WAITING:
                self._drop([self._waiting.popleft().receiver], "too many wait")
            self._waiting.append(_Delivery(receiver, document, now))

    def _drop(self, receivers: list[str], reason: str) -> None:
        for receiver in receivers:
            if not self.results[receiver, "dropped"]:
                log.warning("notifications of owners are dropped", extra={"receiver": receiver, "reason": reason})
            self.results[receiver, "dropped"] += 1

    async def _deliver(self) -> None:
        """Send what is due, in its order; a receiver that fails gets nothing more until the next time."""
        failed: set[str] = set()
        for each in [each for each in self._waiting if each.due <= time.monotonic()]:
            if each.receiver in failed or each not in self._waiting:
                continue
            self._waiting.remove(each)
            each.attempts += 1
            try:
                await self._send[each.receiver](each.document)
            except NotDelivered as error:
                failed.add(each.receiver)
                self._requeue(each, str(error))
            else:
                self.results[each.receiver, "sent"] += 1

    def _requeue(self, delivery: _Delivery, error: str) -> None:
        """Queue a notification that was not delivered again, unless that was the last attempt."""
        receiver, attempts = delivery.receiver, delivery.attempts
        is_last = attempts >= ATTEMPTS
        self.results[receiver, "failed"] += 1
        log.warning(
            "a notification of an owner could not be delivered",
            extra={"receiver": receiver, "error": error, "attempt": attempts, "last": is_last},
        )
        if is_last:
            self.results[receiver, "dropped"] += 1
        else:
            delivery.due = time.monotonic() + FIRST_PAUSE_SECONDS * 2 ** (attempts - 1)
            self._waiting.append(delivery)

    async def _run_program(self, document: Document) -> None:
        """Run the program; its messages go where those of pulsed go."""
        if not self._settings.exec:
            return
        with os.fdopen(os.memfd_create("notification"), "w+b") as stdin:  # a program need not read it
            stdin.write(json_bytes(document) + b"\n")
            stdin.seek(0)
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._settings.exec,
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
                (str(kind), str(id), float(begin)): {str(each) for each in kinds} for kind, id, begin, kinds in saved
            }
        except (TypeError, ValueError):
            raise ValueError("not a list of owners and findings") from None


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
