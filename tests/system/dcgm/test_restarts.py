"""Engine and stream that end and come back: what pulsed itself does not see for a moment changes no state."""

from __future__ import annotations

import os
import re
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.daemon import Daemon, serving
from tests.support.dcgm import RealDcgm, running
from tests.support.waiting import until
from tests.system.dcgm.answers import check_of

pytestmark = pytest.mark.slow


def streams(daemon: Daemon) -> dict[int, str]:
    """Return the running `dcgmi dmon` of a daemon, by process id the request of fields."""
    children = psutil.Process(daemon.process.pid).children(recursive=True)
    lines = {child.pid: child.cmdline() for child in children}
    return {pid: words[words.index("-e") + 1] for pid, words in lines.items() if "dmon" in words and "-e" in words}


def has_restarted(daemon: Daemon, number: int) -> bool:
    counted = re.search(r"^pulsed_source_restarts_total{.*} (\d+)$", daemon.get("/metrics").text, re.MULTILINE)
    return counted is not None and int(counted[1]) >= number and daemon.get("/-/ready").status == 200


def blinded(daemon: Daemon) -> list[dict[str, Any]]:
    """Return the checks that became unknown."""
    changes = daemon.get("/events/recent").json()["changes"]
    return [change for change in changes if change["event"] == "health" and change["after"] == "unknown"]


def test_a_restarted_stream_changes_no_check(h100: RealDcgm, tmp_path: Path) -> None:
    with serving(tmp_path, *h100.serves("dcgmi"), "--set", "source.interval=500ms") as daemon:
        until(lambda: check_of(daemon, 1, "ecc_uncorrectable") == "ok" and len(streams(daemon)) == 2)
        before = blinded(daemon)
        for number in (1, 2):
            fast = next(pid for pid, fields in streams(daemon).items() if "1001" in fields.split(","))
            os.kill(fast, signal.SIGKILL)
            until(partial(has_restarted, daemon, number))
        until(lambda: len(streams(daemon)) == 2)
        assert blinded(daemon) == before


def test_a_killed_engine_is_down_and_comes_back(h100: RealDcgm, tmp_path: Path) -> None:
    options = ("--set", "source.interval=500ms")
    with serving(tmp_path, *h100.serves("dcgmi"), *options) as daemon:
        until(lambda: check_of(daemon, 0, "ecc_uncorrectable") == "ok")
        h100.stop_engine(signal.SIGKILL)
        until(lambda: "host engine" in daemon.get("/-/ready").text)
        assert "no data yet" not in daemon.get("/-/ready").text
        h100.start_engine()
        until(lambda: daemon.get("/-/ready").status == 200)
        until(lambda: check_of(daemon, 0, "ecc_uncorrectable") == "ok")


def test_a_stopped_engine_is_told_from_one_that_has_given_nothing(h100: RealDcgm, tmp_path: Path) -> None:
    options = ("--set", "source.interval=500ms", "--set", "source.dcgmi.read_timeout=3s")
    with serving(tmp_path, *h100.serves("dcgmi"), *options) as daemon:
        assert h100.engine is not None
        h100.engine.send_signal(signal.SIGSTOP)
        until(lambda: daemon.get("/-/ready").status == 503)
        assert "no data yet" not in daemon.get("/-/ready").text
        h100.engine.send_signal(signal.SIGCONT)
        until(lambda: daemon.get("/-/ready").status == 200)


def test_another_driver_is_known_after_the_engine_has_loaded_it(h100: RealDcgm, tmp_path: Path) -> None:
    with serving(tmp_path, *h100.serves("dcgmi"), "--set", "source.interval=500ms") as daemon:
        until(lambda: 'driver_version="550.163.01"' in daemon.get("/metrics").text)
        h100.stop_engine()
        h100.board["system"]["driver_version"] = "580.105.08"
        h100.write_board()
        h100.start_engine()
        until(lambda: 'driver_version="580.105.08"' in daemon.get("/metrics").text)
        assert 'driver_version="550.163.01"' not in daemon.get("/metrics").text


@pytest.mark.nightly
def test_eight_gpus_at_ten_hertz_for_a_minute(tmp_path: Path) -> None:
    options = ("--set", "source.interval=100ms")
    with running("h100", None) as dcgm, serving(tmp_path, *dcgm.serves("dcgmi"), *options) as daemon:
        time.sleep(60.0)
        gpus = daemon.get("/gpus").json()["gpus"]
        assert [gpu["uuid"] for gpu in gpus] == [dcgm.gpu(index, "uuid") for index in range(8)]
        observed = re.findall(
            r"^pulsed_gpu_observed_seconds_total{.*} (\S+)$", daemon.get("/metrics").text, re.MULTILINE
        )
        assert len(observed) == 8
        assert min(map(float, observed)) > 55.0
        assert not blinded(daemon) or {change["check"] for change in blinded(daemon)} == {"temp_gpu"}
