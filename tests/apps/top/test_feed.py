"""What is read of a daemon, and when."""

from __future__ import annotations

import io

import pytest

from pulsed.apps.daemon_client import DaemonUnreachable
from pulsed.apps.top.feed import JOBS, Connection, Feed, Wanted
from pulsed.apps.top.run import OwnSourceFailed
from pulsed.apps.top.session import NothingAnswered, TopSession
from pulsed.present.terminal.model import model_of
from pulsed.present.terminal.view_state import ViewState
from tests.apps.top.fake_daemon import FakeDaemon
from tests.support.waiting import SECONDS


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon()


@pytest.fixture
def feed(daemon: FakeDaemon) -> Feed:
    return Feed(daemon.connect, "node1", interval=0.0)


def test_all_owners_are_read_however_many_a_page_has(daemon: FakeDaemon, feed: Feed) -> None:
    (one,) = daemon.documents["/jobs"]["jobs"]
    daemon.documents["/jobs"] = {"jobs": [one] * 2, "running": 5}
    feed.want({"jobs": Wanted(JOBS)})
    feed.poll()
    assert len(feed.answers.documents["jobs"]["jobs"]) == 6
    paths = [path for path in daemon.paths if path.startswith("/jobs")]
    assert [path.partition("&offset=")[2] for path in paths] == ["", "2", "4"]


def test_only_what_the_view_needs_is_read(daemon: FakeDaemon, feed: Feed) -> None:
    feed.poll()
    assert daemon.routes() == ["/gpus", "/host", "/version", "/config"]
    feed.poll()
    assert daemon.routes() == ["/gpus"]
    feed.want({"detail": Wanted("/gpus/2"), "class": Wanted("/gpus/2/class"), "events": Wanted("/events/recent")})
    feed.poll()
    assert daemon.routes() == ["/gpus", "/gpus/2", "/gpus/2/class", "/events/recent"]
    feed.poll()
    assert daemon.routes() == ["/gpus", "/gpus/2", "/gpus/2/class", "/events/recent"]
    feed.want({"jobs": Wanted(JOBS, 60.0), "processes": Wanted("/processes", 60.0)})
    feed.poll()
    assert daemon.routes() == ["/gpus", "/jobs", "/processes"]
    feed.poll()
    assert daemon.routes() == ["/gpus"]


def test_history_is_of_fields_that_are_kept_and_read_once_per_point(daemon: FakeDaemon, feed: Feed) -> None:
    daemon.documents["/config"] = {"history": {"fields": ["sm_active_ratio", "power_watts"]}}
    session = TopSession([feed], ViewState(gpus=frozenset(("0", "7:3"))))
    for _ in range(3):
        feed.poll()
        session.update()
    (path,) = (path for path in daemon.paths if path.startswith("/history"))
    assert path == "/history?gpu=0,7%3A3&fields=sm_active_ratio&seconds=600&points=120&node=node1"
    daemon.routes()
    feed.poll()
    assert daemon.routes() == ["/gpus"]
    daemon.documents["/config"] = {"history": {"fields": ["power_watts"]}}
    other = TopSession([Feed(daemon.connect, "node1")], ViewState())
    for _ in range(3):
        other.feeds[0].poll()
        other.update()
    assert "/history" not in daemon.routes()


def test_an_error_keeps_the_last_answers_and_their_gpus_become_stale(daemon: FakeDaemon, feed: Feed) -> None:
    feed.poll()
    arrived = feed.answers.arrived
    assert arrived is not None
    daemon.is_up = False
    feed.poll()
    assert feed.answers.error == "cannot reach it. Start it"
    fresh, later = (model_of([feed.answers], arrived + seconds, 0.0) for seconds in (1.0, 6.0))
    assert [gpu.stale for gpu in fresh.gpus] == [False] * 8 + [True]
    assert all(gpu.stale for gpu in later.gpus)
    assert later.is_lost(later.daemons[0])
    daemon.is_up = True
    feed.poll()
    assert feed.answers.error == ""


def test_a_gpu_that_is_gone_has_no_detail(daemon: FakeDaemon, feed: Feed) -> None:
    daemon.missing = frozenset(("/gpus/2",))
    feed.want({"detail": Wanted("/gpus/2")})
    feed.poll()
    assert feed.answers.documents["detail"] == {}
    assert feed.answers.error == ""


def test_something_else_than_pulsed_is_an_error(daemon: FakeDaemon, feed: Feed) -> None:
    daemon.documents["/gpus"] = {"hello": "world"}
    feed.poll()
    assert "is not as this version of pulsed expects" in feed.answers.error
    assert "summary" not in feed.answers.documents


def test_a_daemon_that_is_not_found_is_looked_for_again(daemon: FakeDaemon) -> None:
    tries = []

    def connect() -> Connection:
        tries.append(1)
        if len(tries) < 3:
            raise DaemonUnreachable("nothing there", "Start it")
        return daemon.connect()

    feed = Feed(connect, "this host", interval=0.0)
    for _ in range(4):
        feed.poll()
    assert len(tries) == 3
    assert feed.answers.label == "http://node1:9401"


def test_replays_per_second_are_of_two_samples(daemon: FakeDaemon, feed: Feed) -> None:
    feed.poll()
    assert model_of([feed.answers], 0.0, 0.0).gpus[0].number("pcie_replays_per_second") is None
    summary = daemon.documents["/gpus"]
    daemon.documents["/gpus"] = {
        **summary,
        "sample_time": [time + 2 for time in summary["sample_time"]],
        "fields": {
            **summary["fields"],
            "pcie_replays_total": [5.0, None, *summary["fields"]["pcie_replays_total"][2:]],
        },
    }
    feed.poll()
    feed.poll()
    rates = [gpu.number("pcie_replays_per_second") for gpu in model_of([feed.answers], 0.0, 0.0).gpus]
    assert rates[:3] == [1.0, None, 0.0]


def test_a_frame_of_a_source_that_does_not_start_starts_it_once() -> None:
    starts: list[str] = []

    def start() -> Connection:
        starts.append("")
        raise OwnSourceFailed("no such key", "Correct it")

    session = TopSession([Feed(start, "this host")], ViewState())
    with pytest.raises(NothingAnswered, match="no such key"):
        session.print_once(io.StringIO(), (80, 24), "none", ascii=True, wait=SECONDS)
    assert len(starts) == 1
