"""What owners are told: each finding once, also over a restart, and what a receiver that fails costs."""

from __future__ import annotations

import asyncio
import http.server
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsed.background_tasks import aligned_sleep
from pulsed.config.configuration import ActiveConfig, Config
from pulsed.daemon import notify
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.changes import EventsFeature
from pulsed.daemon.notify import Notify
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.owner import Owner
from pulsed.model.target_store import TargetStore
from pulsed.owners.accounting.account import OwnerCondition
from pulsed.owners.settings import AccountsSettings
from pulsed.present.notification import NotifySettings, WebhookSettings, slack_message
from tests.compute.streams import BUSY, IDLE
from tests.daemon.parts import features_before_restore
from tests.owners.accounting.streams import Node
from tests.support.http_servers import QuietHandler, running
from tools.generate_docs import ROOT

ANN = Owner("slurm_job", "4711", user="ann")
HOOK = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('ab').write(sys.stdin.buffer.read())"


class Told:
    """A node whose owners are told by a program that writes down what it gets."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._file = folder / "told"
        given = {"exec": (sys.executable, "-c", HOOK, str(self._file))} | settings
        config = Config(notify=NotifySettings(**given), accounts=AccountsSettings())
        self.active = ActiveConfig(config)
        features = features_before_restore(TargetStore("here"), self.active, EventsFeature, AccountsFeature, Notify)
        accounts, feature = features.by_class[AccountsFeature], features.by_class[Notify]
        assert isinstance(accounts, AccountsFeature)
        assert isinstance(feature, Notify)
        self.feature, self.node = feature, Node(60.0, accounting=accounts.accounting)

    def works_and_stops(self, idle_minutes: int = 70, owner: Owner = ANN) -> None:
        """An owner works for 10 minutes on the first GPU, and then does nothing."""
        for minute in range(10 + idle_minutes):
            self.node.sees(((owner,), BUSY if minute < 10 else IDLE))

    def looks(self, times: int = 1, later: float = 0.0) -> list[Any]:
        """Look for findings, some seconds later than now; return all that was told so far."""

        async def look() -> None:
            for _ in range(times):
                self.feature.queue_findings(Monotonic(time.monotonic() + later))
                for receiver in ("exec", "webhook"):
                    await self.feature.deliver(receiver)

        asyncio.run(look())
        return [json.loads(line) for line in self._file.read_text().splitlines()] if self._file.exists() else []

    @property
    def results(self) -> dict[tuple[str, str], int]:
        return dict(self.feature.results)


def test_an_owner_of_an_idle_gpu_is_told_once(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.works_and_stops(50)
    assert told.looks() == []
    told.works_and_stops(70)
    (document,) = told.looks(3)
    assert document["finding"] == "held_idle"
    assert document["title"] == "Job 4711 (ann): GPU here/0: idle for the last 1 h 10 min, after it had worked"
    assert document["remedy"].startswith("Its program has ended")
    assert document["owner"]["user"] == "ann"
    assert document["text"].startswith("Job 4711 (ann)")
    assert document["url"] is None
    told.works_and_stops(70)
    assert len(told.looks()) == 1
    assert told.results == {("exec", "sent"): 1}


def test_one_that_has_never_worked_is_none(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for _ in range(100):
        told.node.sees(((ANN,), IDLE))
    assert told.looks() == []


@pytest.mark.parametrize("kind", ["hang", "leaked_memory", "gpu_lost"])
def test_findings_and_lost_gpus_are_told(tmp_path: Path, kind: str) -> None:
    told = Told(tmp_path)
    told.node.sees(((ANN,), BUSY))
    (gpu,) = told.node.running(ANN).gpus.values()
    gpu.conditions[kind] = OwnerCondition(kind, "crit", Unix(1.0), Unix(2.0), "it is over", "")
    assert told.looks() == []
    gpu.conditions[kind] = OwnerCondition(kind, "crit", Unix(1.0), None, "what was seen", "")
    (document,) = told.looks(2)
    assert (document["finding"], document["title"]) == (kind, "Job 4711 (ann): GPU here/0: what was seen")
    assert Told(tmp_path / "other", findings=("held_idle",)).looks() == []


def test_what_follows_from_a_lost_gpu_is_no_finding_of_its_own(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.works_and_stops(70)
    (gpu,) = told.node.running(ANN).gpus.values()
    for kind in ("hang", "gpu_lost"):
        gpu.conditions[kind] = OwnerCondition(kind, "crit", Unix(1.0), None, "what was seen", "")
    assert [document["finding"] for document in told.looks(3)] == ["gpu_lost"]


def test_a_restart_tells_nothing_again(tmp_path: Path) -> None:
    first = Told(tmp_path)
    first.works_and_stops()
    assert len(first.looks()) == 1
    (section,) = first.feature.sections()
    second = Told(tmp_path)
    (restored,) = second.feature.sections()
    restored.restore(json.loads(json.dumps(section.save())))
    second.works_and_stops()
    assert len(second.looks()) == 1
    wrong: object
    for wrong in (None, [1], [["slurm_job", "1", "x", []]], {}):
        with pytest.raises(ValueError, match="not a list of owners and findings"):
            restored.restore(wrong)


def test_another_owner_with_the_same_id_is_told(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.works_and_stops()
    told.looks()
    for _ in range(10):
        told.node.sees(((), IDLE))
    told.works_and_stops()
    assert len(told.looks()) == 2


def shared_gpu(told: Told, *owners: Owner) -> None:
    """Owners work for 10 minutes on a GPU that they share, and then do nothing."""
    for minute in range(80):
        told.node.sees((owners, BUSY if minute < 10 else IDLE))


def test_findings_beyond_the_limit_of_an_hour_wait_for_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(tmp_path, max_per_hour=2)
    shared_gpu(told, *(Owner("slurm_job", str(number), user=f"user {number}") for number in range(5)))
    assert len(told.looks(3)) == 2
    assert caplog.text.count("notifications of owners wait for the next hour") == 1
    shown = [document["owner"]["id"] for document in told.looks(later=3700.0)]
    assert len(set(shown)) == 4
    told.node.sees(((), IDLE))
    told.node.sees(((), IDLE))
    assert len(told.looks(later=7400.0)) == 4, "what has ended needs none"
    assert told.results == {("exec", "sent"): 4}


def test_a_user_has_a_share_of_the_hour(tmp_path: Path) -> None:
    told = Told(tmp_path, max_per_hour=8)
    flood = [Owner("pod", f"tenant/{number}/c", namespace="tenant", name=str(number)) for number in range(40)]
    shared_gpu(told, *flood, ANN)
    users = [document["owner"]["namespace"] or document["owner"]["user"] for document in told.looks(2)]
    assert users == ["tenant", "ann", "tenant"]
    assert len(told.looks(later=3700.0)) == 5


def test_what_no_receiver_got_is_sent_an_hour_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "FIRST_PAUSE_SECONDS", 0.0)
    told = Told(tmp_path, exec=("/nowhere/mail",))
    told.works_and_stops()
    told.looks(notify.ATTEMPTS + 2)
    (section,) = told.feature.sections()
    assert section.save() == []
    told.active.config = Told(tmp_path).active.config
    assert told.looks(later=3000.0) == []
    assert len(told.looks(later=3700.0)) == 1
    assert section.save() != []


def test_a_receiver_that_hangs_does_not_delay_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "LOOK_SECONDS", 0.05)

    async def hangs() -> list[str]:
        async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()  # until the client gives up
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(never, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            told = Told(tmp_path, webhook=WebhookSettings(url=url))
            work = asyncio.create_task(told.feature.run())
            for number in range(2):
                told.works_and_stops(owner=Owner("slurm_job", str(number)))
                async with asyncio.timeout(20):  # the webhook takes RECEIVER_SECONDS
                    while told.results.get(("exec", "sent"), 0) <= number:
                        await aligned_sleep(0.02)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await asyncio.sleep(0.1)
            return [receiver for receiver, _ in told.results]

    assert asyncio.run(hangs()) == ["exec"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/nowhere/mail",), "/nowhere/mail cannot be run"),
        (("/bin/sh", "-c", "exit 3"), "/bin/sh ended with 3"),
        (("/bin/sh", "-c", "sleep 600"), "/bin/sh took more than 0.2 s"),
    ],
)
def test_a_program_that_fails_is_tried_again_and_counted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    command: tuple[str, ...],
    reason: str,
) -> None:
    if "0.2 s" in reason:
        monkeypatch.setattr(notify, "RECEIVER_SECONDS", 0.2)
    monkeypatch.setattr(notify, "FIRST_PAUSE_SECONDS", 0.0)
    told = Told(tmp_path, exec=command)
    told.works_and_stops()
    told.looks(notify.ATTEMPTS + 2)
    assert told.results == {("exec", "failed"): notify.ATTEMPTS, ("exec", "dropped"): 1}
    assert {record.error for record in caplog.records} == {reason}  # type: ignore[attr-defined]


def test_a_program_that_does_not_read_takes_nothing(tmp_path: Path) -> None:
    told = Told(tmp_path, exec=("/bin/true",))
    told.works_and_stops()
    told.looks()
    assert told.results == {("exec", "sent"): 1}


def test_a_program_gets_no_secrets_of_pulsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSED_SOURCE__EXPORTER__PASSWORD", "geheim")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=geheim")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/geheim")
    monkeypatch.setenv("MAIL_SERVER", "mail.example")
    told = Told(tmp_path, exec=("/bin/sh", "-c", f"env >{tmp_path}/env"))
    told.works_and_stops()
    told.looks()
    text = (tmp_path / "env").read_text()
    assert "MAIL_SERVER=mail.example" in text
    assert "geheim" not in text


class Receiver(http.server.HTTPServer):
    """A receiver of webhooks: what it got, and the status that it answers."""

    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ReceiverHandler)
        self.requests: list[tuple[str, str | None, Any]] = []


class ReceiverHandler(QuietHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    with running(server):
        yield server


def test_a_webhook_gets_the_document(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "token").write_text("abc\n")
    url = f"http://127.0.0.1:{receiver.server_port}/hook"
    webhook = WebhookSettings(url=url, bearer_token_file=str(tmp_path / "token"))
    told = Told(tmp_path, exec=(), webhook=webhook)
    told.works_and_stops()
    told.looks(2)
    ((path, authorization, document),) = receiver.requests
    assert (path, authorization, document["finding"]) == ("/hook", "Bearer abc", "held_idle")
    assert told.results == {("webhook", "sent"): 1}


def test_slack_gets_its_own_format_at_a_secret_url(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 500
    (tmp_path / "url").write_text(f"http://127.0.0.1:{receiver.server_port}/services/T0/B0/secret\n")
    told = Told(tmp_path, exec=(), webhook=WebhookSettings(url_file=str(tmp_path / "url"), format="slack"))
    told.works_and_stops(owner=Owner("slurm_job", "4711", name="<!channel> & ```x"))
    told.looks()
    ((_, _, message),) = receiver.requests
    assert message.keys() == {"text"}
    verdict, _, rest = message["text"].partition("\n")
    assert verdict.startswith("10 % real utilization on 1 GPU, but idle tail: ")
    assert rest.startswith("*Job 4711  &lt;!channel&gt; &amp; '''x: GPU here/0: idle for")
    assert message["text"].count("```") == 2
    assert told.results == {("webhook", "failed"): 1}
    assert "secret" not in caplog.text
    assert "the webhook answered 500" in {getattr(record, "error", "")[:24] for record in caplog.records}


def test_a_link_needs_an_external_url() -> None:
    document = {"verdict": "v", "title": "t", "remedy": "r", "text": "x", "url": "https://gpus.example.org/#/job/4711"}
    assert slack_message(document)["text"] == "v\n*t*\nr\n<https://gpus.example.org/#/job/4711>\n```x```"


@pytest.mark.parametrize(
    ("user", "to"), [("ann", "ann@example.org"), (None, "root@example.org"), ("a@b, c", "root@example.org")]
)
def test_the_example_mails_the_user(tmp_path: Path, user: str | None, to: str) -> None:
    sendmail = tmp_path / "sendmail"
    sendmail.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/arguments"\ncat >"{tmp_path}/mail"\n')
    sendmail.chmod(0o755)
    document = {
        "title": "Job 4711: GPU 0:\nidle",
        "remedy": "End it.",
        "url": None,
        "text": "Job 4711 ...",
        "owner": {"user": user},
    }
    subprocess.run(
        [ROOT / "deploy/notify/mail-owner", "example.org"],
        input=json.dumps(document).encode(),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
    )
    mail = (tmp_path / "mail").read_text()
    assert f"To: {to}\n" in mail
    assert "Subject: Job 4711: GPU 0: idle\n" in mail
    assert "End it.\n\nJob 4711 ..." in mail
    assert (tmp_path / "arguments").read_text() == "-t -i\n"
