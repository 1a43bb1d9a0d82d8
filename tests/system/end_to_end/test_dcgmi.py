"""The real daemon on a stand-in dcgmi: ten times a second, and through everything that goes wrong."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, pulsed, serving
from tests.support.nightly import nightly_after, nightly_rows_after
from tests.support.standin.install import Standin
from tests.support.standin.scenario import Fault, Scenario, gpus, with_mig
from tests.support.waiting import until

"""What a change may take to be seen, on a machine that does other things besides."""


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Standin(folder, Scenario(gpus=gpus("hopper", 2)))


def flags(standin: Standin, **keys: str) -> list[str]:
    given = {"source.interval": "100ms", "source.dcgmi.path": str(standin.path), "source.dcgmi.read_timeout": "1s"}
    return [
        "--source",
        "dcgmi",
        *(word for key, value in (given | keys).items() for word in ("--set", f"{key}={value}")),
    ]


def metric(daemon: Daemon, series: str) -> float | None:
    found = re.search(rf"^{re.escape(series)} (\S+)$", daemon.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else None


def samples(daemon: Daemon) -> float:
    return metric(daemon, 'pulsed_source_samples_total{source="localhost"}') or 0.0


def observed_seconds(daemon: Daemon) -> str:
    """The series of the first GPU."""
    gpu = daemon.get("/gpus/0").json()
    return f'pulsed_gpu_observed_seconds_total{{node="{gpu["node"]}",gpu="0",uuid="{gpu["uuid"]}"}}'


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("version", nightly_after(2, ["2.1.4", "4.5.3", "3.1.8", "4.4.1"]))
def test_every_layout_is_served_ten_times_a_second(tmp_path: Path, standin: Standin, version: str) -> None:
    standin.change(version=version, gpus=gpus("ampere", 2))
    with serving(tmp_path, *flags(standin)) as daemon:
        begun, first = time.monotonic(), samples(daemon)
        until(lambda: samples(daemon) >= first + 20)
        waited = 8  # ticks that come on top where the machine let the daemon stand still before
        assert samples(daemon) - first <= 12 * (time.monotonic() - begun) + waited, "not more often than was asked for"
        document = daemon.get("/gpus").json()
    assert [gpu["gpu"] for gpu in document["gpus"]] == ["0", "1"]
    for gpu in document["gpus"]:
        assert gpu["uuid"].startswith("GPU-")
        assert gpu["model"]
        assert gpu["metrics"]["sm_active_ratio"] is not None
        assert gpu["metrics"]["power_watts"] is not None


@pytest.mark.parametrize(
    ("fault", "reason"),
    nightly_rows_after(
        3,
        [
            (Fault("hang", after=10, starts=1), "hung"),
            (Fault("crash", after=10, starts=1), "stream_broke"),
            (Fault("engine_died", after=10, starts=1), "engine_unavailable"),
            (Fault("garbage", after=10, starts=1), "hung"),
            (Fault("close", after=10, starts=1), "stream_broke"),
            (Fault("half_row", after=10, starts=1), "stream_broke"),
        ],
    ),
    ids=lambda value: value.kind if isinstance(value, Fault) else value,
)
def test_a_broken_stream_is_told_counted_and_mended(
    tmp_path: Path, standin: Standin, fault: Fault, reason: str
) -> None:
    standin.change(faults=(fault,))
    errors = f'pulsed_source_errors_total{{source="localhost",reason="{reason}"}}'
    with serving(tmp_path, *flags(standin)) as daemon:
        begun = time.monotonic()
        observed = observed_seconds(daemon)
        assert metric(daemon, errors) is not None, "counted from 0 on"
        until(lambda: (metric(daemon, errors) or 0) >= 1)
        assert daemon.get("/-/healthy").status == 200
        broken = samples(daemon)
        until(lambda: samples(daemon) >= broken + 5)
        assert metric(daemon, 'pulsed_source_up{source="localhost"}') == 1
        assert (metric(daemon, 'pulsed_source_restarts_total{source="localhost"}') or 0) >= 1
        counted = metric(daemon, observed)
        assert counted is not None
        assert 0 < counted <= time.monotonic() - begun + 2, "a gap is not counted"


def test_a_daemon_that_stands_still_loses_no_time(tmp_path: Path, standin: Standin) -> None:
    """On a node whose cores are all taken: dcgmi's ticks wait, and are counted when they were printed."""
    stood_still = 1.5
    with serving(tmp_path, *flags(standin, **{"source.dcgmi.read_timeout": "20s"})) as daemon:
        labels = observed_seconds(daemon).partition("{")[2]

        def counted() -> tuple[float, float]:
            """Observed seconds of the first GPU, and the time of the last sample among them."""
            page = daemon.get("/metrics").text
            names = ("pulsed_gpu_observed_seconds_total", "pulsed_gpu_last_sample_timestamp_seconds")
            found = [re.findall(rf"^{name}{{{re.escape(labels)} (\S+)$", page, re.MULTILINE) for name in names]
            # A busy machine may have made no tick for so long that the GPU is not shown.
            return (float(found[0][0]), float(found[1][0])) if all(found) else (0.0, 0.0)

        until(lambda: counted()[0] > 0.5)
        (before, begun), ticks = counted(), samples(daemon)
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(stood_still)
        daemon.process.send_signal(signal.SIGCONT)
        until(lambda: samples(daemon) - ticks >= 8 * stood_still)
        after, ended = counted()
    assert stood_still - 0.3 <= after - before <= ended - begun + 0.2


def test_a_child_that_stands_still_is_a_gap_and_no_more(tmp_path: Path, standin: Standin) -> None:
    with serving(tmp_path, *flags(standin, **{"source.dcgmi.read_timeout": "10s"})) as daemon:
        until(lambda: samples(daemon) > 5)
        pid = standin.starts("dmon")[0].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0)
        stood = samples(daemon)
        os.kill(pid, signal.SIGCONT)
        until(lambda: samples(daemon) > stood + 5)
        assert metric(daemon, 'pulsed_source_restarts_total{source="localhost"}') == 0
        assert "Traceback" not in daemon.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_child_is_left_behind(tmp_path: Path, standin: Standin, number: signal.Signals) -> None:
    with serving(tmp_path, *flags(standin)) as daemon:
        until(lambda: samples(daemon) > 2)
        pids = [start.pid for start in standin.starts("dmon")]
        assert any(alive(pid) for pid in pids)
        daemon.stop(number)
        until(lambda: not any(alive(pid) for pid in pids))


def test_mig_instances_are_on_their_boards(tmp_path: Path, standin: Standin) -> None:
    whole, split = gpus("ampere", 2)
    standin.change(version="4.4.1", gpus=(whole, with_mig(split, "3g.40gb", "3g.40gb")))
    with serving(tmp_path, *flags(standin)) as daemon:
        until(lambda: len(daemon.get("/gpus").json()["gpus"]) == 4)
        found = daemon.get("/gpus").json()["gpus"]
    board = next(gpu for gpu in found if gpu["gpu"] == "1" and gpu["mig"] is None)
    instances = [gpu for gpu in found if gpu["mig"]]
    assert [gpu["gpu"] for gpu in instances] == ["1", "1"]
    assert {gpu["uuid"] for gpu in instances} == {board["uuid"]}
    assert all(gpu["metrics"]["power_watts"] is None for gpu in instances)
    assert board["metrics"]["power_watts"] is not None


def test_what_was_recorded_replays_byte_for_byte(tmp_path: Path, standin: Standin) -> None:
    record = tmp_path / "node.rec.gz"
    patient = flags(standin, **{"source.dcgmi.read_timeout": "30s"})
    assert pulsed("record", str(record), "--ticks", "15", *patient).returncode == 0
    replay = ("export", "--columns", "all", "--source", "replay", "--set", f"source.replay.path={record}")
    first, second = pulsed(*replay), pulsed(*replay)
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert first.stdout.count("\n") == 1 + 15 * 2
