"""A daemon with the limits of the chart's memory and of the unit's tasks, and clients that attack it.

`python -m tools.bench attacks` has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.attacks.http_clients import ATTACKS
from tests.support.attacks.watch import LOGIN, attacked, forget_peak, serving_with_tls
from tests.support.control_group import control_group
from tests.support.daemon import Daemon, serving
from tests.support.nightly import nightly_after
from tests.support.waiting import until

MEGABYTES = 128
TASKS = 64
SECONDS = 1.5

DEMO = ("--source", "demo", "--set", "source.stale_after=1m")
"""A busy machine may make its samples late, which is another 503."""

MAX_WORK = 1.5
"""CPU seconds from a request to its answer. It is 0.2 s; one connection accepted per iteration made it 3 s."""

SOON = 5.0
"""Seconds after an attack until its address is served again; a refusal asks for one."""

FIRST = (
    "trailers",
    "header_lines",
    "unfinished_heads",
    "large_histories_unread",
    "all_documents",
    "reports",
    "slow_readers_of_pages",
    "small_pipelined",
    "connection_flood",
    "odd_headers",
    "event_streams",
)
"""One of each kind; the others are variants of these, as those after the third of `OF_TLS`."""

OF_TLS = (
    "half_handshakes",
    "passwords",
    "slow_readers_of_pages",
    "slow_readers",
    "small_pipelined",
    "silent_connections",
    "garbage",
    "unfinished_heads",
    "short_lines",
)
"""Attacks whose memory or time is another with TLS and passwords."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with (
        control_group(MEGABYTES * 2**20, TASKS) as within,
        serving(tmp_path_factory.mktemp("plain"), *DEMO, within=within) as daemon,
    ):
        daemon.get("/gpus")
        yield daemon


@pytest.fixture(scope="module")
def tls_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with (
        control_group(MEGABYTES * 2**20, TASKS) as within,
        serving_with_tls(tmp_path_factory.mktemp("tls"), *DEMO, within=within) as daemon,
    ):
        yield daemon


@pytest.mark.parametrize("name", nightly_after(len(FIRST), dict.fromkeys((*FIRST, *ATTACKS))))
def test_the_daemon_survives_and_answers(daemon: Daemon, name: str) -> None:
    survives(daemon, name, None)


@pytest.mark.parametrize("name", nightly_after(3, OF_TLS))
def test_the_daemon_survives_and_answers_with_tls(tls_daemon: Daemon, name: str) -> None:
    survives(tls_daemon, name, LOGIN)


def survives(daemon: Daemon, name: str, login: tuple[str, str] | None) -> None:
    forget_peak(daemon.process.pid)
    seen = attacked(daemon, name, SECONDS, login)
    assert daemon.process.poll() is None, daemon.log()
    assert seen.failed == []
    assert seen.probes >= 2
    assert seen.longest_work < MAX_WORK
    assert seen.peak_megabytes < MEGABYTES
    assert "Traceback" not in daemon.log()
    for path in ("/gpus", "/history", "/metrics") if login is None else ("/-/ready",):
        # The attack's connections may still be ending: they count against its address.
        until(partial(is_served, daemon, path), SOON)


def is_served(daemon: Daemon, path: str) -> bool:
    return daemon.get(path).status == 200
